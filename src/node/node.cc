// SPDX-License-Identifier: Apache-2.0
#include "node/node.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <unordered_map>

#include "engine/engine.h"
#include "engine/root.h"
#include "net/transport.h"
#include "node/data_path.h"
#include "node/namespace_service.h"
#include "node/requests.h"
#include "node/session.h"
#include "node/workers.h"

namespace tutti {
namespace {

using namespace node;

constexpr Duration kLastWords = std::chrono::seconds(1);  // for clients to take their last replies

struct DeviceClass {
  const char* name;
  std::size_t depth;
};

// A disk serves one request at a time and gains from a few to choose from; flash has channels to fill.
constexpr DeviceClass kDeviceClasses[] = {{"hdd", 4}, {"ssd", 16}, {"nvme", 64}, {"null", 64}};

Result<std::unique_ptr<Engine>> make_engine(const NodeOptions& options) {
  std::unique_ptr<Engine> engine;
  if (options.engine == "null") {
    engine = make_null_engine();
  } else if (options.engine == "posix") {
    auto posix = make_posix_engine();
    if (!posix) return Failure(posix.error());
    engine = std::move(*posix);
  } else {
    return fail(ErrorCode::kInvalid, fmt::format("no engine \"{}\"; there are posix and null", options.engine));
  }
  if (options.model) engine = make_modelled_engine(std::move(engine), *options.model);
  if (options.wrap_engine) engine = options.wrap_engine(std::move(engine));
  return engine;
}

class LiveNode final : public Node, private net::Handler {
 public:
  explicit LiveNode(NodeOptions options) : options_(std::move(options)), started_(std::chrono::steady_clock::now()) {}
  ~LiveNode() override { stop(Scheduler::Stop::kDrop, std::chrono::seconds(10)); }

  Result<void> open();

  std::vector<std::string> endpoints() const override;
  bool stop(Scheduler::Stop how, Duration patience) override;
  Scheduler::Stop wait_for_stop() override;
  void interrupt(Scheduler::Stop how) override;
  Result<void> set_policy(const std::string& name, const PolicyOptions& options) override;
  wire::StatisticsReply statistics() const override;
  wire::HealthReply health() const override;

 private:
  using SessionPointer = std::shared_ptr<Session>;

  Result<void> listen();
  net::ListenOptions listen_options(const std::optional<net::ClusterKey>& key,
                                    const std::shared_ptr<net::BufferPool>& pool) const;

  void connected(const net::ConnectionPointer& connection) override;
  void received(const net::ConnectionPointer& from, net::Incoming message) override;
  void closed(const net::ConnectionPointer& connection, const Error& why) override;

  SessionPointer session_of(const net::ConnectionPointer& connection);
  void receive_data(const net::ConnectionPointer& from, const SessionPointer& session, net::Incoming message);
  void receive_namespace(const net::ConnectionPointer& from, const SessionPointer& session, net::Incoming message);
  void receive_control(const net::ConnectionPointer& from, const SessionPointer& session, const net::Incoming& message);
  std::vector<std::byte> answer_control(const Session& session, const net::Incoming& message,
                                        std::optional<Scheduler::Stop>& stop);
  void resolved(std::unique_ptr<Job> job, const SessionPointer& session);
  void answer_stat(const Job& job, const SessionPointer& session);
  bool may_control(const Session& session) const;
  Duration uptime() const { return std::chrono::steady_clock::now() - started_; }

  const NodeOptions options_;
  const std::chrono::steady_clock::time_point started_;
  std::unique_ptr<Root> root_;
  std::unique_ptr<Engine> engine_;
  std::string engine_name_;
  std::unique_ptr<Scheduler> scheduler_;
  std::shared_ptr<net::BufferPool> write_memory_, read_memory_;
  std::unique_ptr<Workers> workers_;
  std::unique_ptr<DataPath> data_;
  std::unique_ptr<net::Transport> transport_;
  std::vector<std::unique_ptr<net::Listener>> listeners_;

