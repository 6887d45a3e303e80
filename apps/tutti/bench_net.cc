// SPDX-License-Identifier: Apache-2.0
// tutti bench net: measures requests through client, sockets and nodes, and compares them with a bare socket, with
// nodes without storage and with storage without nodes. The sides of a comparison alternate in short slices, so that
// other load on the machine affects all of them.
#include <fmt/core.h>

#include <algorithm>

#include "base/json.h"
#include "base/table.h"
#include "bench.h"
#include "bench_net_runs.h"

namespace tutti::cli {
namespace {

struct NetArguments : BenchArguments {
  std::uint32_t nodes = 4;
  std::vector<std::string> only{};
  std::vector<std::string> directions{"write", "read"};
};

constexpr std::uint64_t kCached = 16 << 20;   // size of a file that fits into the page cache
constexpr std::uint64_t kDirect = 256 << 20;  // size of a file that bypasses the page cache

// The slices of one side.
struct NetRow {
  std::string what;  // "socket", "null", "traced", "posix", "direct", "fio", "engine"
  Shape shape;
  std::vector<Slice> slices{};

  double middle(double Slice::*figure) const {
    std::vector<double> values;
    for (const Slice& slice : slices) values.push_back(slice.*figure);
    return median(std::move(values));
  }
  double requests_per_second() const { return middle(&Slice::requests_per_second); }
  double median_us() const { return middle(&Slice::median_us); }
  double cpu_us() const { return middle(&Slice::cpu_us); }
  double megabytes_per_second() const { return requests_per_second() * static_cast<double>(shape.size) / 1e6; }
};

// A figure of one row, or its ratio to another row of the same round, with its goal.
struct Goal {
  std::string text;
  std::vector<double> values;  // of each round
  double bound = 0;
  bool at_least = true;
  double ours() const { return median(values); }
  bool holds() const { return at_least ? ours() >= bound : ours() <= bound; }
};

std::vector<double> ratios(const NetRow& ours, const NetRow& other, double Slice::*figure) {
  std::vector<double> values;
  for (std::size_t i = 0; i < std::min(ours.slices.size(), other.slices.size()); ++i)
    if (other.slices[i].*figure > 0) values.push_back(ours.slices[i].*figure / (other.slices[i].*figure));
  return values;
}

class Comparison {
 public:
  struct Entry {
    std::string what;
    SidePointer side;
  };
  struct Plan {
    std::size_t rounds;
    Duration slice;
  };

  // The sides alternate, in reverse order in every second round. The first round is a warm-up.
  static Result<std::vector<NetRow>> run(const Shape& shape, std::vector<Entry>& entries, const Plan& plan) {
    std::vector<NetRow> rows;
    for (const Entry& entry : entries) rows.push_back({entry.what, shape});
    for (std::size_t round = 0; round <= plan.rounds; ++round) {
      for (std::size_t i = 0; i < entries.size(); ++i) {
        const std::size_t turn = round % 2 == 0 ? i : entries.size() - 1 - i;
        auto slice = entries[turn].side->run(round == 0 ? plan.slice / 4 : plan.slice);
        if (!slice) return Failure(slice.error());
        if (round > 0) rows[turn].slices.push_back(*slice);
      }
    }
    return rows;
  }
};

class Rows {
 public:
  explicit Rows(const NetArguments& arguments) : arguments_(arguments) {}

  Result<void> run_all() {
    if (wanted("socket") || wanted("null") || wanted("traced") || wanted("posix"))
      if (auto done = run_cached(); !done) return done;
    return wanted("direct") ? run_direct() : Result<void>{};
  }

  const std::vector<NetRow>& rows() const { return rows_; }
  std::vector<Goal> goals() const;

 private:
  bool wanted(const std::string& what) const {
    return arguments_.only.empty() || std::ranges::find(arguments_.only, what) != arguments_.only.end();
  }
  Comparison::Plan plan() const {
    using std::chrono::milliseconds;
    return arguments_.quick ? Comparison::Plan{9, milliseconds(40)} : Comparison::Plan{15, milliseconds(200)};
  }
  Comparison::Plan storage_plan() const {  // longer, because fio needs time to start and end
    using std::chrono::milliseconds;
    return arguments_.quick ? Comparison::Plan{5, milliseconds(200)} : Comparison::Plan{9, milliseconds(1000)};
  }

