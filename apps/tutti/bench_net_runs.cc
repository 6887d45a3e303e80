// SPDX-License-Identifier: Apache-2.0
#include "bench_net_runs.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/engine.h"
#include "engine/root.h"
#include "net/buffer.h"

namespace tutti::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kAsk = 128;  // about what a request or an acknowledgement takes

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

// Takes the samples of all threads and fills in the row's figures.
void summarise(Row& row, const std::vector<std::vector<double>>& latencies, std::chrono::duration<double> elapsed) {
  std::vector<double> all;
  for (const auto& some : latencies) all.insert(all.end(), some.begin(), some.end());
  if (all.empty()) return;
  row.requests_per_second = static_cast<double>(all.size()) / elapsed.count();
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::ranges::nth_element(all, middle);
  row.median_us = *middle;
}

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
        latencies[t].push_back(microseconds_since(begin));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  summarise(row, latencies, Clock::now() - start);
}

// Keeps `depth` operations of each thread under way: each one that ends begins the next.
class Pipeline {
 public:
  using Next = std::function<void(Result<std::size_t>)>;
  // Begins an operation of `thread` in `slot`, the `serial`th there, and calls the last argument at its end.
  using Begin = std::function<void(std::size_t thread, std::size_t slot, std::uint64_t serial, Next)>;

  Pipeline(Row& row, Begin begin) : row_(row), begin_(std::move(begin)), latencies_(row.threads * row.depth) {}

  void run(Duration duration) {
    const auto start = Clock::now();
    running_ = latencies_.size();
    for (std::size_t i = 0; i < latencies_.size(); ++i) next(i, 0);
    std::this_thread::sleep_for(duration);
    over_ = true;
    for (auto left = running_.load(); left > 0; left = running_.load()) running_.wait(left);
    summarise(row_, latencies_, Clock::now() - start);
  }

 private:
  void next(std::size_t index, std::uint64_t serial) {
    begin_(index / row_.depth, index % row_.depth, serial,
           [this, index, serial, begun = Clock::now()](const Result<std::size_t>& result) {
             if (result) latencies_[index].push_back(microseconds_since(begun));
             if (result && !over_) return next(index, serial + 1);
             running_.fetch_sub(1);
             running_.notify_all();
           });
  }

  Row& row_;
  const Begin begin_;
  std::vector<std::vector<double>> latencies_;  // by thread and slot
  std::atomic<bool> over_{false};
  std::atomic<std::size_t> running_{0};
};

}  // namespace

