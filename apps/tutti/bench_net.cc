// SPDX-License-Identifier: Apache-2.0
// tutti bench net: the way of a request through client, sockets and nodes, against a bare socket, against nodes with no
// storage behind them and against the storage without nodes, in the same run.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/table.h"
#include "bench.h"
#include "bench_net_runs.h"

namespace tutti::cli {
namespace {

struct NetArguments {
  bool quick = false;
  bool json = false;
  std::uint32_t nodes = 4;
  std::vector<std::string> only{};
};

constexpr std::uint64_t kCached = 16 << 20;   // of a file that stays in the page cache
constexpr std::uint64_t kDirect = 256 << 20;  // of one that is read and written around it

// A figure of one row, as a multiple of another's of the same shape or as it is, and what it should be.
struct Goal {
  std::string text;
  double ours = 0;
  double bound = 0;
  bool at_least = true;
  bool holds() const { return at_least ? ours >= bound : ours <= bound; }
};

class Rows {
 public:
  explicit Rows(const NetArguments& arguments) : arguments_(arguments) {}

  Result<void> run_all() {
    for (const std::string direction : {"write", "read"})
      for (const auto& [size, threads] : {std::pair(kLarge, 1), std::pair(kLarge, 4), std::pair(kSmall, 1)})
        if (wanted("socket")) rows_.push_back(run_socket(row("socket", direction, size, threads, 1), duration()));
    for (const std::string engine : {"null", "posix"}) {
      if (!wanted(engine)) continue;
      NodeOptions options;
      options.engine = engine;
      if (auto done =
              run_cluster(options, engine, {{kLarge, 1, 1}, {kLarge, 4, 1}, {kSmall, 1, 1}, {kSmall, 4, 16}}, kCached);
          !done)
        return done;
    }
    return wanted("direct") ? run_direct() : Result<void>{};
  }

  const std::vector<Row>& rows() const { return rows_; }
  std::vector<Goal> goals() const;

 private:
  struct Shape {
    std::size_t size, threads, depth;
  };

  static Row row(const std::string& what, const std::string& direction, std::size_t size, std::size_t threads,
                 std::size_t depth) {
    return {.what = what, .direction = direction, .size = size, .threads = threads, .depth = depth};
  }
  bool wanted(const std::string& what) const {
    return arguments_.only.empty() || std::ranges::find(arguments_.only, what) != arguments_.only.end();
  }
  Duration duration() const { return arguments_.quick ? std::chrono::milliseconds(300) : std::chrono::seconds(2); }

  Result<void> run_cluster(const NodeOptions& options, const std::string& what, const std::vector<Shape>& shapes,
                           std::uint64_t window) {
    const TemporaryDirectory directory;
    auto cluster = BenchCluster::start(directory, options, arguments_.nodes);
    if (!cluster) return Failure(cluster.error());
    for (const std::string direction : {"write", "read"})
      for (const Shape& shape : shapes) {
        auto measured =
            (*cluster)->run(row(what, direction, shape.size, shape.threads, shape.depth), duration(), window);
        if (!measured) return Failure(measured.error());
        rows_.push_back(*measured);
      }
    return {};
  }

  Result<void> run_direct() {
    const TemporaryDirectory directory;
    for (const std::string direction : {"write", "read"}) {
      auto measured = run_storage(row("fio", direction, kLarge, 1, 8), directory, duration(), kDirect);
      if (!measured) return Failure(measured.error());
      rows_.push_back(*measured);
    }
    NodeOptions options;
    options.direct = true;
    return run_cluster(options, "direct", {{kLarge, 1, 8}}, kDirect);
  }

  const Row* find(const std::vector<std::string>& what, const Row& like) const {
    for (const Row& each : rows_)
      if (std::ranges::find(what, each.what) != what.end() && each.direction == like.direction &&
          each.size == like.size && each.threads == like.threads && each.depth == like.depth &&
          each.requests_per_second > 0)
        return &each;
    return nullptr;
  }

