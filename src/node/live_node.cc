// SPDX-License-Identifier: Apache-2.0
// The live node: a NodeService with sockets, a directory, an engine and threads.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <condition_variable>

#include "base/descriptor.h"
#include "base/json.h"
#include "base/live_world.h"
#include "base/mutex.h"
#include "engine/root.h"
#include "node/node_service.h"
#include "trace/live_files.h"

namespace tutti {
namespace {

using Steady = std::chrono::steady_clock;

constexpr Duration kSendLastReplies = std::chrono::seconds(1);  // when stopping
constexpr std::size_t kOtherDescriptors = 256;                  // not of connections and files: pipes, ...

Result<std::unique_ptr<Engine>> make_engine(const NodeOptions& options) {
  std::unique_ptr<Engine> engine;
  if (options.engine == "null") {
    engine = make_null_engine();
  } else if (options.engine == "posix") {
    auto posix = make_posix_engine();
    if (!posix) return Failure(posix.error());
    engine = std::move(*posix);
  } else {
    return fail(ErrorCode::kInvalid,
                fmt::format("unknown engine \"{}\"; known ones are posix and null", options.engine));
  }
  if (options.model) engine = make_modelled_engine(live_world(), std::move(engine), *options.model);
  if (options.wrap_engine) engine = options.wrap_engine(std::move(engine));
  return engine;
}

// NodeOptions::max_open_files, or what the limit on descriptors of this process allows. A key needs at most two open
// files, one for each direction; one descriptor is usual.
std::size_t limit_open_files(const NodeOptions& options) {
  const std::size_t all = raise_descriptor_limit();
  const std::size_t others = std::min(options.max_connections, all / 2) + kOtherDescriptors;
  const std::size_t fit = (all - std::min(others, all)) / (options.direct ? 4 : 2);
  return std::min(options.max_open_files, std::max<std::size_t>(1, fit));
}

// nullptr: nothing is recorded.
Result<std::unique_ptr<trace::Recorder>> make_recorder(const NodeOptions& options, Workers& workers) {
  if (options.trace_directory.empty()) return nullptr;
  auto files =
      trace::make_files({.directory = options.trace_directory, .name = options.name, .limit = options.trace_limit});
  if (!files) return Failure(files.error());
  trace::Facts facts{
      {"node", options.name},
      {"policy", options.policy},
      {"policy_options", Json(options.policy_options).dump()},
      {"engine", options.engine},
      {"device", options.device_class},
      {"depth", std::to_string(options.depth > 0 ? options.depth : default_depth(options.device_class))}};
  return std::make_unique<trace::Recorder>(
      live_world(), workers, std::move(*files),
      trace::Recorder::Options{.facts = std::move(facts),
                               .warn = [](const std::string& why) { spdlog::warn("{}", why); }});
}

// nullptr: nothing is predicted. What cannot be used of the traces is logged.
Result<std::shared_ptr<const PredictedQueues>> load_predictions(const NodeOptions& options) {
  if (options.predict.empty()) return nullptr;
  auto loaded = trace::load_predictions(options.predict);
  if (!loaded) return Failure(loaded.error());
  for (const std::string& problem : loaded->problems) spdlog::warn("{}: {}", options.name, problem);
  spdlog::info("{}: predictions from {} requests of {} traces", options.name, loaded->requests, loaded->traces);
  return std::move(loaded->queues);
}

class LiveNode final : public Node {
 public:
  explicit LiveNode(NodeOptions options) : options_(std::move(options)) {
    options_.max_open_files = limit_open_files(options_);
  }
  ~LiveNode() override { stop(Scheduler::Stop::kDrop, std::chrono::seconds(10)); }

  Result<void> open();

  std::vector<std::string> endpoints() const override;
  bool stop(Scheduler::Stop how, Duration patience) override;
  Scheduler::Stop wait_for_stop() override;
  void interrupt(Scheduler::Stop how) override { service_->ask_to_stop(how); }
  Result<void> set_policy(const std::string& name, const PolicyOptions& options) override {
    return service_->set_policy(name, options);
  }
  wire::StatisticsReply statistics(const wire::UsageKey& first) const override { return service_->statistics(first); }
  wire::HealthReply health() const override { return service_->health(); }

 private:
  Result<void> listen();
  bool wait_until_idle(Duration patience);
  void changed();

  NodeOptions options_;  // not changed after the constructor
  std::unique_ptr<Root> root_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<trace::Recorder> recorder_;  // may be nullptr
  std::unique_ptr<NodeService> service_;
  std::unique_ptr<net::Transport> transport_;
  std::vector<std::unique_ptr<net::Listener>> listeners_;

  Mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ TUTTI_GUARDED_BY(mutex_) = false;
};

Result<void> LiveNode::open() {
  if (options_.listen.empty()) return fail(ErrorCode::kInvalid, "a node needs at least one endpoint to listen on");
  workers_ = make_live_workers(std::max<std::size_t>(1, options_.worker_threads));
  auto root = Root::open(options_.directory, {options_.direct, 2 * options_.max_open_files, workers_.get()});
  if (!root) return Failure(root.error());
  root_ = std::move(*root);
  auto engine = make_engine(options_);
  if (!engine) return Failure(engine.error());
  engine_ = std::move(*engine);
  auto jobs =
      net::make_job_check(options_.job_check, options_.job_command, [name = options_.name](const std::string& why) {
        spdlog::warn("{}: job numbers cannot be checked: {}. Until they can, jobs count as their user's.", name, why);
      });
  if (!jobs) return Failure(jobs.error());
  auto recorder = make_recorder(options_, *workers_);
  if (!recorder) return Failure(recorder.error());
  recorder_ = std::move(*recorder);
  auto predictions = load_predictions(options_);
  if (!predictions) return Failure(predictions.error());
  auto service = NodeService::create(options_, {.world = &live_world(),
                                                .workers = workers_.get(),
                                                .files = root_.get(),
                                                .engine = engine_.get(),
                                                .jobs = std::move(*jobs),
                                                .process = static_cast<std::uint32_t>(getpid()),
                                                .observer = recorder_.get(),
                                                .predictions = std::move(*predictions),
                                                .changed = [this] { changed(); }});
  if (!service) return Failure(service.error());
  service_ = std::move(*service);
  return listen();
}

Result<void> LiveNode::listen() {
  std::optional<net::ClusterKey> key;
  if (!options_.key_file.empty()) {
    auto loaded = net::load_key(options_.key_file);
    if (!loaded) return Failure(loaded.error());
    key = std::move(*loaded);
  }
  auto transport = net::Transport::create({.threads = options_.transport_threads});
  if (!transport) return Failure(transport.error());
  transport_ = std::move(*transport);
  auto joined = service_->join_cluster(*transport_, {.job = options_.name,
                                                     .key = key,
                                                     .munge = options_.munge,
                                                     .node_user = options_.node_user,
                                                     .timeout = std::chrono::seconds(1)});
  if (!joined) return joined;
  for (const std::string& text : options_.listen) {
    auto endpoint = net::parse_endpoint(text);
    if (!endpoint) return Failure(endpoint.error());
    if (endpoint->kind == net::Endpoint::Kind::kTcp && !key && !options_.munge)
      return fail(ErrorCode::kInvalid, text + ": a TCP endpoint needs authentication: set key_file or munge");
    auto listener = transport_->listen(*endpoint, service_->listen_options(key), *service_);
    if (!listener) return Failure(listener.error());
    listeners_.push_back(std::move(*listener));
  }
  return {};
}

std::vector<std::string> LiveNode::endpoints() const {
  std::vector<std::string> list;
  for (const auto& listener : listeners_) list.push_back(net::to_text(listener->endpoint()));
  return list;
}

bool LiveNode::stop(Scheduler::Stop how, Duration patience) {
  {
    Lock lock(mutex_);
    if (std::exchange(stopped_, true)) return true;
  }
  if (!service_) return true;
  service_->ask_to_stop(how);
  service_->stop(how);
  const bool finished = wait_until_idle(patience);
  if (!finished) {
    spdlog::warn("{}: not all requests were served in time; the others are dropped", options_.name);
    service_->stop(Scheduler::Stop::kDrop);
    wait_until_idle(std::chrono::seconds(10));
  }
  for (const auto& listener : listeners_) listener->wait_until_sent(kSendLastReplies);
  listeners_.clear();
  service_->leave_cluster();
  transport_.reset();
  workers_->stop();
  // Requests that arrived during the wait, or that workers admitted since, are refused or about to complete.
  wait_until_idle(std::chrono::seconds(30));
  engine_.reset();  // joins its threads, which may still return from calls of the service
  if (recorder_) recorder_->flush();
  return finished;
}

void LiveNode::changed() {
  Lock lock(mutex_);
  changed_.notify_all();
}

bool LiveNode::wait_until_idle(Duration patience) {
  const auto until = Steady::now() + patience;
  Lock lock(mutex_);
  while (!service_->idle())
    if (changed_.wait_until(lock, until) == std::cv_status::timeout) return service_->idle();
  return true;
}

Scheduler::Stop LiveNode::wait_for_stop() {
  Lock lock(mutex_);
  while (!service_->stop_asked()) changed_.wait(lock);
  return *service_->stop_asked();
}

}  // namespace

Result<std::unique_ptr<Node>> Node::start(NodeOptions options) {
  auto node = std::make_unique<LiveNode>(std::move(options));
  if (auto opened = node->open(); !opened) return Failure(opened.error());
  return node;
}

}  // namespace tutti
