// SPDX-License-Identifier: Apache-2.0
// The papers' experiments by name, and what comes out of one: rows, claims, charts and timelines.
#pragma once

#include <tutti/base.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tutti {
class Json;
}

namespace tutti::lab {

using Cell = std::variant<std::string, double, std::int64_t>;

// One figure set against the paper's and our goal. Everything in `ours` was simulated or measured in this run.
struct Claim {
  enum class Goal : std::uint8_t { kAtMost, kAtLeast };
  std::string id;                 // stable, unique over all experiments: "sc11-figure5.hdd.reduction"
  std::string what;               // one line for people
  std::string unit;               // "x", "%", "s", "MB/s"
  std::optional<double> paper{};  // the paper's figure
  std::optional<double> goal{};   // ours to reach
  Goal kind = Goal::kAtMost;
  double ours = 0;
  std::optional<double> bound{};  // what cannot be beaten

  bool holds() const { return !goal || (kind == Goal::kAtMost ? ours <= *goal : ours >= *goal); }
};

struct Line {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;   // as many as x
  bool reference = false;  // a paper's or a formula's: drawn beside ours, and told apart from it
};

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool bars = false;  // x values are categories: bars side by side instead of lines
  bool logarithmic_x = false;
  std::vector<Line> lines;
  // Bars whose categories have names instead of figures: x counts into this.
  std::vector<std::string> x_names{};
};

// What jobs did when, as in the thesis's figures 4.1-4.6.
struct Timeline {
  struct Segment {
    enum class Kind : std::uint8_t { kCompute, kWaiting, kInputOutput };
    std::size_t job = 0;  // index into jobs
    Kind kind = Kind::kCompute;
    double from = 0;  // seconds
    double to = 0;
    double megabytes_per_second = 0;  // kInputOutput
  };
  std::string title;
  std::vector<std::string> jobs;
  std::vector<Segment> segments;
};

struct ExperimentResult {
  std::string name;
  std::string mode = "sim";  // or "live"
  std::string device;        // what served the requests
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;  // as many cells as columns
  std::vector<Claim> claims;
  std::vector<Chart> charts;
  std::vector<Timeline> timelines;
  double seconds = 0;  // how long it took
};

struct LabOptions {
  bool live =
      false;  // with real processes instead of in the simulator; an experiment that has only one form runs in it
  // Called with a line on what is being done, now and then.
  std::function<void(const std::string&)> progress{};
};

struct Experiment {
  std::string name;
  std::string paper;   // file name of the paper in docs/papers.md; empty: our own
  std::string figure;  // of that paper
  std::string what;    // one line
  using Run = std::function<Result<ExperimentResult>(const LabOptions&)>;
  Run run{};       // in the simulator
  Run run_live{};  // with real processes

  bool ready() const { return run || run_live; }  // else: not yet
  bool live() const { return static_cast<bool>(run_live); }
};

// Every experiment there is, in the order of the papers.
const std::vector<Experiment>& experiments();
const Experiment* find_experiment(std::string_view name);

// Runs one and measures how long it took. kNotFound with the names there are; kInvalid: it is not ready yet.
Result<ExperimentResult> run_experiment(std::string_view name, const LabOptions& options);

// As design.md section 7 has them: one JSON array.
Json to_json(const std::vector<Experiment>& list);
Json to_json(const std::vector<ExperimentResult>& results);

}  // namespace tutti::lab
