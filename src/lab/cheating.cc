// SPDX-License-Identifier: Apache-2.0
// Beyond the papers: what a job gains, and the others lose, if its user changes the stamps of its client (sim/trick.h).
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/prng.h"
#include "lab/catalogue.h"
#include "lab/tools.h"

namespace tutti::lab {
namespace {

using namespace literals;
using namespace std::chrono_literals;
using sim::PhaseSizes;
using sim::Trick;

struct NamedTrick {
  const char* name;
  Trick trick;
};
constexpr NamedTrick kNamedTricks[] = {{"understated size", Trick::kUnderstate}, {"overstated size", Trick::kOverstate},
                                       {"cut into phases", Trick::kCut},         {"many ids", Trick::kIds},
                                       {"10 ms behind", Trick::kBehind},         {"1 h behind", Trick::kHourBehind},
                                       {"10 ms ahead", Trick::kAhead},           {"1 h ahead", Trick::kHourAhead}};

struct JobMix {
  const char* name;
  bool equal;                      // all jobs have the same size; else sizes differ by up to 8
  unsigned author;                 // operations per phase of the job that cheats
  PhaseSizes author_sizes, sizes;  // how servers know the sizes of the author and of the others
};
constexpr JobMix kJobMixes[] = {{"equal jobs", true, 32, PhaseSizes::kAnnounced, PhaseSizes::kAnnounced},
                                {"large among unequal", false, 128, PhaseSizes::kAnnounced, PhaseSizes::kAnnounced},
                                {"small among unequal", false, 24, PhaseSizes::kAnnounced, PhaseSizes::kAnnounced},
                                {"others' sizes unknown", true, 32, PhaseSizes::kAnnounced, PhaseSizes::kUnknown},
                                {"all sizes unknown", true, 32, PhaseSizes::kUnknown, PhaseSizes::kUnknown}};
// concert also with an account per job although job numbers are not checked.
struct CheatedPolicy {
  const char* name;
  const char* policy;
  const char* account;  // empty: the default
};
constexpr CheatedPolicy kCheatedPolicies[] = {{"fifo", "fifo", ""},
                                              {"window", "window", ""},
                                              {"fair", "fair", ""},
                                              {"concert", "concert", ""},
                                              {"concert, account=job", "concert", "job"}};
constexpr unsigned kCheatingSeeds = 12, kHonestJobs = 9;

// Ten jobs that compute and write in turn, about as much as the servers can take. The first one is the author. Servers
// know the users of all jobs; a client can state many ids only if job numbers are not checked.
Scenario cheating_scenario(const JobMix& mix, const CheatedPolicy& policy, Trick trick, std::uint64_t seed) {
  Scenario scenario;
  scenario.name = "cheating";
  scenario.seed = seed;
  scenario.servers.count = 4;
  scenario.servers.depth = 4;
  scenario.servers.device = FixedFigures{.latency = 100us, .bandwidth = 400e6};
  scenario.servers.policy.name = policy.policy;
  if (*policy.account) scenario.servers.policy.options["account"] = policy.account;
  scenario.network.jitter = 50us;
  Prng chance(seed * 0x9e3779b97f4a7c15 + 1);
  for (unsigned i = 0; i <= kHonestJobs; ++i) {
    Application job;
    job.name = i == 0 ? "author" : fmt::format("job{}", i);
    job.user = 1000 + i;
    job.start = Duration(static_cast<std::int64_t>(chance.uniform(0, 3e8)));
    job.iterations = 6;
    job.compute = Duration(static_cast<std::int64_t>(chance.uniform(5e7, 4e8)));
    const double drawn = chance.uniform(16, 128);
    job.operations = i == 0 ? mix.author : mix.equal ? 32 : static_cast<unsigned>(drawn);
    job.size = 4_MiB;
    job.stripe_size = 256_KiB;
    job.outstanding = 4;
    job.direction = Direction::kWrite;
    job.sizes = i == 0 ? mix.author_sizes : mix.sizes;
    job.job_proven = trick != Trick::kIds;
    if (i == 0) job.trick = trick;
    scenario.applications.push_back(std::move(job));
  }
  return scenario;
}

// The mean phase of the author and of the others, in seconds.
struct PhaseTimes {
  double author = 0, others = 0;
};

Result<PhaseTimes> phase_times(const JobMix& mix, const CheatedPolicy& policy, Trick trick, std::uint64_t seed) {
  const auto outcome = sim::run(cheating_scenario(mix, policy, trick, seed), {.operation_records = false});
  if (!outcome) return Failure(outcome.error());
  if (!outcome->stuck.empty()) return fail(ErrorCode::kTimeout, outcome->stuck.front());
  PhaseTimes times;
  double authors = 0, others = 0;
  for (const sim::PhaseRecord& phase : outcome->phases) {
    const bool author = phase.application == 0;
    (author ? times.author : times.others) += std::chrono::duration<double>(phase.end - phase.begin).count();
    (author ? authors : others) += 1;
  }
  return PhaseTimes{times.author / authors, times.others / others};
}

// How much shorter the author's phases are, and how much longer those of the others: logarithms, one per seed.
struct Effect {
  std::vector<double> gain = std::vector<double>(kCheatingSeeds), loss = std::vector<double>(kCheatingSeeds);
};

bool wrong_clock(Trick trick) {
  return trick >= Trick::kBehind;
}

// The effects of all tricks under one policy.
using Effects = std::array<Effect, std::size(kNamedTricks)>;

// A job that states no sizes can only lie about the time.
bool possible(const JobMix& mix, Trick trick) {
  return wrong_clock(trick) || mix.author_sizes != PhaseSizes::kUnknown;
}

Result<void> add_effects(const JobMix& mix, const CheatedPolicy& policy, unsigned seed, Effects& effects) {
  const auto honest = phase_times(mix, policy, Trick::kNone, kFirstSeed + seed);
  if (!honest) return Failure(honest.error());
  for (std::size_t i = 0; i < effects.size(); ++i) {
    if (!possible(mix, kNamedTricks[i].trick)) continue;
    const auto cheating = phase_times(mix, policy, kNamedTricks[i].trick, kFirstSeed + seed);
    if (!cheating) return Failure(cheating.error());
    effects[i].gain[seed] = std::log(honest->author / cheating->author);
    effects[i].loss[seed] = std::log(cheating->others / honest->others);
  }
  return {};
}

// By policy.
using MixEffects = std::array<Effects, std::size(kCheatedPolicies)>;

Result<MixEffects> effects_of(const JobMix& mix) {
  MixEffects effects;
  std::vector<Result<void>> results(effects.size() * kCheatingSeeds, fail(ErrorCode::kStopped, "did not run"));
  std::vector<std::function<void()>> tasks;
  for (std::size_t i = 0; i < results.size(); ++i)
    tasks.push_back([&, policy = i / kCheatingSeeds, seed = static_cast<unsigned>(i % kCheatingSeeds), i] {
      results[i] = add_effects(mix, kCheatedPolicies[policy], seed, effects[policy]);
    });
  run_all(tasks);
  for (const auto& result : results)
    if (!result) return Failure(result.error());
  return effects;
}

// Geometric means, in percent.
ValueWithInterval percent_longer(const std::vector<double>& logarithms) {
  return jackknife(logarithms.size(),
                   [&](WithoutSeed without) { return 100 * (std::exp(mean_of(logarithms, without)) - 1); });
}
ValueWithInterval percent_shorter(const std::vector<double>& logarithms) {
  return jackknife(logarithms.size(),
                   [&](WithoutSeed without) { return 100 * (1 - std::exp(-mean_of(logarithms, without))); });
}

// The largest effects of one kind, in percent.
struct Worst {
  ValueWithInterval gain{-100}, loss{-100};
  ValueWithInterval harm{-100};  // how much longer the author's own phases get
  void add(const ValueWithInterval& shorter, const ValueWithInterval& longer) {
    if (shorter.value > gain.value) gain = shorter;
    if (longer.value > loss.value) loss = longer;
    if (-shorter.value > harm.value) harm = {-shorter.value, shorter.interval};
  }
};

}  // namespace

Result<ExperimentResult> cheating(const LabOptions& options) {
  ExperimentResult result;
  result.device = fmt::format("4 servers of 400 MB/s, 10 jobs, geometric means of {} seeds", kCheatingSeeds);
  result.columns = {"jobs", "trick", "policy", "author's phases shorter %", "others' phases longer %"};
  Worst tricks, window_clocks, concert_clocks;
  for (const JobMix& mix : kJobMixes) {
    say(options, fmt::format("cheating: {}", mix.name));
    const auto effects = effects_of(mix);
    if (!effects) return Failure(effects.error());
    for (std::size_t i = 0; i < std::size(kNamedTricks); ++i) {
      const NamedTrick& trick = kNamedTricks[i];
      if (!possible(mix, trick.trick)) continue;
      const bool clock = wrong_clock(trick.trick);
      for (std::size_t j = 0; j < std::size(kCheatedPolicies); ++j) {
        const CheatedPolicy& policy = kCheatedPolicies[j];
        const Effect& effect = (*effects)[j][i];
        const ValueWithInterval shorter = percent_shorter(effect.gain), longer = percent_longer(effect.loss);
        result.rows.push_back({mix.name, trick.name, policy.name, shorter.value, longer.value});
        if (clock && std::string_view(policy.policy) == "window") window_clocks.add(shorter, longer);
        if (clock && std::string_view(policy.policy) == "concert") concert_clocks.add(shorter, longer);
        if (std::string_view(policy.name) == "concert") tricks.add(shorter, longer);
      }
    }
  }
  const auto claim = [&](const char* id, const char* what, const ValueWithInterval& ours) {
    result.claims.push_back(with(
        {.id = fmt::format("cheating.{}", id), .what = what, .unit = "%", .goal = 5, .goal_is = Claim::Goal::kAtMost},
        ours));
  };
  claim("gain", "concert, the worst trick: how much shorter the author's phases get", tricks.gain);
  claim("loss", "concert, the worst trick: how much longer the others' phases get", tricks.loss);
  claim("window.clock.gain", "window, wrong clock: how much shorter the author's phases get", window_clocks.gain);
  claim("window.clock.loss", "window, wrong clock: how much longer the others' phases get", window_clocks.loss);
  claim("window.clock.harm", "window, wrong clock: how much longer the author's phases get", window_clocks.harm);
  claim("concert.clock.harm", "concert, wrong clock: how much longer the author's phases get", concert_clocks.harm);
  return result;
}

}  // namespace tutti::lab
