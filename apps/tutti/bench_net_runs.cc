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
#include <ctime>
#include <filesystem>
#include <functional>
#include <thread>

#include "base/json.h"
#include "engine/engine.h"
#include "engine/root.h"
#include "net/buffer.h"
#include "wire/frame.h"

namespace tutti::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kAsk = 128;  // approximate size of a request or acknowledgement

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

Slice summarise(const std::vector<std::vector<double>>& latencies, std::chrono::duration<double> elapsed) {
  std::vector<double> all;
  for (const auto& some : latencies) all.insert(all.end(), some.begin(), some.end());
  if (all.empty()) return {};
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::ranges::nth_element(all, middle);
  const auto requests = static_cast<double>(all.size());
  return {.requests_per_second = requests / elapsed.count(), .median_us = *middle, .requests = requests};
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

// Runs `operation(thread, serial)` repeatedly on all threads for the given duration.
Slice measure(std::size_t count, Duration duration, const std::function<bool(std::size_t, std::uint64_t)>& operation) {
  std::vector<std::vector<double>> latencies(count);
  std::vector<std::thread> threads;
  const auto start = Clock::now();
  for (std::size_t t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t serial = 0; Clock::now() - start < duration; ++serial) {
        const auto begin = Clock::now();
        if (!operation(t, serial)) return;
        latencies[t].push_back(microseconds_since(begin));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return summarise(latencies, Clock::now() - start);
}

// Keeps `depth` operations per thread in flight: each one that ends starts the next.
class Pipeline {
 public:
  using Next = std::function<void(Result<std::size_t>)>;
  // Starts operation number `serial` of `slot` of `thread`, and calls the last argument when it ends.
  using Begin = std::function<void(std::size_t thread, std::size_t slot, std::uint64_t serial, Next)>;

  Pipeline(const Shape& shape, Begin begin)
      : depth_(shape.depth), begin_(std::move(begin)), latencies_(shape.threads * shape.depth) {}

  Slice run(Duration duration) {
    const auto start = Clock::now();
    running_ = latencies_.size();
    for (std::size_t i = 0; i < latencies_.size(); ++i) next(i, 0);
    std::this_thread::sleep_for(duration);
    over_ = true;
    for (auto left = running_.load(); left > 0; left = running_.load()) running_.wait(left);
    return summarise(latencies_, Clock::now() - start);
  }

 private:
  void next(std::size_t index, std::uint64_t serial) {
    begin_(index / depth_, index % depth_, serial,
           [this, index, serial, begun = Clock::now()](const Result<std::size_t>& result) {
             if (result) latencies_[index].push_back(microseconds_since(begun));
             if (result && !over_) return next(index, serial + 1);
             running_.fetch_sub(1);
             running_.notify_all();
           });
  }

  const std::size_t depth_;
  const Begin begin_;
  std::vector<std::vector<double>> latencies_;  // by thread and slot
  std::atomic<bool> over_{false};
  std::atomic<std::size_t> running_{0};
};

class SocketSide final : public Side {
 public:
  explicit SocketSide(const Shape& shape)
      : there_(shape.direction == "write" ? shape.size : kAsk),
        back_(shape.direction == "write" ? kAsk : shape.size),
        memory_(shape.threads, std::vector<std::byte>(shape.size, std::byte{1})) {}
  ~SocketSide() override {
    for (auto& pair : pairs_) ::shutdown(pair[0], SHUT_RDWR);
    for (auto& server : servers_) server.join();
    for (auto& pair : pairs_)
      for (const int socket : pair) ::close(socket);
  }

  Result<void> open() {
    while (pairs_.size() < memory_.size()) {
      std::array<int, 2> pair;
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0)
        return fail(ErrorCode::kIo, "cannot create a socket pair", errno);
      pairs_.push_back(pair);
      const int buffer = 1 << 20;
      for (const int socket : pair) ::setsockopt(socket, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer);
      servers_.emplace_back([this, socket = pair[1]] { serve(socket); });
    }
    return {};
  }

  Result<Slice> run(Duration duration) override {
    return measure(pairs_.size(), duration, [&](std::size_t t, std::uint64_t) {
      return send_all(pairs_[t][0], memory_[t].data(), there_) && receive_all(pairs_[t][0], memory_[t].data(), back_);
    });
  }

 private:
  void serve(int socket) const {
    std::vector<std::byte> data(std::max(there_, back_));
    while (receive_all(socket, data.data(), there_) && send_all(socket, data.data(), back_)) {
    }
  }

  const std::size_t there_, back_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::array<int, 2>> pairs_;
  std::vector<std::thread> servers_;
};

class ClusterSide final : public Side {
 public:
  ClusterSide(const Shape& shape, std::uint64_t window)
      : shape_(shape),
        window_(window),
        memory_(shape.threads, std::vector<std::byte>(shape.size * shape.depth + wire::kPage, std::byte{1})) {}

  Result<void> open(const Cluster& cluster) {
    for (std::size_t t = 0; t < shape_.threads; ++t) {
      auto client = Client::connect({.cluster = cluster, .application = static_cast<ApplicationId>(t + 1)});
      if (!client) return Failure(client.error());
      auto file = (*client)->open(fmt::format("bench.{}", t), {.read = true, .write = true, .create = true});
      if (!file) return Failure(file.error());
      clients_.push_back(std::move(*client));
      files_.push_back(std::move(*file));
      for (std::uint64_t i = 0; i < window_; i += kLarge)
        if (auto filled = files_[t]->write(i, std::vector<std::byte>(kLarge)); !filled) return Failure(filled.error());
    }
    return {};
  }

  Result<Slice> run(Duration duration) override {
    const std::clock_t before = std::clock();
    Slice slice = transfer(duration);
    const double used = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
    if (slice.requests > 0) slice.cpu_us = used / slice.requests * 1e6;
    return slice;
  }

 private:
  Slice transfer(Duration duration) {
    const bool write = shape_.direction == "write";
    if (shape_.depth == 1)
      return measure(shape_.threads, duration, [&](std::size_t t, std::uint64_t serial) {
        const auto offset = serial * shape_.size % window_;
        return (write ? files_[t]->write(offset, slot(t, 0)) : files_[t]->read(offset, slot(t, 0))).has_value();
      });
    Pipeline pipeline(shape_, [&](std::size_t t, std::size_t i, std::uint64_t serial, Pipeline::Next next) {
      const auto offset = (serial * shape_.depth + i) * shape_.size % window_;
      if (write)
        files_[t]->write_async({{offset, slot(t, i)}}, std::move(next));
      else
        files_[t]->read_async({{offset, slot(t, i)}}, std::move(next));
    });
    return pipeline.run(duration);
  }

  std::span<std::byte> slot(std::size_t thread, std::size_t index) {
    std::byte* const begin = memory_[thread].data();
    const std::size_t lead = shape_.whole_pages ? wire::lead_of(begin) : 0;
    return {begin + lead + index * shape_.size, shape_.size};
  }

  const Shape shape_;
  const std::uint64_t window_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<std::shared_ptr<File>> files_;
};

// One fio job that reads or writes sequentially with O_DIRECT.
class FioSide final : public Side {
 public:
  FioSide(const Shape& shape, std::string file, std::uint64_t window)
      : shape_(shape), file_(std::move(file)), window_(window) {}

  Result<Slice> run(Duration duration) override {
    const std::string command = fmt::format(
        "fio --name=bench --output-format=json --ioengine=io_uring --direct=1 --rw={} --bs={} --iodepth={} --size={} "
        "--filename={} --time_based --runtime={}ms 2>/dev/null </dev/null",
        shape_.direction, shape_.size, shape_.depth, window_, file_, duration / std::chrono::milliseconds(1));
    std::FILE* output = ::popen(command.c_str(), "r");
    if (output == nullptr) return fail(ErrorCode::kIo, "cannot start fio");
    std::string text;
    std::array<char, 4096> buffer;
    while (const auto got = std::fread(buffer.data(), 1, buffer.size(), output)) text.append(buffer.data(), got);
    if (::pclose(output) != 0) return fail(ErrorCode::kIo, "fio failed: " + text);
    const Result<Json> document = parse_json(text);
    if (!document) return fail(ErrorCode::kIo, "fio: " + document.error().message);
    const Json& side = (*document)["jobs"][0][shape_.direction];
    return Slice{.requests_per_second = side["iops"].number(),
                 .median_us = side["clat_ns"]["percentile"]["50.000000"].number() / 1e3};
  }

 private:
  const Shape shape_;
  const std::string file_;
  const std::uint64_t window_;
};

// One operation of a slot and its completion function.
struct SlotOperation : Operation, CompletionSink {
  Pipeline::Next next;
  void completed(std::span<Operation* const>) override {
    auto call = std::move(next);
    call(error == 0 ? Result<std::size_t>(transferred) : fail(ErrorCode::kIo, "the engine failed", error));
  }
};

class EngineSide final : public Side {
 public:
  EngineSide(const Shape& shape, std::uint64_t window) : shape_(shape), window_(window) {}

  Result<void> open(const std::string& directory, const std::string& name) {
    auto engine = make_posix_engine();
    if (!engine) return Failure(engine.error());
    engine_ = std::move(*engine);
    auto root = Root::open(directory, {.direct = true});
    if (!root) return Failure(root.error());
    auto file = (*root)->open_file(std::make_shared<Credentials>(own_credentials()), name, Direction::kWrite);
    if (!file) return Failure(file.error());
    file_ = std::move(*file);
    const auto pool = net::BufferPool::create(Bytes(shape_.depth * shape_.size));
    for (std::size_t i = 0; i < shape_.depth; ++i) memory_.push_back(pool->allocate(shape_.size));
    return {};
  }

  Result<Slice> run(Duration duration) override {
    std::vector<SlotOperation> slots(shape_.depth);
    Pipeline pipeline(shape_, [&](std::size_t, std::size_t slot, std::uint64_t serial, Pipeline::Next next) {
      SlotOperation& operation = slots[slot];
      operation.kind = shape_.direction == "write" ? Operation::Kind::kWrite : Operation::Kind::kRead;
      operation.file = file_;
      operation.offset = (serial * shape_.depth + slot) * shape_.size % window_;
      operation.memory = {{memory_[slot].data(), shape_.size}};
      operation.sink = &operation;
      operation.next = std::move(next);
      engine_->submit(operation);
    });
    return pipeline.run(duration);
  }

 private:
  const Shape shape_;
  const std::uint64_t window_;
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<BackingFile> file_;
  std::vector<net::Buffer> memory_;
};

}  // namespace

