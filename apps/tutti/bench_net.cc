// SPDX-License-Identifier: Apache-2.0
// tutti bench net: the way of a request through client, sockets and nodes, against a bare socket in the same run.
#include <fmt/core.h>
#include <sys/socket.h>
#include <tutti/client.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/table.h"
#include "bench.h"
#include "node/node.h"

namespace tutti::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLarge = 1 << 20;
constexpr std::size_t kSmall = 4 << 10;
constexpr std::size_t kAsk = 128;  // about what a request or an acknowledgement takes

struct NetArguments {
  bool quick = false;
  bool json = false;
  std::uint32_t nodes = 4;
};

struct Row {
  std::string what;  // "socket", "null", "posix"
  std::string direction;
  std::size_t size = 0;
  std::size_t threads = 0;
  std::size_t depth = 1;
  double requests_per_second = 0;
  double median_us = 0;
  double megabytes_per_second() const { return requests_per_second * static_cast<double>(size) / 1e6; }
};

bool send_all(int socket, const std::byte* data, std::size_t size) {
  while (size > 0) {
    const auto sent = ::send(socket, data, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    data += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, std::byte* data, std::size_t size) {
  while (size > 0) {
    const auto got = ::recv(socket, data, size, 0);
    if (got <= 0) return false;
    data += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Runs `operation(thread, serial)` on that many threads for that long, and fills in the row's figures.
void measure(Row& row, Duration duration, const std::function<bool(std::size_t, std::uint64_t)>& operation) {
  std::vector<std::vector<double>> latencies(row.threads);
  std::vector<std::thread> threads;
  const auto start = Clock::now();
  for (std::size_t t = 0; t < row.threads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t serial = 0; Clock::now() - start < duration; ++serial) {
        const auto begin = Clock::now();
        if (!operation(t, serial)) return;
        latencies[t].push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const std::chrono::duration<double> elapsed = Clock::now() - start;
  std::vector<double> all;
  for (const auto& of_thread : latencies) all.insert(all.end(), of_thread.begin(), of_thread.end());
  row.requests_per_second = static_cast<double>(all.size()) / elapsed.count();
  row.median_us = median(all);
}

// A loop over Unix sockets with nothing behind them: what the transport cannot beat.
Row bare_socket(const std::string& direction, std::size_t size, std::size_t threads, Duration duration) {
  Row row{.what = "socket", .direction = direction, .size = size, .threads = threads};
  const auto there = direction == "write" ? size : kAsk, back = direction == "write" ? kAsk : size;
  std::vector<std::array<int, 2>> pairs(threads);
  std::vector<std::thread> servers;
  for (auto& pair : pairs) {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) return row;
    const int buffer = 1 << 20;
    for (const int socket : pair) ::setsockopt(socket, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer);
    servers.emplace_back([socket = pair[1], there, back] {
      std::vector<std::byte> data(std::max(there, back));
      while (receive_all(socket, data.data(), there) && send_all(socket, data.data(), back)) {
      }
    });
  }
  std::vector<std::vector<std::byte>> memory(threads, std::vector<std::byte>(std::max(there, back)));
  measure(row, duration, [&](std::size_t t, std::uint64_t) {
    return send_all(pairs[t][0], memory[t].data(), there) && receive_all(pairs[t][0], memory[t].data(), back);
  });
  for (auto& pair : pairs) ::shutdown(pair[0], SHUT_RDWR);
  for (auto& server : servers) server.join();
  for (auto& pair : pairs) {
    ::close(pair[0]);
    ::close(pair[1]);
  }
  return row;
}

// Nodes in this process behind Unix sockets, and a client.
class Bench {
 public:
  static Result<std::unique_ptr<Bench>> start(const std::string& engine, std::uint32_t nodes) {
    auto bench = std::make_unique<Bench>();
    bench->engine_ = engine;
    bench->directory_ = std::filesystem::temp_directory_path() / fmt::format("tutti-bench-{}", ::getpid());
    std::filesystem::create_directories(bench->directory_ / "data");
    Cluster cluster;
    for (std::uint32_t i = 0; i < nodes; ++i) {
      NodeOptions options;
      options.name = fmt::format("node{}", i);
      options.directory = bench->directory_ / "data";
      options.listen = {"unix:" + (bench->directory_ / fmt::format("{}.sock", i)).string()};
      options.targets = {i};
      options.engine = engine;
      auto node = Node::start(options);
      if (!node) return Failure(node.error());
      cluster.nodes.push_back({options.name, options.listen.front(), {i}});
      bench->nodes_.push_back(std::move(*node));
    }
    bench->cluster_ = cluster;
    return bench;
  }
  ~Bench() {
    nodes_.clear();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  // One client per thread, as processes of a job have.
  Result<Row> run(const std::string& direction, std::size_t size, std::size_t threads, std::size_t depth,
                  Duration duration) {
    Row row{.what = engine_, .direction = direction, .size = size, .threads = threads, .depth = depth};
    std::vector<std::unique_ptr<Client>> clients;
    std::vector<std::shared_ptr<File>> files;
    std::vector<std::vector<std::byte>> memory(threads, std::vector<std::byte>(size * depth, std::byte{1}));
    for (std::size_t t = 0; t < threads; ++t) {
      auto client = Client::connect({.cluster = cluster_, .application = static_cast<ApplicationId>(t + 1)});
      if (!client) return Failure(client.error());
      auto file = (*client)->open(fmt::format("bench.{}", t), {.read = true, .write = true, .create = true});
      if (!file) return Failure(file.error());
      clients.push_back(std::move(*client));
      files.push_back(std::move(*file));
      for (std::uint64_t i = 0; i < kWindow; i += kLarge) {
        if (auto filled = files[t]->write(i, std::vector<std::byte>(kLarge)); !filled) return Failure(filled.error());
      }
    }
    const bool write = direction == "write";
    if (depth == 1) {
      measure(row, duration, [&](std::size_t t, std::uint64_t serial) {
        const auto offset = serial * size % kWindow;
        return (write ? files[t]->write(offset, memory[t]) : files[t]->read(offset, memory[t])).has_value();
      });
    } else {
      pipelined(row, files, memory, duration);
    }
    files.clear();
    return row;
  }

 private:
  static constexpr std::uint64_t kWindow = 16 << 20;

  // Keeps `depth` operations of each thread under way: each one that ends begins the next.
  static void pipelined(Row& row, const std::vector<std::shared_ptr<File>>& files,
                        std::vector<std::vector<std::byte>>& memory, Duration duration) {
    std::atomic<std::uint64_t> done{0};
    std::atomic<bool> over{false};
    std::atomic<std::size_t> running{0};
    std::function<void(std::size_t, std::size_t, std::uint64_t)> next = [&](std::size_t t, std::size_t slot,
                                                                            std::uint64_t serial) {
      const std::span<std::byte> into(memory[t].data() + slot * row.size, row.size);
      const auto offset = (serial * row.depth + slot) * row.size % kWindow;
      const auto again = [&, t, slot, serial](const Result<std::size_t>& result) {
        if (over || !result) {
          running.fetch_sub(1);
          running.notify_all();
          return;
        }
        done.fetch_add(1, std::memory_order_relaxed);
        next(t, slot, serial + 1);
      };
      if (row.direction == "write") {
        files[t]->write_async({{offset, into}}, again);
      } else {
        files[t]->read_async({{offset, into}}, again);
      }
    };
    const auto start = Clock::now();
    running = files.size() * row.depth;
    for (std::size_t t = 0; t < files.size(); ++t) {
      for (std::size_t slot = 0; slot < row.depth; ++slot) next(t, slot, 0);
    }
    std::this_thread::sleep_for(duration);
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    row.requests_per_second = static_cast<double>(done) / elapsed.count();
    over = true;
    for (auto left = running.load(); left > 0; left = running.load()) running.wait(left);
  }

  std::string engine_;
  std::filesystem::path directory_;
  std::vector<std::unique_ptr<Node>> nodes_;
  Cluster cluster_;
};

Result<std::vector<Row>> run_all(const NetArguments& arguments) {
  const Duration duration = arguments.quick ? std::chrono::milliseconds(300) : std::chrono::seconds(2);
  std::vector<Row> rows;
  for (const std::string direction : {"write", "read"}) {
    for (const std::size_t threads : {1, 4}) rows.push_back(bare_socket(direction, kLarge, threads, duration));
    rows.push_back(bare_socket(direction, kSmall, 1, duration));
  }
  for (const std::string engine : {"null", "posix"}) {
    auto bench = Bench::start(engine, arguments.nodes);
    if (!bench) return Failure(bench.error());
    auto add = [&](const std::string& direction, std::size_t size, std::size_t threads, std::size_t depth) {
      auto row = (*bench)->run(direction, size, threads, depth, duration);
      if (row) rows.push_back(*row);
      return row ? Result<void>{} : Failure(row.error());
    };
    for (const std::string direction : {"write", "read"}) {
      for (const auto& [size, threads, depth] :
           {std::tuple(kLarge, 1, 1), std::tuple(kLarge, 4, 1), std::tuple(kSmall, 1, 1), std::tuple(kSmall, 4, 16)}) {
        if (auto done = add(direction, size, threads, depth); !done) return Failure(done.error());
      }
    }
  }
  return rows;
}

// Against the bare socket of the same size, direction and threads, where there is one: bytes per second for large
// requests, round-trip time for small ones.
double ratio(const Row& row, const std::vector<Row>& rows) {
  for (const auto& base : rows) {
    const bool same = base.what == "socket" && base.direction == row.direction && base.size == row.size &&
                      base.threads == row.threads && base.depth == row.depth;
    if (!same || base.requests_per_second == 0) continue;
    return row.size == kLarge ? row.requests_per_second / base.requests_per_second : row.median_us / base.median_us;
  }
  return 0;
}

int run(const NetArguments& arguments) {
  auto rows = run_all(arguments);
  if (!rows) return report(rows.error());
  Table table({"what", "direction", "size", "threads", "depth", "MB/s", "requests/s", "median us", "vs socket"});
  auto document = nlohmann::ordered_json::array();
  for (const auto& row : *rows) {
    const auto against = ratio(row, *rows);
    table.add({row.what, row.direction, std::to_string(row.size), std::to_string(row.threads),
               std::to_string(row.depth), fmt::format("{:.0f}", row.megabytes_per_second()),
               fmt::format("{:.0f}", row.requests_per_second), fmt::format("{:.1f}", row.median_us),
               against > 0 ? fmt::format("{:.2f}", against) : ""});
    document.push_back({{"what", row.what},
                        {"direction", row.direction},
                        {"size", row.size},
                        {"threads", row.threads},
                        {"depth", row.depth},
                        {"megabytes_per_second", row.megabytes_per_second()},
                        {"requests_per_second", row.requests_per_second},
                        {"median_us", row.median_us},
                        {"ratio", against}});
  }
  if (arguments.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"rows", document}}.dump(2));
  } else {
    fmt::print("{}", table.text());
    fmt::print("\nvs socket: share of the bare socket's speed for 1 MiB, multiple of its round trip for 4 KiB.\n");
  }
  return kDone;
}

}  // namespace

Command bench_net_command() {
  return {"net", "Client, sockets and nodes against a bare socket loop in the same run", [](CLI::App& app) {
            auto arguments = std::make_shared<NetArguments>();
            app.add_flag("--quick", arguments->quick, "Short measurements");
            app.add_option("--nodes", arguments->nodes, "Nodes")->check(CLI::Range(1, 64))->capture_default_str();
            app.add_flag("--json", arguments->json, "One JSON document instead of a table");
            return [arguments] { return run(*arguments); };
          }};
}

}  // namespace tutti::cli
