// SPDX-License-Identifier: Apache-2.0
// tutti top: shows the use of each target by each application, live.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <thread>

#include "base/json.h"
#include "base/table.h"
#include "base/units.h"
#include "cluster.h"
#include "command.h"

namespace tutti::cli {
namespace {

using Seconds = std::chrono::duration<double>;

struct TopArguments {
  ClusterChoice cluster;
  Duration interval = std::chrono::seconds(1);
  bool once = false, json = false;
  std::size_t rows = 40;
};

struct Sample {
  std::chrono::steady_clock::time_point taken;
  std::map<wire::UsageKey, wire::Usage> usage;
  std::uint64_t waiting = 0, in_flight = 0;
  std::size_t nodes_up = 0;
};

struct TopRow {
  wire::Usage now;
  double read_rate = 0, write_rate = 0;  // bytes per second
  double request_rate = 0;
  Duration mean_wait{};  // per request in the interval
  double share = 0;      // of all bytes in the interval
};

// Takes samples of all nodes. Keeps connections open and reconnects to nodes that were lost.
class Watch {
 public:
  explicit Watch(const Cluster& cluster) : cluster_(cluster), links_(cluster.nodes.size()) {}

  Sample take() {
    Sample sample;
    sample.taken = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < links_.size(); ++i) {
      if (!links_[i])
        if (auto link = connect_to(cluster_, cluster_.nodes[i], std::chrono::seconds(1))) links_[i] = std::move(*link);
      if (!links_[i]) continue;
      auto statistics = links_[i]->statistics();
      if (!statistics) {
        links_[i] = nullptr;
        continue;
      }
      ++sample.nodes_up;
      sample.waiting += statistics->waiting;
      sample.in_flight += statistics->in_flight;
      for (const wire::Usage& usage : statistics->usage) add(sample, usage);
    }
    return sample;
  }

 private:
  // Several nodes may have served a target, if one took over for another: adds their counts.
  static void add(Sample& sample, const wire::Usage& usage) {
    auto [entry, fresh] = sample.usage.try_emplace(wire::usage_key(usage), usage);
    if (fresh) return;
    wire::Usage& sum = entry->second;
    sum.requests += usage.requests;
    sum.read_bytes += usage.read_bytes;
    sum.written_bytes += usage.written_bytes;
    sum.waiting += usage.waiting;
    sum.waiting_bytes += usage.waiting_bytes;
    sum.announced = usage.announced;
    sum.queued += usage.queued;
    sum.engine += usage.engine;
  }

