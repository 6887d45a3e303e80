// SPDX-License-Identifier: Apache-2.0
// The experiments of the papers by name, and their results: rows, claims, charts and timelines.
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

// How the scenarios of an experiment are run.
enum class Mode : std::uint8_t {
  kFast,  // fast simulation: policies, stamps, striping and gate are called without messages
  kFull,  // full simulation: production clients and nodes exchange messages
  kLive,  // in real time: processes on this machine, with modelled devices
};
const char* name_of(Mode mode);  // "sim", "full", "live"

using Cell = std::variant<std::string, double, std::int64_t>;

// One measured value. `ours` was measured in this run.
//
// Reproduced: the paper's method on the paper's set-up. It holds inside low()..high(), a band around the paper's value;
// more than the paper's gain is a miss, too. Without `paper` it is a statement of the paper ("rises", "at worst"),
// which holds if `goal` is reached. Advance: our method against the best baseline. It holds if the goal is reached.
// With an interval, a claim that the interval does not decide neither holds nor fails.
struct Claim {
  enum class Goal : std::uint8_t { kAtMost, kAtLeast };
  static constexpr double kBand = 0.2;  // of the paper's value, in both directions

  std::string id;                 // unique and stable: "sc11-figure5.hdd.reduction"
  std::string what;               // one line of text
  std::string unit;               // "x", "%", "s", "MB/s"
  std::optional<double> paper{};  // value in the paper
  std::optional<double> goal{};   // our goal
  Goal goal_is = Goal::kAtMost;
  double ours = 0;
  std::optional<double> bound{};     // theoretical limit
  bool fitted = false;               // the model was fitted to the paper's value: printed, but neither holds nor fails
  bool undecidable = false;          // the set-up cannot decide it: printed, but neither holds nor fails
  bool reproduced = false;           // with `paper`, `goal` is not used
  std::optional<double> interval{};  // 95% confidence: ours +- interval. Nothing: not known, or no chance is involved

  std::optional<double> low() const { return reproduced && paper ? std::optional(*paper - band()) : std::nullopt; }
  std::optional<double> high() const { return reproduced && paper ? std::optional(*paper + band()) : std::nullopt; }
  std::optional<bool> holds() const;

 private:
  double band() const { return kBand * (*paper < 0 ? -*paper : *paper); }
};

// "yes", "NO", "fitted" or "undecided".
const char* verdict(const Claim& claim);

struct Line {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;   // as many as x
  bool reference = false;  // from a paper or formula; drawn differently from our values
};

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool bars = false;  // x values are categories: draws bars instead of lines
  bool logarithmic_x = false;
  std::vector<Line> lines;
  // Names of the categories of bars; x is an index into it. Empty: numbers.
  std::vector<std::string> x_names{};
};

// What jobs did over time, as in figures 4.1-4.6 of the thesis.
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

// A table beside the main one.
struct DetailTable {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;  // as many cells as columns
};

// What a result says, in one sentence and one picture. Shown first on a page and last on a terminal.
struct Answer {
  struct Bar {
    std::string name;
    double value = 0;
  };
  std::string sentence;
  std::string unit = "s";  // of the bars
  std::vector<Bar> bars{};
};

struct ExperimentResult {
  std::string name;
  std::string mode = "sim";  // name_of()
  std::string device;        // description of the devices
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;  // as many cells as columns
  std::vector<DetailTable> details{};
  Answer answer{};  // without a sentence: run_experiment() sets it from the claims
  std::vector<Claim> claims;
  std::vector<Chart> charts;
  std::vector<Timeline> timelines;
  double seconds = 0;  // real time that the experiment took
};

struct LabOptions {
  Mode mode = Mode::kFast;
  // Called from time to time with a line about the progress.
  std::function<void(const std::string&)> progress{};
};

struct Experiment {
  std::string name;
  std::string paper;   // file name of the paper in docs/papers.md; empty: our own
  std::string figure;  // in that paper
  std::string what;    // one line
  std::function<Result<ExperimentResult>(const LabOptions&)> run{};
  bool live = false, full = false;  // can run in these modes, too

  bool runs(Mode mode) const { return mode == Mode::kLive ? live : mode == Mode::kFull ? full : true; }
};

// All experiments, in the order of the papers.
const std::vector<Experiment>& experiments();
const Experiment* find_experiment(std::string_view name);

// Runs one experiment. kNotFound: unknown name; the message lists all names. kInvalid: it cannot run in
// this mode.
Result<ExperimentResult> run_experiment(std::string_view name, const LabOptions& options);

// The JSON array that the command line prints.
Json to_json(const std::vector<Experiment>& list);
Json to_json(const std::vector<ExperimentResult>& results);

}  // namespace tutti::lab
