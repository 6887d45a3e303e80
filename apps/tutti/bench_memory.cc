// SPDX-License-Identifier: Apache-2.0
// tutti bench memory: measures a node's memory while a thousand clients send as many requests as they can.
#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/json.h"
#include "bench.h"
#include "bench_net_runs.h"
#include "net/transport.h"
#include "node/control.h"
#include "wire/codec.h"

namespace tutti::cli {
namespace {

struct MemoryArguments : BenchArguments {
  std::size_t connections = 1000;
};

constexpr std::uint64_t kBuffers = 128 << 20;   // a node's default limit for file data
constexpr std::uint64_t kAllowance = 64 << 20;  // for all other memory
constexpr std::size_t kRequests = 512;          // in flight per connection, more than a node accepts
constexpr std::uint64_t kRead = 256 << 10;      // bytes per read
constexpr std::uint64_t kWritten = 64 << 10;    // bytes per write

// A node in its own process, killed by the destructor.
class NodeProcess {
 public:
  static Result<std::unique_ptr<NodeProcess>> start(const TemporaryDirectory& directory) {
    auto node = std::make_unique<NodeProcess>();
    node->endpoint_ = "unix:" + directory / "node.sock";
    Cluster cluster;
    cluster.nodes = {{"node0", node->endpoint_, {0}}};
    const std::string description = directory / "cluster.toml";
    if (auto saved = save_cluster(cluster, description); !saved) return Failure(saved.error());
    const std::string data = directory / "data";
    std::filesystem::create_directories(data);
    const std::string buffers = fmt::format("{}", kBuffers);
    const char* words[] = {"tutti",     "node",          "--cluster", description.c_str(), "--dir", data.c_str(),
                           "--buffers", buffers.c_str(), nullptr};
    const pid_t parent = getpid();
    node->process_ = fork();
    if (node->process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);   // also if this process is killed
      if (getppid() != parent) _exit(1);  // it was killed before the call
      dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
      execv("/proc/self/exe", const_cast<char**>(words));
      _exit(127);
    }
    if (node->process_ < 0) return fail(ErrorCode::kIo, "cannot start the node's process", errno);
    for (int i = 0; i < 500; ++i) {
      if (Control::connect({.endpoint = node->endpoint_})) return node;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return fail(ErrorCode::kTimeout, "the node does not answer");
  }
  ~NodeProcess() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

  const std::string& endpoint() const { return endpoint_; }

  // A line of /proc/PID/status, in bytes.
  std::uint64_t status(const std::string& name) const {
    std::ifstream lines(fmt::format("/proc/{}/status", process_));
    std::string word;
    while (lines >> word)
      if (std::uint64_t kilobytes = 0; word == name + ":" && lines >> kilobytes) return kilobytes << 10;
    return 0;
  }

 private:
  pid_t process_ = -1;
  std::string endpoint_;
};

// Counts replies.
class Flood : public net::Handler {
 public:
  net::ReplyMemory reply_memory(const wire::Header& header, std::span<const std::byte>) override {
    return {.memory = {std::span(memory_).first(std::min<std::size_t>(header.payload_length, memory_.size()))}};
  }
  void received(const net::ConnectionPointer&, net::Incoming) override { ++replies_; }
  void closed(const net::ConnectionPointer&, const Error&) override { ++lost_; }

  // Alternates reads and writes, more than the node accepts at once.
  void pour(net::Connection& connection, std::uint64_t file) {
    for (std::size_t i = 0; i < kRequests; ++i) {
      wire::DataHead head{.file = {.key = 1, .path = fmt::format("file{}", file % 16), .inode = 0}};
      if (i % 2 == 0) {
        const wire::WriteRequest request{.data = head, .extents = {{i * kWritten, kWritten}}};
        net::Outgoing out;
        out.borrowed = {std::span(memory_).first(kWritten)};
        out.frame = wire::encode_scattered(request, i, out.borrowed, false);
        connection.send(std::move(out));
      } else {
        wire::ReadRequest request{.data = head};
        request.extents = {{i * kWritten, kRead}};
        connection.send({.frame = wire::encode(request, {.tag = i})});
      }
    }
  }

