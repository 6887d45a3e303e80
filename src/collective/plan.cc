// SPDX-License-Identifier: Apache-2.0
#include "collective/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "collective/assemble.h"
#include "collective/division.h"
#include "collective/estimate.h"
#include "collective/own_data.h"

namespace tutti::collective {
namespace {

constexpr std::array kKinds = {PlanKind::kIndependent, PlanKind::kTwoPhase, PlanKind::kResonant,
                               PlanKind::kTimed,       PlanKind::kPaper,    PlanKind::kAuto};

Result<void> check(const Options& options) {
  if (options.in_flight == 0) return fail(ErrorCode::kInvalid, "in_flight is 0; requests of a rank, at least 1");
  if (options.list_io == 0) return fail(ErrorCode::kInvalid, "list_io is 0; extents per request, at least 1");
  if (options.buffer.count() == 0 || options.buffer.count() > std::uint64_t{1} << 40)
    return fail(ErrorCode::kInvalid, fmt::format("buffer of {} bytes: must be from 1 to 2^40", options.buffer.count()));
  if (options.device.interleave.count() == 0 || options.device.bandwidth <= 0 || options.device.network_bandwidth <= 0)
    return fail(ErrorCode::kInvalid, "device profile: bandwidths and interleave must be larger than 0");
  if (options.delay < Duration::zero() || options.delay > std::chrono::seconds(10))
    return fail(ErrorCode::kInvalid, fmt::format("delay of {} ns: must be from 0 to 10 s", options.delay.count()));
  return {};
}

// The same on all ranks.
struct Input {
  PreparedLists lists;
  Choice choice;
};

// ROMIO counts a rank as interleaved if it begins before the end of the rank before it.
bool interleaved(const PreparedLists& lists) {
  std::uint64_t end = 0;
  for (const PreparedLists::Range& range : lists.ranges) {
    if (range.end == 0) continue;
    if (range.begin < end) return true;
    end = range.end;
  }
  return false;
}

Choice choose(const PreparedLists& lists, Direction direction, const Layout& layout, const Options& options) {
  Choice choice{options.kind, direction == Direction::kRead ? options.read_form : ReadForm::kExchange};
  if (options.kind == PlanKind::kAuto)
    choice = candidates({lists, direction, layout, options, interleaved(lists)}).front().choice;
  if (choice.kind == PlanKind::kPaper) choice.kind = interleaved(lists) ? PlanKind::kResonant : PlanKind::kTimed;
  if (choice.kind == PlanKind::kTwoPhase) {
    choice.read_form = ReadForm::kExchange;
    if (!interleaved(lists)) choice.kind = PlanKind::kIndependent;
  }
  return choice;
}

constexpr double kMostPieces = static_cast<double>(std::uint64_t{1} << 31);

// A plan with exchanges has an entry for every stripe, or every buffer, of every extent. The limit keeps a wrong list
// or layout from using all memory.
Result<void> check_size(const PreparedLists& lists, const Choice& choice, const Layout& layout,
                        const Options& options) {
  const bool agents = choice.kind == PlanKind::kResonant;
  const double part = static_cast<double>(agents ? layout.stripe_size.count() : options.buffer.count());
  double pieces = 0;
  for (const PreparedLists::Range& range : lists.ranges) {
    pieces += static_cast<double>(range.extents);
    if (agents || choice.kind == PlanKind::kTwoPhase) pieces += static_cast<double>(range.bytes) / part;
  }
  if (pieces <= kMostPieces) return {};
  return fail(ErrorCode::kInvalid,
              fmt::format("the operation has about {:.3g} pieces, at most 2^31 can be planned; use fewer or larger "
                          "extents, or plan 'independent'",
                          pieces));
}

Result<Input> read_input(const Collective& collective, const Layout& layout, const Options& options) {
  if (auto checked = check(options); !checked) return Failure(checked.error());
  if (auto checked = layout.check(); !checked) return fail(checked.error().code, "layout: " + checked.error().message);
  if (collective.lists.empty() || collective.lists.size() > std::numeric_limits<Rank>::max())
    return fail(ErrorCode::kInvalid, "there are no access lists; one per rank is needed");
  auto prepared = prepare(collective.lists, collective.direction);
  if (!prepared) return Failure(prepared.error());
  Input input{std::move(*prepared), {}};
  if (input.lists.empty()) return input;
  input.choice = choose(input.lists, collective.direction, layout, options);
  if (auto checked = check_size(input.lists, input.choice, layout, options); !checked) return Failure(checked.error());
  return input;
}

}  // namespace

const char* name_of(PlanKind kind) {
  switch (kind) {
    case PlanKind::kIndependent:
      return "independent";
    case PlanKind::kTwoPhase:
      return "two-phase";
    case PlanKind::kResonant:
      return "resonant";
    case PlanKind::kTimed:
      return "timed";
    case PlanKind::kPaper:
      return "paper";
    case PlanKind::kAuto:
      return "auto";
  }
  return "unknown";
}

Result<PlanKind> parse_plan_kind(std::string_view name) {
  for (const PlanKind kind : kKinds)
    if (name == name_of(kind)) return kind;
  return fail(
      ErrorCode::kInvalid,
      fmt::format("there is no plan '{}'; there are: independent, two-phase, resonant, timed, paper, auto", name));
}

DeviceProfile DeviceProfile::flash() {
  DeviceProfile profile;
  profile.bandwidth = 500e6;
  profile.read_positioning = std::chrono::microseconds(40);
  profile.write_positioning = std::chrono::microseconds(75);
  return profile;
}

bool non_overlap_condition(const Collective& collective) {
  const auto prepared = prepare(collective.lists, Direction::kRead);
  return prepared && !interleaved(*prepared);
}

Result<std::vector<Estimate>> estimate(const Collective& collective, const Layout& layout, const Options& options) {
  auto input = read_input(collective, layout, options);
  if (!input) return Failure(input.error());
  std::vector<Estimate> result;
  if (input->lists.empty()) return result;
  const PreparedLists& lists = input->lists;
  for (const Candidate& each : candidates({lists, collective.direction, layout, options, interleaved(lists)}))
    result.push_back({each.choice.kind, each.seconds});
  return result;
}

Result<RankPlan> plan_rank(const Collective& collective, const Layout& layout, const Options& options, Rank rank) {
  if (rank >= collective.lists.size())
    return fail(ErrorCode::kInvalid, fmt::format("rank {}: there are {} access lists", rank, collective.lists.size()));
  auto input = read_input(collective, layout, options);
  if (!input) return Failure(input.error());
  const PlanContext context{collective.direction, input->choice, options};
  switch (input->choice.kind) {
    case PlanKind::kTwoPhase:
      return assemble_one(input->lists, FileDomains(input->lists, options), context, rank);
    case PlanKind::kResonant:
      return assemble_one(input->lists, TargetAgents(input->lists, layout, options), context, rank);
    default:
      return own_data_plan(input->lists, Stripes(layout).row(), context, chains(input->lists, layout, context),
                           starts(input->lists, layout, context), rank);
  }
}

Result<std::vector<RankPlan>> plan_all(const Collective& collective, const Layout& layout, const Options& options) {
  auto input = read_input(collective, layout, options);
  if (!input) return Failure(input.error());
  const PlanContext context{collective.direction, input->choice, options};
  switch (input->choice.kind) {
    case PlanKind::kTwoPhase:
      return assemble_all(input->lists, FileDomains(input->lists, options), context);
    case PlanKind::kResonant:
      return assemble_all(input->lists, TargetAgents(input->lists, layout, options), context);
    default: {
      const auto rules = chains(input->lists, layout, context);
      const auto begins = starts(input->lists, layout, context);
      const std::uint64_t row = Stripes(layout).row();
      std::vector<RankPlan> plans;
      for (Rank rank = 0; rank < collective.lists.size(); ++rank)
        plans.push_back(own_data_plan(input->lists, row, context, rules, begins, rank));
      return plans;
    }
  }
}

}  // namespace tutti::collective
