// SPDX-License-Identifier: Apache-2.0
// The answer of a result: one sentence and one picture.
#pragma once

#include <string>

#include "lab/experiment.h"

namespace tutti::lab {

// A time with the unit people read and this many digits: "976 µs", "1.31 s".
std::string time_text(double seconds, int digits = 3);

// One way to run the same jobs.
struct AnswerRun {
  std::string name;
  double mean = 0;      // seconds
  double makespan = 0;  // seconds
};

// "mean checkpoint 1.90 s → 1.31 s, 31% shorter; the last one 2% earlier". `what` is e.g. "mean checkpoint".
Answer compare_runs(const std::string& what, const AnswerRun& baseline, const AnswerRun& ours);

// The answer of one experiment: its first claim beside the paper or the goal, and how many claims hold.
Answer answer_of_claims(const std::vector<Claim>& claims);

// The answer of several experiments: how many claims hold, do not hold and are undecided.
Answer count_claims(const std::vector<ExperimentResult>& results);

// The sentence and its bars as text. Empty if there is no sentence.
std::string to_text(const Answer& answer);

}  // namespace tutti::lab