  std::uint64_t replies() const { return replies_; }
  std::uint64_t lost() const { return lost_; }

 private:
  std::vector<std::byte> memory_ = std::vector<std::byte>(kRead, std::byte{1});
  std::atomic<std::uint64_t> replies_{0}, lost_{0};
};

struct Measured {
  std::uint64_t idle = 0, connected = 0, now = 0, most = 0;  // bytes resident
  std::uint64_t replies = 0, lost = 0;
};

Result<Measured> measure(const MemoryArguments& arguments) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  const TemporaryDirectory directory;
  auto node = NodeProcess::start(directory);
  if (!node) return Failure(node.error());
  {  // create the file that is read
    auto client = Client::connect({.cluster = *load_cluster(directory / "cluster.toml"), .application = 1});
    if (!client) return Failure(client.error());
    for (int i = 0; i < 16; ++i) {
      auto file = (*client)->open(fmt::format("file{}", i), {.write = true, .create = true});
      if (!file) return Failure(file.error());
      if (auto sized = (*file)->truncate(kRequests * kWritten + kRead); !sized) return Failure(sized.error());
    }
  }
  Measured measured{.idle = (*node)->status("VmRSS")};
  Flood flood;
  auto transport = net::Transport::create({});
  if (!transport) return Failure(transport.error());
  const auto endpoint = net::parse_endpoint((*node)->endpoint());
  std::vector<net::ConnectionPointer> connections;
  for (std::size_t i = 0; i < arguments.connections; ++i) {
    auto connection = net::connect_and_wait(**transport, *endpoint, {.job = "flood"}, flood);
    if (!connection) return Failure(connection.error());
    connections.push_back(std::move(*connection));
  }
  measured.connected = (*node)->status("VmRSS");
  for (std::size_t i = 0; i < connections.size(); ++i) flood.pour(*connections[i], i);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(arguments.quick ? 4 : 15);
  while (std::chrono::steady_clock::now() < until && flood.replies() < connections.size() * kRequests)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  measured.now = (*node)->status("VmRSS");
  measured.most = (*node)->status("VmHWM");
  measured.replies = flood.replies();
  measured.lost = flood.lost();
  transport->reset();
  return measured;
}

int run(const MemoryArguments& arguments) {
  const auto measured = measure(arguments);
  if (!measured) return report(measured.error());
  const bool holds = measured->most <= kBuffers + kAllowance && measured->lost == 0 && measured->replies > 0;
  const auto megabytes = [](std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  if (arguments.json) {
    const Json document{{"connections", arguments.connections},
                        {"requests", arguments.connections * kRequests},
                        {"answered", measured->replies},
                        {"lost_connections", measured->lost},
                        {"idle_bytes", measured->idle},
                        {"connected_bytes", measured->connected},
                        {"resident_bytes", measured->now},
                        {"most_bytes", measured->most},
                        {"buffer_bytes", kBuffers},
                        {"goal_bytes", kBuffers + kAllowance},
                        {"holds", holds}};
    fmt::print("{}\n", document.dump(2));
    return kDone;
  }
  fmt::print(
      "resident memory of a node's process: {:.1f} MiB idle, {:.1f} with {} connections,\n"
      "{:.1f} at most while they ask for {} reads and writes at once ({} answered, {} connections lost)\n"
      "goal: {:.0f} MiB of buffers and 64 MiB: {}\n",
      megabytes(measured->idle), megabytes(measured->connected), arguments.connections, megabytes(measured->most),
      arguments.connections * kRequests, measured->replies, measured->lost, megabytes(kBuffers),
      holds ? "holds" : "DOES NOT HOLD");
  return kDone;
}

}  // namespace

Command bench_memory_command() {
  return {"memory", "Measure the memory of a node under overload", [](CommandLine& line) {
            auto arguments = std::make_shared<MemoryArguments>();
            arguments->define(line, "Measure for a shorter time");
            line.option("--connections", arguments->connections, "Number of clients").between(1, 4000);
            line.action([arguments] { return run(*arguments); });
          }};
}

}  // namespace tutti::cli