Row run_socket(Row row, Duration duration) {
  const bool write = row.direction == "write";
  const auto there = write ? row.size : kAsk, back = write ? kAsk : row.size;
  std::vector<std::array<int, 2>> pairs(row.threads);
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
  std::vector<std::vector<std::byte>> memory(row.threads, std::vector<std::byte>(std::max(there, back)));
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

Result<std::unique_ptr<BenchCluster>> BenchCluster::start(const TemporaryDirectory& directory, NodeOptions options,
                                                          std::uint32_t nodes) {
  auto bench = std::make_unique<BenchCluster>();
  options.directory = directory / "data";
  std::filesystem::create_directories(options.directory);
  for (std::uint32_t i = 0; i < nodes; ++i) {
    options.name = fmt::format("node{}", i);
    options.listen = {"unix:" + directory / fmt::format("{}.sock", i)};
    options.targets = {i};
    auto node = Node::start(options);
    if (!node) return Failure(node.error());
    bench->cluster_.nodes.push_back({options.name, options.listen.front(), {i}});
    bench->nodes_.push_back(std::move(*node));
  }
  return bench;
}

Result<Row> BenchCluster::run(Row row, Duration duration, std::uint64_t window) {
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::shared_ptr<File>> files;
  std::vector<std::vector<std::byte>> memory(row.threads, std::vector<std::byte>(row.size * row.depth, std::byte{1}));
  for (std::size_t t = 0; t < row.threads; ++t) {
    auto client = Client::connect({.cluster = cluster_, .application = static_cast<ApplicationId>(t + 1)});
    if (!client) return Failure(client.error());
    auto file = (*client)->open(fmt::format("bench.{}", t), {.read = true, .write = true, .create = true});
    if (!file) return Failure(file.error());
    clients.push_back(std::move(*client));
    files.push_back(std::move(*file));
    for (std::uint64_t i = 0; i < window; i += kLarge)
      if (auto filled = files[t]->write(i, std::vector<std::byte>(kLarge)); !filled) return Failure(filled.error());
  }
  const bool write = row.direction == "write";
  if (row.depth == 1) {
    measure(row, duration, [&](std::size_t t, std::uint64_t serial) {
      const auto offset = serial * row.size % window;
      return (write ? files[t]->write(offset, memory[t]) : files[t]->read(offset, memory[t])).has_value();
    });
    return row;
  }
  Pipeline pipeline(row, [&](std::size_t t, std::size_t slot, std::uint64_t serial, Pipeline::Next next) {
    const std::span<std::byte> part(memory[t].data() + slot * row.size, row.size);
    const auto offset = (serial * row.depth + slot) * row.size % window;
    if (write)
      files[t]->write_async({{offset, part}}, std::move(next));
    else
      files[t]->read_async({{offset, part}}, std::move(next));
  });
  pipeline.run(duration);
  return row;
}

namespace {

// What fio says of one job that reads or writes from front to back around the page cache.
Result<Row> run_fio(Row row, const std::string& file, Duration duration, std::uint64_t window) {
  row.what = "fio";
  const std::string command = fmt::format(
      "fio --name=bench --output-format=json --ioengine=io_uring --direct=1 --rw={} --bs={} --iodepth={} --size={} "
      "--filename={} --time_based --runtime={}ms 2>/dev/null </dev/null",
      row.direction, row.size, row.depth, window, file, duration / std::chrono::milliseconds(1));
  std::FILE* output = ::popen(command.c_str(), "r");
  if (output == nullptr) return fail(ErrorCode::kIo, "fio cannot be started");
  std::string text;
  std::array<char, 4096> buffer;
  while (const auto got = std::fread(buffer.data(), 1, buffer.size(), output)) text.append(buffer.data(), got);
  if (::pclose(output) != 0) return fail(ErrorCode::kIo, "fio failed: " + text);
  const auto document = nlohmann::json::parse(text, nullptr, false);
  if (document.is_discarded()) return fail(ErrorCode::kIo, "fio printed no JSON");
  const auto& side = document["jobs"][0][row.direction];
  row.requests_per_second = side["iops"].get<double>();
  row.median_us = side["clat_ns"]["percentile"].value("50.000000", 0.0) / 1e3;
  return row;
}

// One operation of a slot, and what to do at its end.
struct SlotOperation : Operation, CompletionSink {
  Pipeline::Next next;
  void completed(std::span<Operation* const>) override {
    auto call = std::move(next);
    call(error == 0 ? Result<std::size_t>(transferred) : fail(ErrorCode::kIo, "the engine failed", error));
  }
};

Result<Row> run_engine(Row row, const TemporaryDirectory& directory, const std::string& name, Duration duration,
                       std::uint64_t window) {
  row.what = "engine";
  auto engine = make_posix_engine();
  if (!engine) return Failure(engine.error());
  auto root = Root::open(directory.path(), {.direct = true});
  if (!root) return Failure(root.error());
  auto file = (*root)->open_file(std::make_shared<Credentials>(own_credentials()), name, Direction::kWrite);
  if (!file) return Failure(file.error());
  const auto pool = net::BufferPool::create(Bytes(row.depth * row.size));
  std::vector<net::Buffer> memory;
  std::vector<SlotOperation> slots(row.depth);
  for (std::size_t i = 0; i < row.depth; ++i) memory.push_back(pool->allocate(row.size));
  Pipeline pipeline(row, [&](std::size_t, std::size_t slot, std::uint64_t serial, Pipeline::Next next) {
    SlotOperation& operation = slots[slot];
    operation.kind = row.direction == "write" ? Operation::Kind::kWrite : Operation::Kind::kRead;
    operation.file = *file;
    operation.offset = (serial * row.depth + slot) * row.size % window;
    operation.memory = {{memory[slot].data(), row.size}};
    operation.sink = &operation;
    operation.next = std::move(next);
    (*engine)->submit(operation);
  });
  pipeline.run(duration);
  return row;
}

}  // namespace

Result<Row> run_storage(Row row, const TemporaryDirectory& directory, Duration duration, std::uint64_t window) {
  const std::string name = "storage";
  if (!std::filesystem::exists(directory / name)) {
    std::FILE* file = std::fopen((directory / name).c_str(), "wb");
    if (file == nullptr) return fail(ErrorCode::kIo, directory / name + ": cannot be made");
    const std::vector<std::byte> block(kLarge, std::byte{1});
    for (std::uint64_t i = 0; i < window; i += kLarge) std::fwrite(block.data(), 1, block.size(), file);
    std::fflush(file);
    ::fsync(::fileno(file));
    std::fclose(file);
  }
  if (std::system("command -v fio >/dev/null 2>&1") == 0)
    return run_fio(std::move(row), directory / name, duration, window);
  return run_engine(std::move(row), directory, name, duration, window);
}

}  // namespace tutti::cli