  mutable std::mutex mutex_;  // guards what follows
  std::unordered_map<const net::Connection*, SessionPointer> sessions_;
  std::string policy_;
  PolicyOptions policy_options_;
  std::atomic<bool> stopping_{false};
  bool stopped_ = false;
  std::optional<Scheduler::Stop> stop_asked_;
  std::condition_variable stop_changed_;
};

// ---- life ----

Result<void> LiveNode::open() {
  if (options_.listen.empty()) return fail(ErrorCode::kInvalid, "a node needs an endpoint to listen at");
  auto root = Root::open(options_.directory, {options_.direct, options_.max_open_files});
  if (!root) return Failure(root.error());
  root_ = std::move(*root);
  auto engine = make_engine(options_);
  if (!engine) return Failure(engine.error());
  engine_ = std::move(*engine);
  engine_name_ = engine_->name();
  const std::size_t depth = options_.depth > 0 ? options_.depth : default_depth(options_.device_class);
  if (depth == 0)
    return fail(ErrorCode::kInvalid, fmt::format("no device class \"{}\"; there are {}", options_.device_class,
                                                 fmt::join(device_classes(), ", ")));
  policy_ = options_.policy;
  policy_options_ = options_.policy_options;
  auto scheduler = Scheduler::create({.policy = options_.policy,
                                      .policy_options = options_.policy_options,
                                      .max_requests = options_.max_waiting,
                                      .max_in_flight = depth});
  if (!scheduler) return Failure(scheduler.error());
  scheduler_ = std::move(*scheduler);
  write_memory_ = net::BufferPool::create(options_.write_buffers);
  read_memory_ = net::BufferPool::create(options_.read_buffers);
  workers_ = std::make_unique<Workers>(std::max<std::size_t>(1, options_.worker_threads));
  data_ = std::make_unique<DataPath>(
      DataPath::Parts{scheduler_.get(), engine_.get(), root_.get(), workers_.get(), read_memory_});
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
  for (const std::string& text : options_.listen) {
    auto endpoint = net::parse_endpoint(text);
    if (!endpoint) return Failure(endpoint.error());
    if (endpoint->kind == net::Endpoint::Kind::kTcp && !key && !options_.munge)
      return fail(ErrorCode::kInvalid,
                  text + ": listening on TCP needs a key file or MUNGE; nobody is served unproven");
    auto listener = transport_->listen(*endpoint, listen_options(key, write_memory_), *this);
    if (!listener) return Failure(listener.error());
    listeners_.push_back(std::move(*listener));
  }
  return {};
}

net::ListenOptions LiveNode::listen_options(const std::optional<net::ClusterKey>& key,
                                            const std::shared_ptr<net::BufferPool>& pool) const {
  net::ListenOptions listen;
  listen.node = options_.name;
  listen.targets = options_.targets;
  listen.limits = options_.limits;
  listen.pool = pool;
  listen.key = key;
  listen.munge = options_.munge;
  listen.pages = engine_->takes_pages() && root_->local();
  listen.lend = listen.pages || options_.direct;
  listen.max_connections = options_.max_connections;
  return listen;
}

std::vector<std::string> LiveNode::endpoints() const {
  std::vector<std::string> list;
  for (const auto& listener : listeners_) list.push_back(net::to_text(listener->endpoint()));
  return list;
}

bool LiveNode::stop(Scheduler::Stop how, Duration patience) {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(stopped_, true)) return true;
  }
  stopping_ = true;
  interrupt(how);
  bool finished = true;
  if (scheduler_) scheduler_->stop(how);
  if (data_) {
    data_->pump();
    const auto until = std::chrono::steady_clock::now() + patience;
    finished = data_->wait_until_idle(until);
    if (!finished) {
      spdlog::warn("{}: not everything was served in time; the rest is dropped", options_.name);
      scheduler_->stop(Scheduler::Stop::kDrop);
      data_->pump();
      data_->wait_until_idle(std::chrono::steady_clock::now() + std::chrono::seconds(10));
    }
  }
  for (const auto& listener : listeners_) listener->wait_until_sent(kLastWords);
  listeners_.clear();
  transport_.reset();
  workers_.reset();
  // Syncs that came after the wait, and what the workers still brought, are refused or nearly done.
  if (data_) data_->wait_until_idle(std::chrono::steady_clock::now() + std::chrono::seconds(30));
  engine_.reset();  // its threads may still be on their way out of the data path
  data_.reset();
  return finished;
}

Scheduler::Stop LiveNode::wait_for_stop() {
  std::unique_lock lock(mutex_);
  stop_changed_.wait(lock, [this] { return stop_asked_.has_value(); });
  return *stop_asked_;
}

void LiveNode::interrupt(Scheduler::Stop how) {
  std::lock_guard lock(mutex_);
  if (!stop_asked_) stop_asked_ = how;
  stop_changed_.notify_all();
}

// ---- connections ----