  Result<void> compare(const Shape& shape, std::vector<Comparison::Entry>& entries, const Comparison::Plan& plan) {
    auto measured = Comparison::run(shape, entries, plan);
    if (!measured) return Failure(measured.error());
    rows_.insert(rows_.end(), measured->begin(), measured->end());
    return {};
  }

  Result<void> run_cached() {
    std::vector<std::pair<std::string, std::unique_ptr<BenchCluster>>> clusters;
    const TemporaryDirectory directories[3];
    for (const std::string engine : {"null", "traced", "posix"}) {
      if (!wanted(engine)) continue;
      NodeOptions options;
      options.engine = engine == "posix" ? "posix" : "null";
      if (engine == "traced") options.trace_directory = directories[clusters.size()] / "traces";
      auto cluster = BenchCluster::start(directories[clusters.size()], options, arguments_.nodes);
      if (!cluster) return Failure(cluster.error());
      clusters.emplace_back(engine, std::move(*cluster));
    }
    for (const std::string& direction : arguments_.directions)
      for (const Shape& shape : {Shape{direction, kLarge, 1, 1}, Shape{direction, kLarge, 4, 1},
                                 Shape{direction, kSmall, 1, 1}, Shape{direction, kSmall, 4, 16}}) {
        std::vector<Comparison::Entry> entries;
        if (wanted("socket") && shape.depth == 1) {
          auto side = make_socket_side(shape);
          if (!side) return Failure(side.error());
          entries.push_back({"socket", std::move(*side)});
        }
        for (const auto& [engine, cluster] : clusters) {
          if (engine == "traced" && shape.size == kLarge) continue;  // its cost is per request
          auto side = cluster->side(shape, kCached);
          if (!side) return Failure(side.error());
          entries.push_back({engine, std::move(*side)});
        }
        if (auto done = compare(shape, entries, plan()); !done) return done;
      }
    return {};
  }

  Result<void> run_direct() {
    const TemporaryDirectory directory;
    NodeOptions options;
    options.direct = true;
    auto cluster = BenchCluster::start(directory, options, arguments_.nodes);
    if (!cluster) return Failure(cluster.error());
    for (const std::string& direction : arguments_.directions) {
      const Shape shape{direction, kLarge, 1, 8, true};
      auto storage = make_storage_side(shape, directory, kDirect);
      if (!storage) return Failure(storage.error());
      auto ours = (*cluster)->side(shape, kDirect);
      if (!ours) return Failure(ours.error());
      std::vector<Comparison::Entry> entries;
      entries.push_back({has_fio() ? "fio" : "engine", std::move(*storage)});
      entries.push_back({"direct", std::move(*ours)});
      if (auto done = compare(shape, entries, storage_plan()); !done) return done;
    }
    return {};
  }

  const NetRow* find(const std::vector<std::string>& what, const NetRow& like) const {
    for (const NetRow& each : rows_)
      if (std::ranges::find(what, each.what) != what.end() && each.shape == like.shape &&
          each.requests_per_second() > 0)
        return &each;
    return nullptr;
  }

