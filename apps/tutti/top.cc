// SPDX-License-Identifier: Apache-2.0
// tutti top: shows the use of each target by each application, live.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
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

struct TopRow {
  wire::Usage now;                                         // of all nodes that answer
  double read_rate = 0, write_rate = 0, request_rate = 0;  // per second, since the sample before
  std::uint64_t requests = 0;
  Duration queued{};  // of these requests
  double share = 0;   // of all bytes
  Duration mean_wait() const { return requests > 0 ? queued / static_cast<std::int64_t>(requests) : Duration{}; }
};

struct Sample {
  std::map<wire::UsageKey, TopRow> rows;
  std::uint64_t waiting = 0, in_flight = 0;
  std::size_t nodes_up = 0;
};

// The increase of a counter. A node that was restarted counts from 0 again.
std::uint64_t since(std::uint64_t before, std::uint64_t now) {
  return now >= before ? now - before : now;
}

// Several nodes may serve a target, if one takes over for another: adds their counts.
void add(wire::Usage& sum, const wire::Usage& usage) {
  sum.requests += usage.requests;
  sum.read_bytes += usage.read_bytes;
  sum.written_bytes += usage.written_bytes;
  sum.waiting += usage.waiting;
  sum.waiting_bytes += usage.waiting_bytes;
  sum.announced = usage.announced;
  sum.queued += usage.queued;
  sum.engine += usage.engine;
}

// Takes samples of all nodes. Keeps connections open and reconnects to nodes that were lost. Rates are those of each
// node since it answered last: its first answer has none.
class Watch {
 public:
  explicit Watch(const Cluster& cluster) : cluster_(cluster), nodes_(cluster.nodes.size()) {}

  Sample take() {
    Sample sample;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      WatchedNode& node = nodes_[i];
      if (!node.link)
        if (auto link = connect_to(cluster_, cluster_.nodes[i], std::chrono::seconds(1))) node.link = std::move(*link);
      if (!node.link) continue;
      auto statistics = node.link->statistics();
      if (!statistics) {
        node.link = nullptr;
        continue;
      }
      ++sample.nodes_up;
      sample.waiting += statistics->waiting;
      sample.in_flight += statistics->in_flight;
      add_rows(sample, node, statistics->usage);
    }
    double all = 0;
    for (const auto& [key, row] : sample.rows) all += row.read_rate + row.write_rate;
    for (auto& [key, row] : sample.rows) row.share = all > 0 ? (row.read_rate + row.write_rate) / all : 0;
    return sample;
  }

 private:
  struct WatchedNode {
    std::unique_ptr<Control> link{};
    std::chrono::steady_clock::time_point answered{};
    std::optional<std::map<wire::UsageKey, wire::Usage>> usage{};  // then
  };

  static void add_rows(Sample& sample, WatchedNode& node, const std::vector<wire::Usage>& usage) {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::max(1e-3, Seconds(now - node.answered).count());
    std::map<wire::UsageKey, wire::Usage> answer;
    for (const wire::Usage& each : usage) {
      const wire::UsageKey key = wire::usage_key(each);
      answer.emplace(key, each);
      const auto [entry, fresh] = sample.rows.try_emplace(key, TopRow{.now = each});
      TopRow& row = entry->second;
      if (!fresh) add(row.now, each);
      if (node.usage) add_increase(row, (*node.usage)[key], each, seconds);
    }
    node.usage = std::move(answer);
    node.answered = now;
  }

  static void add_increase(TopRow& row, const wire::Usage& before, const wire::Usage& now, double seconds) {
    const std::uint64_t requests = since(before.requests, now.requests);
    row.read_rate += static_cast<double>(since(before.read_bytes, now.read_bytes)) / seconds;
    row.write_rate += static_cast<double>(since(before.written_bytes, now.written_bytes)) / seconds;
    row.request_rate += static_cast<double>(requests) / seconds;
    row.requests += requests;
    row.queued += now.queued >= before.queued ? now.queued - before.queued : now.queued;
  }

  const Cluster& cluster_;
  std::vector<WatchedNode> nodes_;
};

// Those that were active, the largest first.
std::vector<TopRow> active_rows(const Sample& sample) {
  std::vector<TopRow> rows;
  for (const auto& [key, row] : sample.rows)
    if (row.requests > 0 || row.now.waiting > 0) rows.push_back(row);
  std::ranges::stable_sort(rows, std::greater<>(), &TopRow::share);
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
                    {"mean_wait_seconds", Seconds(row.mean_wait()).count()},
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
               std::to_string(row.now.waiting), format(row.mean_wait()), fmt::format("{:.0f}%", row.share * 100)});
  }
  return fmt::format("{} of {} nodes up, {} waiting, {} in flight\n\n{}{}", sample.nodes_up, cluster.nodes.size(),
                     sample.waiting, sample.in_flight, table.text(),
                     rows.size() > most ? fmt::format("... and {} more\n", rows.size() - most) : "");
}

int run(const TopArguments& arguments) {
  const auto cluster = arguments.cluster.load();
  if (!cluster) return report(cluster.error());
  Watch watch(*cluster);
  if (watch.take().nodes_up == 0)
    return report({ErrorCode::kUnreachable, "no node of the cluster answers; 'tutti status' shows why"});
  do {
    std::this_thread::sleep_for(arguments.interval);
    const Sample now = watch.take();
    const auto rows = active_rows(now);
    if (arguments.json)
      fmt::print("{}\n", to_json(*cluster, now, rows).dump(arguments.once ? 2 : -1));
    else
      fmt::print("{}{}", !arguments.once && isatty(1) ? "\033[H\033[2J" : "",
                 to_text(*cluster, now, rows, arguments.rows));
    std::fflush(stdout);
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