Result<SidePointer> make_socket_side(const Shape& shape) {
  auto side = std::make_unique<SocketSide>(shape);
  if (auto opened = side->open(); !opened) return Failure(opened.error());
  return side;
}

Result<std::unique_ptr<BenchCluster>> BenchCluster::start(const TemporaryDirectory& directory, NodeOptions options,
                                                          std::uint32_t nodes) {
  auto bench = std::make_unique<BenchCluster>();
  options.directory = directory / "data";
  std::filesystem::create_directories(options.directory);
  for (std::uint32_t i = 0; i < nodes; ++i) {
    options.name = fmt::format("node{}", i);
    options.listen = {"unix:" + directory / fmt::format("{}.sock", i)};
    auto node = Node::start(options);
    if (!node) return Failure(node.error());
    bench->cluster_.nodes.push_back({options.name, options.listen.front(), {i}});
    bench->nodes_.push_back(std::move(*node));
  }
  return bench;
}

Result<SidePointer> BenchCluster::side(const Shape& shape, std::uint64_t window) const {
  auto side = std::make_unique<ClusterSide>(shape, window);
  if (auto opened = side->open(cluster_); !opened) return Failure(opened.error());
  return side;
}

bool has_fio() {
  return std::system("command -v fio >/dev/null 2>&1") == 0;
}

Result<SidePointer> make_storage_side(const Shape& shape, const TemporaryDirectory& directory, std::uint64_t window) {
  const std::string name = "storage";
  if (!std::filesystem::exists(directory / name)) {
    std::FILE* file = std::fopen((directory / name).c_str(), "wb");
    if (file == nullptr) return fail(ErrorCode::kIo, directory / name + ": cannot create the file");
    const std::vector<std::byte> block(kLarge, std::byte{1});
    for (std::uint64_t i = 0; i < window; i += kLarge) std::fwrite(block.data(), 1, block.size(), file);
    std::fflush(file);
    ::fsync(::fileno(file));
    std::fclose(file);
  }
  if (has_fio()) return std::make_unique<FioSide>(shape, directory / name, window);
  auto side = std::make_unique<EngineSide>(shape, window);
  if (auto opened = side->open(directory.path(), name); !opened) return Failure(opened.error());
  return side;
}

}  // namespace tutti::cli