void LiveNode::connected(const net::ConnectionPointer& connection) {
  const wire::Identity& identity = connection->peer().identity;
  auto caller = std::make_shared<const Credentials>(
      Credentials{identity.uid, identity.gid, {identity.groups.begin(), identity.groups.end()}});
  const auto slot = std::make_shared<std::weak_ptr<Session>>();
  Session::Exits exits;
  exits.go = [this, slot](std::unique_ptr<Job> job) {
    if (auto session = slot->lock()) resolved(std::move(job), session);
  };
  exits.refuse = [this, slot](std::unique_ptr<Job> job, const wire::ReplyHead& why) {
    auto session = slot->lock();
    if (session && job->kind == Job::Kind::kStat && why.status == EACCES) return answer_stat(*job, session);
    job->head = why;
    reply(*job);
  };
  auto session = std::make_shared<Session>(*root_, *workers_, std::move(caller), std::move(exits));
  *slot = session;
  std::lock_guard lock(mutex_);
  sessions_[connection.get()] = std::move(session);
}

void LiveNode::closed(const net::ConnectionPointer& connection, const Error&) {
  SessionPointer session;
  {
    std::lock_guard lock(mutex_);
    const auto found = sessions_.find(connection.get());
    if (found == sessions_.end()) return;
    session = std::move(found->second);
    sessions_.erase(found);
  }
  session->close();
  data_->abandon(*session->jobs());
}

LiveNode::SessionPointer LiveNode::session_of(const net::ConnectionPointer& connection) {
  std::lock_guard lock(mutex_);
  const auto found = sessions_.find(connection.get());
  return found == sessions_.end() ? nullptr : found->second;
}

void LiveNode::received(const net::ConnectionPointer& from, net::Incoming message) {
  const SessionPointer session = session_of(from);
  if (!session) return;
  const wire::Header& header = message.header;
  if (header.reply) return from->close({ErrorCode::kProtocol, "a reply, though nothing was asked"});
  const auto type = static_cast<unsigned>(header.type);
  if (type >= static_cast<unsigned>(wire::Type::kPolicyShow)) return receive_control(from, session, message);
  if (auto allowed = may_act_for(*session->caller()); !allowed)
    return from->send({.frame = wire::encode_failure(header.type, header.tag, wire::to_head(allowed.error()))});
  if (is_data(header.type)) return receive_data(from, session, std::move(message));
  receive_namespace(from, session, std::move(message));
}

void LiveNode::receive_data(const net::ConnectionPointer& from, const SessionPointer& session, net::Incoming message) {
  const wire::Header header = message.header;
  auto request = to_job(std::move(message));
  if (!request)
    return from->send({.frame = wire::encode_failure(header.type, header.tag, wire::to_head(request.error()))});
  request->job->connection = from;
  request->job->siblings = session->jobs();
  session->resolve(std::move(request->job), request->file);
}

void LiveNode::resolved(std::unique_ptr<Job> job, const SessionPointer& session) {
  if (job->kind != Job::Kind::kStat) return data_->admit(std::move(job));
  // A stat sees what was acknowledged before it, which is in the file system already.
  workers_->post(session->strand(),
                 [this, session, job = std::shared_ptr<Job>(std::move(job))] { answer_stat(*job, session); });
}

void LiveNode::answer_stat(const Job& job, const SessionPointer& session) {
  const auto status =
      job.file ? root_->stat(*job.file) : root_->look_up(session->caller(), job.path, Root::Links::kFollow, 0);
  if (status)
    job.connection->send(
        {.frame = wire::encode(wire::StatRequest::Reply{{}, to_attributes(*status)}, {.tag = job.tag})});
  else
    job.connection->send({.frame = wire::encode_failure(job.type(), job.tag, wire::to_head(status.error()))});
}

void LiveNode::receive_namespace(const net::ConnectionPointer& from, const SessionPointer& session,
                                 net::Incoming message) {
  if (message.header.type == wire::Type::kClose) {
    const auto request = wire::decode<wire::CloseRequest>(message.header, message.body);
    if (!request)
      return from->send(
          {.frame = wire::encode_failure(message.header.type, message.header.tag, wire::to_head(request.error()))});
    session->forget(request->key);
    return from->send({.frame = wire::encode(wire::CloseRequest::Reply{}, {.tag = message.header.tag})});
  }
  auto shared = std::make_shared<net::Incoming>(std::move(message));
  workers_->post(session->strand(), [this, from, session, shared] {
    from->send({.frame = answer_namespace(*root_, session->caller(), shared->header, shared->body)});
  });
}

// ---- control ----

bool LiveNode::may_control(const Session& session) const {
  return session.caller()->uid == 0 || session.caller()->uid == own_credentials().uid;
}