  const Cluster& cluster_;
  std::vector<std::unique_ptr<Control>> links_;
};

// The increase of a counter. A node that was restarted counts from 0 again.
std::uint64_t since(std::uint64_t before, std::uint64_t now) {
  return now >= before ? now - before : now;
}

std::vector<TopRow> compare(const Sample& before, const Sample& now) {
  const double seconds = std::max(1e-3, Seconds(now.taken - before.taken).count());
  std::vector<TopRow> rows;
  double all = 0;
  for (const auto& [key, usage] : now.usage) {
    const auto found = before.usage.find(key);
    const wire::Usage earlier = found == before.usage.end() ? wire::Usage{} : found->second;
    const std::uint64_t requests = since(earlier.requests, usage.requests);
    if (requests == 0 && usage.waiting == 0) continue;
    TopRow row{.now = usage};
    row.read_rate = static_cast<double>(since(earlier.read_bytes, usage.read_bytes)) / seconds;
    row.write_rate = static_cast<double>(since(earlier.written_bytes, usage.written_bytes)) / seconds;
    row.request_rate = static_cast<double>(requests) / seconds;
    if (requests > 0)
      row.mean_wait = Duration(static_cast<std::int64_t>(
          since(static_cast<std::uint64_t>(earlier.queued.count()), static_cast<std::uint64_t>(usage.queued.count())) /
          requests));
    all += row.read_rate + row.write_rate;
    rows.push_back(row);
  }
  for (TopRow& row : rows) row.share = all > 0 ? (row.read_rate + row.write_rate) / all : 0;
  std::sort(rows.begin(), rows.end(), [](const TopRow& a, const TopRow& b) { return a.share > b.share; });
  return rows;
}

Json to_json(const Cluster& cluster, const Sample& sample, const std::vector<TopRow>& rows) {
  auto list = Json::array();
  for (const TopRow& row : rows)
    list.push_back({{"application", row.now.application},
                    {"user", row.now.user},
                    {"job", row.now.job},
                    {"target", row.now.target},
                    {"read_bytes_per_second", row.read_rate},
                    {"written_bytes_per_second", row.write_rate},
                    {"requests_per_second", row.request_rate},
                    {"waiting", row.now.waiting},
                    {"waiting_bytes", row.now.waiting_bytes},
                    {"announced_bytes", row.now.announced},
                    {"mean_wait_seconds", Seconds(row.mean_wait).count()},
                    {"share", row.share}});
  return {{"nodes", cluster.nodes.size()},
          {"nodes_up", sample.nodes_up},
          {"waiting", sample.waiting},
          {"in_flight", sample.in_flight},
          {"rows", list}};
}

std::string to_text(const Cluster& cluster, const Sample& sample, const std::vector<TopRow>& rows, std::size_t most) {
  Table table({"application", "user", "job", "target", "read MB/s", "write MB/s", "requests/s", "waiting", "mean wait",
               "share"});
  for (std::size_t i = 0; i < std::min(most, rows.size()); ++i) {
    const TopRow& row = rows[i];
    table.add({std::to_string(row.now.application), std::to_string(row.now.user), row.now.job,
               std::to_string(row.now.target), fmt::format("{:.1f}", row.read_rate / 1e6),
               fmt::format("{:.1f}", row.write_rate / 1e6), fmt::format("{:.0f}", row.request_rate),
               std::to_string(row.now.waiting), format(row.mean_wait), fmt::format("{:.0f}%", row.share * 100)});
  }
  return fmt::format("{} of {} nodes up, {} waiting, {} in flight\n\n{}{}", sample.nodes_up, cluster.nodes.size(),
                     sample.waiting, sample.in_flight, table.text(),
                     rows.size() > most ? fmt::format("... and {} more\n", rows.size() - most) : "");
}

int run(const TopArguments& arguments) {
  const auto cluster = arguments.cluster.load();
  if (!cluster) return report(cluster.error());
  Watch watch(*cluster);
  Sample before = watch.take();
  if (before.nodes_up == 0)
    return report({ErrorCode::kUnreachable, "no node of the cluster answers; 'tutti status' shows why"});
  do {
    std::this_thread::sleep_for(arguments.interval);
    Sample now = watch.take();
    const auto rows = compare(before, now);
    if (arguments.json)
      fmt::print("{}\n", to_json(*cluster, now, rows).dump(arguments.once ? 2 : -1));
    else
      fmt::print("{}{}", !arguments.once && isatty(1) ? "\033[H\033[2J" : "",
                 to_text(*cluster, now, rows, arguments.rows));
    std::fflush(stdout);
    before = std::move(now);
  } while (!arguments.once);
  return kDone;
}

}  // namespace

Command top_command() {
  return {"top", "Show the use of each target by each application, live", [](CommandLine& line) {
            auto arguments = std::make_shared<TopArguments>();
            arguments->cluster.define(line);
            line.option("--interval", arguments->interval, "Time between two updates, at least 1ms")
                .at_least(std::chrono::milliseconds(1));
            line.option("--rows", arguments->rows, "Maximum number of rows to print");
            line.flag("--once", arguments->once, "Exit after one interval");
            line.flag("--json", arguments->json, "Print one JSON document per interval instead of a table");
            line.action([arguments] { return run(*arguments); });
          }};
}

}  // namespace tutti::cli
