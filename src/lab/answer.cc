// SPDX-License-Identifier: Apache-2.0
#include "lab/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tutti::lab {
namespace {

// "31% shorter", "2% longer", "the same".
std::string change(double before, double after, const char* less, const char* more) {
  const double percent = before > 0 ? 100 * (after / before - 1) : 0;
  if (std::abs(percent) < 0.5) return "the same";
  return fmt::format("{:.0f}% {}", std::abs(percent), percent < 0 ? less : more);
}

// All digits before the point, and after it as many as are needed for `digits` digits.
std::string rounded(double value, int digits) {
  const double size = std::abs(value) * (1 + 0.5 * std::pow(10, -digits));  // 9.996 rounds to 10.0
  const int places = value == 0 ? 0 : digits - 1 - static_cast<int>(std::floor(std::log10(size)));
  return fmt::format("{:.{}f}", value, std::clamp(places, 0, 9));
}

std::string with_unit(double value, const std::string& unit) {
  if (unit == "s") return time_text(value);
  const std::string number = fmt::format("{:.3g}", value);
  return unit.empty() ? number : unit == "%" || unit == "x" ? number + unit : number + " " + unit;
}

// "3 of 4 claims hold; not: ID". Empty if none is decided.
std::string verdict_of(const std::vector<const Claim*>& claims) {
  std::size_t decided = 0;
  std::vector<std::string> failing;
  for (const Claim* claim : claims) {
    if (!claim->holds()) continue;
    ++decided;
    if (!*claim->holds()) failing.push_back(claim->id);
  }
  if (decided == 0) return "";
  std::string text = fmt::format("{} of {} claims hold", decided - failing.size(), decided);
  constexpr std::size_t kMost = 3;
  const std::size_t shown = std::min(failing.size(), kMost);
  if (shown > 0)
    text += fmt::format("; not: {}", fmt::join(failing.begin(), failing.begin() + static_cast<long>(shown), ", "));
  if (failing.size() > shown) text += fmt::format(" and {} more", failing.size() - shown);
  return text;
}

}  // namespace

std::string time_text(double seconds, int digits) {
  const double size = std::abs(seconds);
  const double limit = 1 - 0.5 * std::pow(10, -digits);  // rounds to one of the next unit
  if (size == 0 || size >= limit) return rounded(seconds, digits) + " s";
  if (size >= limit * 1e-3) return rounded(seconds * 1e3, digits) + " ms";
  if (size >= limit * 1e-6) return rounded(seconds * 1e6, digits) + " \u00b5s";
  return rounded(seconds * 1e9, digits) + " ns";
}

Answer compare_runs(const std::string& what, const AnswerRun& baseline, const AnswerRun& ours) {
  return {.sentence = fmt::format("{} {} \u2192 {}, {}; the last one {}", what, time_text(baseline.mean),
                                  time_text(ours.mean), change(baseline.mean, ours.mean, "shorter", "longer"),
                                  change(baseline.makespan, ours.makespan, "earlier", "later")),
          .bars = {{baseline.name, baseline.mean}, {ours.name, ours.mean}}};
}

Answer answer_of_claims(const std::vector<Claim>& claims) {
  if (claims.empty()) return {};
  const auto compared = [](const Claim& claim) { return !claim.fitted && (claim.paper || claim.goal); };
  const auto found = std::find_if(claims.begin(), claims.end(), compared);
  const Claim& main = found == claims.end() ? claims.front() : *found;
  Answer answer{.sentence = fmt::format("{}: {}", main.what, with_unit(main.ours, main.unit)), .unit = main.unit};
  if (main.paper) {
    answer.sentence += fmt::format(" (paper: {})", with_unit(*main.paper, main.unit));
    answer.bars = {{"paper", *main.paper}};
  } else if (main.goal) {
    answer.sentence += fmt::format(" (goal: {})", with_unit(*main.goal, main.unit));
    answer.bars = {{"goal", *main.goal}};
  }
  answer.bars.push_back({"ours", main.ours});
  std::vector<const Claim*> all;
  for (const Claim& claim : claims) all.push_back(&claim);
  if (const std::string verdict = verdict_of(all); !verdict.empty()) answer.sentence += "; " + verdict;
  return answer;
}

Answer count_claims(const std::vector<ExperimentResult>& results) {
  std::vector<const Claim*> all;
  double hold = 0, fail = 0, open = 0;
  for (const ExperimentResult& result : results)
    for (const Claim& claim : result.claims) {
      all.push_back(&claim);
      ++(!claim.holds() ? open : *claim.holds() ? hold : fail);
    }
  Answer answer{.sentence = verdict_of(all), .unit = ""};
  if (hold > 0) answer.bars.push_back({"hold", hold});
  if (fail > 0) answer.bars.push_back({"do not hold", fail});
  if (open > 0) answer.bars.push_back({"fitted or undecided", open});
  return answer;
}

std::string to_text(const Answer& answer) {
  if (answer.sentence.empty()) return "";
  std::string text = answer.sentence + "\n";
  constexpr double kWidth = 50;
  std::size_t names = 0;
  double longest = 0;
  for (const Answer::Bar& bar : answer.bars) {
    names = std::max(names, bar.name.size());
    longest = std::max(longest, std::abs(bar.value));
  }
  for (const Answer::Bar& bar : answer.bars) {
    std::string blocks;
    const long count = longest > 0 ? std::lround(kWidth * std::abs(bar.value) / longest) : 0;
    for (long i = 0; i < count; ++i) blocks += bar.value < 0 ? "\u2591" : "\u2588";
    text += fmt::format("  {:<{}}  {} {}\n", bar.name, names, blocks, with_unit(bar.value, answer.unit));
  }
  return text;
}

}  // namespace tutti::lab