void LiveNode::receive_control(const net::ConnectionPointer& from, const SessionPointer& session,
                               const net::Incoming& message) {
  std::optional<Scheduler::Stop> stop;
  from->send({.frame = answer_control(*session, message, stop)});
  if (stop) interrupt(*stop);  // the answer is on its way
}

std::vector<std::byte> LiveNode::answer_control(const Session& session, const net::Incoming& message,
                                                std::optional<Scheduler::Stop>& stop) {
  const wire::Header& header = message.header;
  const wire::Envelope envelope{.tag = header.tag};
  const auto refuse = [&](std::int32_t status, const std::string& text) {
    return wire::encode_failure(header.type, header.tag, {status, text.substr(0, wire::kMaxMessage), {}});
  };
  const bool changes = header.type == wire::Type::kPolicySet || header.type == wire::Type::kStop;
  if (changes && !may_control(session))
    return refuse(EPERM, "only the node's own user and root may change or stop a node");
  switch (header.type) {
    case wire::Type::kPolicyShow: {
      std::lock_guard lock(mutex_);
      return wire::encode(wire::PolicyReply{{}, policy_, policy_options_}, envelope);
    }
    case wire::Type::kPolicySet: {
      const auto request = wire::decode<wire::PolicySetRequest>(header, message.body);
      if (!request) return refuse(wire::kMalformed, request.error().message);
      if (auto set = set_policy(request->policy, request->options); !set)
        return wire::encode_failure(header.type, header.tag, wire::to_head(set.error()));
      return wire::encode(wire::PolicySetRequest::Reply{}, envelope);
    }
    case wire::Type::kStatistics:
      return wire::encode(statistics(), envelope);
    case wire::Type::kHealth:
      return wire::encode(health(), envelope);
    case wire::Type::kStop: {
      const auto request = wire::decode<wire::StopRequest>(header, message.body);
      if (!request) return refuse(wire::kMalformed, request.error().message);
      stop = request->drain ? Scheduler::Stop::kDrain : Scheduler::Stop::kDrop;
      return wire::encode(wire::StopRequest::Reply{}, envelope);
    }
    default:
      return refuse(wire::kMalformed, "not something a client may ask a node for");
  }
}

Result<void> LiveNode::set_policy(const std::string& name, const PolicyOptions& options) {
  std::lock_guard lock(mutex_);
  if (auto switched = scheduler_->switch_policy(name, options); !switched) return switched;
  policy_ = name;
  policy_options_ = options;
  spdlog::info("{}: policy {}", options_.name, name);
  workers_->post(std::make_shared<Workers::Strand>(), [this] { data_->pump(); });
  return {};
}

wire::StatisticsReply LiveNode::statistics() const {
  const Scheduler::Statistics scheduler = scheduler_->statistics();
  const DataPath::Counts counts = data_->counts();
  wire::StatisticsReply reply;
  reply.node = options_.name;
  reply.policy = scheduler.policy;
  reply.uptime = uptime();
  {
    std::lock_guard lock(mutex_);
    reply.connections = sessions_.size();
  }
  reply.waiting = scheduler.waiting;
  reply.waiting_bytes = scheduler.waiting_bytes.count();
  reply.in_flight = scheduler.in_flight;
  reply.batches = counts.batches;
  reply.batched_requests = counts.batched_requests;
  reply.refused = counts.refused;
  reply.buffer_bytes = (write_memory_->in_use() + read_memory_->in_use()).count();
  reply.usage = data_->usage(wire::kMaxBody / 2);
  return reply;
}

wire::HealthReply LiveNode::health() const {
  wire::HealthReply reply;
  reply.node = options_.name;
  reply.software = "tutti";
  reply.engine = engine_name_;
  reply.root = options_.directory;
  {
    std::lock_guard lock(mutex_);
    reply.policy = policy_;
  }
  reply.stopping = stopping_;
  reply.uptime = uptime();
  reply.process = static_cast<std::uint32_t>(getpid());
  reply.targets = options_.targets;
  return reply;
}

}  // namespace

std::size_t default_depth(const std::string& device_class) {
  for (const DeviceClass& known : kDeviceClasses)
    if (known.name == device_class) return known.depth;
  return 0;
}

std::vector<std::string> device_classes() {
  std::vector<std::string> names;
  for (const DeviceClass& known : kDeviceClasses) names.emplace_back(known.name);
  return names;
}

Result<std::unique_ptr<Node>> Node::start(NodeOptions options) {
  auto node = std::make_unique<LiveNode>(std::move(options));
  if (auto opened = node->open(); !opened) return Failure(opened.error());
  return node;
}

}  // namespace tutti