  const NetArguments& arguments_;
  std::vector<Row> rows_;
};

std::vector<Goal> Rows::goals() const {
  std::vector<Goal> goals;
  const auto name = [](const Row& row) {
    return fmt::format("{} {} of {} KiB, {} thread{}", row.what, row.direction, row.size >> 10, row.threads,
                       row.threads == 1 ? "" : "s");
  };
  const auto speed = [&](const Row& ours, const std::vector<std::string>& what, double bound) {
    if (const Row* other = find(what, ours))
      goals.push_back({fmt::format("{}: MB/s against {}", name(ours), other->what),
                       ours.requests_per_second / other->requests_per_second, bound});
  };
  for (const Row& each : rows_) {
    if (each.what == "posix" && each.size == kLarge) {
      speed(each, {"null"}, 0.7);
      speed(each, {"socket"}, 0.7);
    }
    if (each.what == "direct") speed(each, {"fio", "engine"}, 0.9);
    if (each.what != "null" || each.size != kSmall) continue;
    if (each.depth > 1)
      goals.push_back({fmt::format("{}, depth {}: requests/s", name(each), each.depth), each.requests_per_second, 1e5});
    else if (const Row* socket = find({"socket"}, each))
      goals.push_back(
          {fmt::format("{}: median time against socket", name(each)), each.median_us / socket->median_us, 3, false});
  }
  return goals;
}

void print(const Rows& rows) {
  Table table({"what", "direction", "size", "threads", "depth", "MB/s", "requests/s", "median us"});
  for (const Row& row : rows.rows())
    table.add({row.what, row.direction, std::to_string(row.size), std::to_string(row.threads),
               std::to_string(row.depth), fmt::format("{:.0f}", row.megabytes_per_second()),
               fmt::format("{:.0f}", row.requests_per_second),
               row.median_us > 0 ? fmt::format("{:.1f}", row.median_us) : "-"});
  fmt::print("{}\n", table.text());
  Table goals({"compared", "ours", "goal", "holds"});
  for (const Goal& goal : rows.goals())
    goals.add({goal.text, goal.ours < 1000 ? fmt::format("{:.2f}", goal.ours) : fmt::format("{:.0f}", goal.ours),
               fmt::format("{} {:g}", goal.at_least ? ">=" : "<=", goal.bound), goal.holds() ? "yes" : "NO"});
  fmt::print("{}", goals.text());
  fmt::print(
      "\nsocket: a loop over Unix sockets; null: nodes that store nothing; posix: nodes over files in the page cache;\n"
      "direct: nodes around the page cache; fio (where it is installed, else engine: our own loop): the same "
      "directory\n"
      "without nodes.\n");
}

nlohmann::ordered_json to_json(const Rows& rows) {
  auto list = nlohmann::ordered_json::array(), goals = nlohmann::ordered_json::array();
  for (const Row& row : rows.rows())
    list.push_back({{"what", row.what},
                    {"direction", row.direction},
                    {"size", row.size},
                    {"threads", row.threads},
                    {"depth", row.depth},
                    {"megabytes_per_second", row.megabytes_per_second()},
                    {"requests_per_second", row.requests_per_second},
                    {"median_us", row.median_us > 0 ? nlohmann::ordered_json(row.median_us) : nullptr}});
  for (const Goal& goal : rows.goals())
    goals.push_back({{"compared", goal.text},
                     {"ours", goal.ours},
                     {"goal", goal.bound},
                     {"at_least", goal.at_least},
                     {"holds", goal.holds()}});
  return {{"rows", list}, {"goals", goals}};
}

int run(const NetArguments& arguments) {
  Rows rows(arguments);
  if (auto done = rows.run_all(); !done) return report(done.error());
  if (arguments.json)
    fmt::print("{}\n", to_json(rows).dump(2));
  else
    print(rows);
  return kDone;
}

}  // namespace

Command bench_net_command() {
  return {"net", "Client, sockets and nodes against a bare socket and bare storage in the same run", [](CLI::App& app) {
            auto arguments = std::make_shared<NetArguments>();
            app.add_flag("--quick", arguments->quick, "Short measurements");
            app.add_option("--nodes", arguments->nodes, "Nodes")->check(CLI::Range(1, 64))->capture_default_str();
            app.add_option("--only", arguments->only, "Some of socket, null, posix, direct")
                ->delimiter(',')
                ->check(CLI::IsMember({"socket", "null", "posix", "direct"}));
            app.add_flag("--json", arguments->json, "One JSON document instead of tables");
            return [arguments] { return run(*arguments); };
          }};
}

}  // namespace tutti::cli
