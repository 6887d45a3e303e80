// SPDX-License-Identifier: Apache-2.0
// tutti bench plan: measures the processor time to plan a collective operation, for one rank's own part and for all
// ranks.
#include <fmt/core.h>

#include <algorithm>
#include <ctime>

#include "base/json.h"
#include "base/print_error.h"
#include "base/prng.h"
#include "base/table.h"
#include "bench.h"
#include "collective/plan.h"

namespace tutti::cli {
namespace {

using collective::PlanKind;
using collective::Rank;

constexpr std::uint64_t kExtents = 4096;  // per rank
constexpr std::uint64_t kBlock = 4096;
constexpr double kOwnGoal = 50, kAllGoal = 1000;  // milliseconds, at 1,024 ranks

struct PlanArguments : BenchArguments {
  Rank ranks = 1024;
};

struct PlanRow {
  std::string plan, lists;
  double own = 0, all = 0;  // milliseconds
  double stored = 0;        // extents in all plans, per extent in the lists
};

// Ranks write blocks in turn. Regular: equal blocks, one run per rank. Irregular: every block has another size.
// Scattered: ranks also have another order in every turn, so that the data of each rank is on all targets.
collective::Collective lists_of(Rank ranks, std::string_view form) {
  collective::Collective collective{Direction::kWrite, {}};
  Prng random(1);
  std::vector<std::uint64_t> shifts(kExtents, 0);
  if (form == "scattered")
    for (std::uint64_t& shift : shifts) shift = random.below(ranks);
  for (Rank rank = 0; rank < ranks; ++rank) {
    collective::AccessList list;
    if (form == "regular") list.push_back({rank * kBlock, kBlock, ranks * kBlock, kExtents});
    for (std::uint64_t i = 0; form != "regular" && i < kExtents; ++i) {
      const std::uint64_t block = i * ranks + (rank + shifts[i]) % ranks;
      list.push_back({block * kBlock + random.below(2000), 1 + random.below(2000), 0, 1});
    }
    collective.lists.push_back(std::move(list));
  }
  return collective;
}

// Processor time, which other load of the machine changes little. Planning uses one thread.
template <typename Step>
double milliseconds(Step step) {
  const std::clock_t start = std::clock();
  step();
  return static_cast<double>(std::clock() - start) * 1e3 / CLOCKS_PER_SEC;
}

// One rank's own part: the slower of the rank with the largest part, an agent if there are agents, and the first rank.
// Each is the fastest of five tries.
Result<PlanRow> measure(const collective::Collective& collective, PlanKind kind, std::string_view form) {
  const Layout layout = Layout::round_robin(Bytes(64 << 10), 16);
  const collective::Options options{.kind = kind};
  PlanRow row{.plan = name_of(kind), .lists = std::string(form)};
  auto plans = plan_all(collective, layout, options);
  if (!plans) return Failure(plans.error());
  for (const auto& plan : *plans) row.stored += static_cast<double>(plan.extents.size());
  row.stored /= static_cast<double>(plans->size()) * kExtents;
  const auto largest = std::ranges::max_element(*plans, {}, [](const auto& plan) { return plan.extents.size(); });
  const auto agent = static_cast<Rank>(largest - plans->begin());
  plans->clear();
  row.all = milliseconds([&] { plans = plan_all(collective, layout, options); });
  for (const Rank rank : {Rank{0}, agent}) {
    double fastest = 1e9;
    for (int i = 0; i < 5; ++i)
      fastest = std::min(fastest, milliseconds([&] { (void)plan_rank(collective, layout, options, rank); }));
    row.own = std::max(row.own, fastest);
  }
  return row;
}

int run(const PlanArguments& arguments) {
  std::vector<PlanRow> rows;
  for (const char* form : {"regular", "irregular", "scattered"}) {
    const auto collective = lists_of(arguments.quick ? 128 : arguments.ranks, form);
    for (const PlanKind kind : {PlanKind::kTwoPhase, PlanKind::kResonant, PlanKind::kTimed, PlanKind::kAuto}) {
      auto row = measure(collective, kind, form);
      if (!row) {
        print_error("tutti: bench plan: {}\n", row.error().message);
        return 1;
      }
      rows.push_back(std::move(*row));
    }
  }
  auto json = Json::array();
  Table table({"plan", "lists", "own part ms", "goal", "all ranks ms", "goal", "extents stored / given"});
  for (const PlanRow& row : rows) {
    json.push_back({{"plan", row.plan},
                    {"lists", row.lists},
                    {"own_milliseconds", row.own},
                    {"all_milliseconds", row.all},
                    {"stored_per_extent", row.stored}});
    table.add({row.plan, row.lists, fmt::format("{:.1f}", row.own), fmt::format("{:.0f}", kOwnGoal),
               fmt::format("{:.0f}", row.all), fmt::format("{:.0f}", kAllGoal), fmt::format("{:.2f}", row.stored)});
  }
  if (arguments.json)
    fmt::print("{}\n", Json{{"rows", json}}.dump(2));
  else
    fmt::print("{}", table.text());
  return 0;
}

}  // namespace

Command bench_plan_command() {
  return {"plan", "Measure the processor time to plan collective I/O", [](CommandLine& line) {
            auto arguments = std::make_shared<PlanArguments>();
            arguments->define(line, "Plan for 128 ranks");
            line.option("--ranks", arguments->ranks, "Number of ranks, with 4096 extents each").between(1, 4096);
            line.action([arguments] { return run(*arguments); });
          }};
}

}  // namespace tutti::cli