  const NetArguments& arguments_;
  std::vector<NetRow> rows_;
};

std::vector<Goal> Rows::goals() const {
  std::vector<Goal> goals;
  const auto name = [](const NetRow& row) {
    return fmt::format("{} {} of {} KiB, {} thread{}", row.what, row.shape.direction, row.shape.size >> 10,
                       row.shape.threads, row.shape.threads == 1 ? "" : "s");
  };
  const auto speed = [&](const NetRow& ours, const std::vector<std::string>& what, double bound) {
    if (const NetRow* other = find(what, ours))
      goals.push_back({fmt::format("{}: MB/s against {}", name(ours), other->what),
                       ratios(ours, *other, &Slice::requests_per_second), bound});
  };
  for (const NetRow& each : rows_) {
    if (each.what == "posix" && each.shape.size == kLarge) {
      speed(each, {"null"}, 0.7);
      speed(each, {"socket"}, 0.7);
    }
    if (const NetRow* untraced = each.what == "traced" ? find({"null"}, each) : nullptr) {
      const std::string traced = fmt::format("{}, depth {}: ", name(each), each.shape.depth);
      goals.push_back({traced + "requests/s against null", ratios(each, *untraced, &Slice::requests_per_second), 0.99});
      goals.push_back({traced + "CPU time against null", ratios(each, *untraced, &Slice::cpu_us), 1.01, false});
    }
    if (each.what == "direct") speed(each, {"fio", "engine"}, 0.9);
    if (each.what != "null" || each.shape.size != kSmall) continue;
    if (each.shape.depth > 1) {
      Goal goal{fmt::format("{}, depth {}: requests/s", name(each), each.shape.depth), {}, 1e5};
      for (const Slice& slice : each.slices) goal.values.push_back(slice.requests_per_second);
      goals.push_back(std::move(goal));
    } else if (const NetRow* socket = find({"socket"}, each)) {
      goals.push_back({fmt::format("{}: median time against socket", name(each)),
                       ratios(each, *socket, &Slice::median_us), 3, false});
    }
  }
  return goals;
}

void print(const Rows& rows) {
  Table table({"what", "direction", "size", "threads", "depth", "MB/s", "requests/s", "median us", "CPU us"});
  for (const NetRow& row : rows.rows())
    table.add({row.what, row.shape.direction, std::to_string(row.shape.size), std::to_string(row.shape.threads),
               std::to_string(row.shape.depth), fmt::format("{:.0f}", row.megabytes_per_second()),
               fmt::format("{:.0f}", row.requests_per_second()),
               row.median_us() > 0 ? fmt::format("{:.1f}", row.median_us()) : "-",
               row.cpu_us() > 0 ? fmt::format("{:.1f}", row.cpu_us()) : "-"});
  fmt::print("{}\n", table.text());
  const auto figure = [](double value) {
    return value < 1000 ? fmt::format("{:.3f}", value) : fmt::format("{:.0f}", value);
  };
  Table goals({"compared", "ours", "least", "most", "goal", "holds"});
  for (const Goal& goal : rows.goals())
    goals.add({goal.text, figure(goal.ours()), figure(std::ranges::min(goal.values)),
               figure(std::ranges::max(goal.values)), fmt::format("{} {:g}", goal.at_least ? ">=" : "<=", goal.bound),
               goal.holds() ? "yes" : "NO"});
  fmt::print("{}", goals.text());
  fmt::print(
      "\nsocket: a loop over Unix sockets; null: nodes that store nothing; traced: the same with --trace;\n"
      "posix: nodes over files in the page cache;\n"
      "direct: nodes around the page cache; fio (where it is installed, else engine: our own loop): the same "
      "directory\n"
      "without nodes. Medians of slices in which the sides took turns, and the least and most of a slice.\n");
}

Json to_json(const Rows& rows) {
  auto list = Json::array(), goals = Json::array();
  for (const NetRow& row : rows.rows()) {
    Json entry = {{"what", row.what},
                  {"direction", row.shape.direction},
                  {"size", row.shape.size},
                  {"threads", row.shape.threads},
                  {"depth", row.shape.depth},
                  {"megabytes_per_second", row.megabytes_per_second()},
                  {"requests_per_second", row.requests_per_second()},
                  {"median_us", row.median_us() > 0 ? Json(row.median_us()) : nullptr}};
    if (row.cpu_us() > 0) entry["cpu_us_per_request"] = row.cpu_us();  // of nodes
    list.push_back(std::move(entry));
  }
  for (const Goal& goal : rows.goals())
    goals.push_back({{"compared", goal.text},
                     {"ours", goal.ours()},
                     {"least", std::ranges::min(goal.values)},
                     {"most", std::ranges::max(goal.values)},
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
  return {"net", "Measure client, sockets and nodes, compared with a bare socket and bare storage",
          [](CommandLine& line) {
            auto arguments = std::make_shared<NetArguments>();
            arguments->define(line, "Measure for a shorter time");
            line.option("--nodes", arguments->nodes, "Number of nodes").between(1, 64);
            line.option("--only", arguments->only, "Measure only these (default: all)")
                .separated_by_commas()
                .one_of({"socket", "null", "traced", "posix", "direct"});
            line.option("--direction", arguments->directions, "Directions to measure")
                .separated_by_commas()
                .one_of({"write", "read"});
            line.action([arguments] { return run(*arguments); });
          }};
}

}  // namespace tutti::cli
