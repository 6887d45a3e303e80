// SPDX-License-Identifier: Apache-2.0
#include "node/node_service.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/mutex.h"
#include "base/table.h"
#include "net/admission.h"
#include "node/namespace_service.h"
#include "node/requests.h"

namespace tutti {

using namespace node;

namespace {

struct DeviceClass {
  const char* name;
  std::size_t depth;
};

// A disk serves one request at a time and needs a few to choose from; flash has parallel channels to keep busy.
constexpr DeviceClass kDeviceClasses[] = {{"hdd", 4}, {"ssd", 16}, {"nvme", 64}, {"null", 64}};

bool copies_onto_itself(const ClientRequest& copy) {
  const std::uint64_t from = copy.source_offset, to = copy.extents.front().offset;
  return copy.source->id() == copy.file->id() && from < to + copy.total && to < from + copy.total;
}

}  // namespace

// ---- start and stop ----

Result<std::unique_ptr<NodeService>> NodeService::create(const NodeOptions& options, const Dependencies& dependencies) {
  if (options.name.size() > wire::kMaxName)
    return fail(ErrorCode::kInvalid,
                fmt::format("the node's name has {} bytes; at most {}", options.name.size(), wire::kMaxName));
  const std::size_t depth = options.depth > 0 ? options.depth : default_depth(options.device_class);
  if (depth == 0)
    return fail(ErrorCode::kInvalid, fmt::format("unknown device class \"{}\"; known ones are {}", options.device_class,
                                                 fmt::join(device_classes(), ", ")));
  auto clock = std::make_unique<PolicyClock>(dependencies.world->clock());
  auto limits = std::make_shared<ClusterLimits>();
  auto scheduler = Scheduler::create({.policy = options.policy,
                                      .policy_options = options.policy_options,
                                      .device_class = options.device_class,
                                      .max_requests = options.max_waiting,
                                      .max_in_flight = depth,
                                      .clock = clock.get(),
                                      .observer = dependencies.observer,
                                      .predictions = dependencies.predictions,
                                      .limits = limits});
  if (!scheduler) return Failure(scheduler.error());
  return std::unique_ptr<NodeService>(
      new NodeService(options, dependencies, std::move(clock), std::move(limits), std::move(*scheduler)));
}

NodeService::NodeService(const NodeOptions& options, const Dependencies& dependencies,
                         std::unique_ptr<PolicyClock> clock, std::shared_ptr<ClusterLimits> limits,
                         std::unique_ptr<Scheduler> scheduler)
    : options_(options),
      dependencies_(dependencies),
      started_(dependencies.world->clock().steady()),
      engine_name_(dependencies.engine->name()),
      clock_(std::move(clock)),
      limits_(std::move(limits)),
      scheduler_(std::move(scheduler)),
      write_memory_(net::BufferPool::create(net::WriteMemory(options.write_buffers).with_writes, {})),
      pulled_memory_(net::BufferPool::create(net::WriteMemory(options.write_buffers).pulled)),
      read_memory_(net::BufferPool::create(options.read_buffers)),
      data_(std::make_unique<DataPath>(
          DataPath::Dependencies{.world = dependencies.world,
                                 .scheduler = scheduler_.get(),
                                 .policy_clock = clock_.get(),
                                 .engine = dependencies.engine,
                                 .files = dependencies.files,
                                 .workers = dependencies.workers,
                                 .read_memory = read_memory_,
                                 .when_idle = dependencies.changed,
                                 .progress = [this](const auto& made) { return report(made); },
                                 .memory_patience = options.memory_patience,
                                 .pulled_memory = pulled_memory_})),
      open_files_(options.max_open_files, *dependencies.engine, dependencies.changed),
      credits_(net::WriteMemory(options.write_buffers), Bytes(options.limits.bytes)),
      policy_(options.policy),
      policy_options_(options.policy_options) {}

net::ListenOptions NodeService::listen_options(const std::optional<net::ClusterKey>& key) const {
  net::ListenOptions listen;
  listen.node = options_.name;
  listen.limits = options_.limits;
  listen.limits.credit = 0;  // connected() grants it
  listen.pool = write_memory_;
  listen.pulled_pool = pulled_memory_;
  listen.key = key;
  listen.munge = options_.munge;
  listen.jobs = dependencies_.jobs;
  listen.pages = dependencies_.engine->takes_pages() && dependencies_.files->local();
  listen.by_reference = listen.pages || options_.direct;
  listen.max_connections = options_.max_connections;
  listen.max_connections_per_user = options_.max_connections / 2;
  listen.fence_time = options_.fence_time;
  // Called only while the node listens.
  listen.refused = [this](const std::string& address, const Error& why) {
    if (const auto left_out = refusals_.allow(dependencies_.world->clock().steady()))
      spdlog::warn("{}: refused a login from {}: {}{}", options_.name, address, printable(why.message),
                   *left_out > 0 ? fmt::format(" ({} more were not logged)", *left_out) : "");
  };
  listen.instance = net::own_instance();
  if (!options_.exclusive) listen.instance->process = 0;
  return listen;
}

Result<void> NodeService::join_cluster(net::Transport& transport, net::ConnectOptions connect) {
  if (options_.cluster.size() < 2) return {};
  LimitExchange::Options exchange{.nodes = {}, .own = options_.cluster.size(), .connect = std::move(connect)};
  for (const NodeOptions::ClusterNode& node : options_.cluster) {
    auto endpoint = net::parse_endpoint(node.endpoint);
    if (!endpoint) return Failure(endpoint.error());
    if (node.name == options_.name) exchange.own = exchange.nodes.size();
    exchange.nodes.push_back({node.name, std::move(*endpoint)});
  }
  if (exchange.own == exchange.nodes.size())
    return fail(ErrorCode::kInvalid, fmt::format("{} is not one of the nodes of its cluster", options_.name));
  exchange_ = std::make_unique<LimitExchange>(std::move(exchange),
                                              LimitExchange::Dependencies{.world = dependencies_.world,
                                                                          .transport = &transport,
                                                                          .limits = limits_.get(),
                                                                          .granted = [this] { data_->pump(); }});
  return {};
}

void NodeService::leave_cluster() {
  if (exchange_) exchange_->stop();
}

// `tutti put` writes NAME.tutti-tmp.PID-RANDOM and then renames it: it is the file NAME.
void NodeService::opened(FileId file, const std::string& path) {
  scheduler_->name_file(file, std::string_view(path).substr(0, path.find(".tutti-tmp.")));
}

void NodeService::stop(Scheduler::Stop how) {
  stopping_ = true;
  scheduler_->stop(how);
  data_->pump();
}

std::optional<Scheduler::Stop> NodeService::stop_asked() const {
  Lock lock(mutex_);
  return stop_asked_;
}

void NodeService::ask_to_stop(Scheduler::Stop how) {
  {
    Lock lock(mutex_);
    if (!stop_asked_) stop_asked_ = how;
  }
  if (dependencies_.changed) dependencies_.changed();
}

// ---- connections ----

void NodeService::connected(const net::ConnectionPointer& connection) {
  const wire::Identity& identity = connection->peer().identity;
  auto caller = std::make_shared<const Credentials>(
      Credentials{identity.uid, identity.gid, {identity.groups.begin(), identity.groups.end()}});
  auto session = std::make_shared<Session>(
      Session::Dependencies{*dependencies_.files, *dependencies_.workers, open_files_}, std::move(caller), *this);
  open_files_.joined(session);
  connection->context = session;
  ++sessions_;
  {
    Lock lock(mutex_);
    connections_.push_back(connection);
  }
  connection->set_credit(0);
  session->credit().connection = connection.get();
  session->credit().user = identity.uid;
  session->job_proven() = !dependencies_.jobs || dependencies_.jobs->proves(connection->peer());
  Lock lock(credit_mutex_);
  announce(credits_.join(session->credit()));
}

void NodeService::announce(const Credits::Changes& changes) {
  for (Credits::Holder* holder : changes) {
    holder->connection->set_credit(holder->reserved);
    holder->connection->send(
        {.frame = wire::encode(wire::Credit{.bytes = holder->granted, .number = holder->number}, {})});
  }
}

void NodeService::closed(const net::ConnectionPointer& connection, const Error&) {
  const auto session = std::static_pointer_cast<Session>(connection->context);
  if (!session) return;
  --sessions_;
  {
    Lock lock(mutex_);
    std::erase(connections_, connection);
  }
  {
    Lock lock(credit_mutex_);
    credits_.remove(session->credit());
  }
  if (const auto named = session->named_job()) limits_->forget_job(*named, session->caller()->uid);
  session->close();
  open_files_.left(*session);
  data_->abandon(session->requests(), session->pulled_payloads());
}

void NodeService::received(const net::ConnectionPointer& from, net::Incoming message) {
  const auto session = std::static_pointer_cast<Session>(from->context);
  const wire::Header& header = message.header;
  if (header.reply) return from->close({ErrorCode::kProtocol, "a client sent a reply"});
  const auto type = static_cast<unsigned>(header.type);
  if (type >= static_cast<unsigned>(wire::Type::kPolicyShow)) return receive_control(from, session, message);
  if (auto allowed = may_act_for(*session->caller()); !allowed) {
    // A reply to a message that needs none would be counted nowhere, and the client need not read it. The connection
    // stays open: the client learns the reason from the reply to its first request.
    if (wire::is_one_way(header.type)) return;
    return from->send({.frame = wire::encode_failure(header.type, header.tag, wire::to_head(allowed.error()))});
  }
  if (wire::is_one_way(header.type)) return receive_one_way(from, *session, std::move(message));
  if (is_data(header.type)) return receive_data(from, session, std::move(message));
  receive_namespace(from, session, std::move(message));
}

void NodeService::receive_one_way(const net::ConnectionPointer& from, Session& session, net::Incoming message) {
  const wire::Header& header = message.header;
  if (header.type == wire::Type::kRenew) {
    if (const auto renew = wire::decode<wire::Renew>(header, message.body)) session.renewed() = renew->deadline;
  } else if (header.type == wire::Type::kPayload) {
    if (auto taken = data_->payload_arrived(session.requests(), std::move(message)); !taken) from->close(taken.error());
  } else if (const auto accepted = wire::decode<wire::CreditAccepted>(header, message.body)) {
    Lock lock(credit_mutex_);
    const auto changes = credits_.accepted(session.credit(), accepted->number);
    const bool kept = from->set_credit(session.credit().reserved);
    announce(changes);
    lock.unlock();
    if (!kept) from->close({ErrorCode::kProtocol, "a client accepted a credit and uses more"});
  }
}

Result<net::Buffer> NodeService::payload_memory(const net::ConnectionPointer& from, const wire::Header& header) {
  return data_->payload_memory(std::static_pointer_cast<Session>(from->context)->requests(), header);
}

void NodeService::receive_data(const net::ConnectionPointer& from, const SessionPointer& session,
                               net::Incoming message) {
  const wire::Header header = message.header;
  auto request = decode_client_request(std::move(message));
  if (!request)
    return from->send({.frame = wire::encode_failure(header.type, header.tag, wire::to_head(request.error()))});
  (*request)->connection = from;
  (*request)->stamp.user = session->caller()->uid;
  if (const auto& application = from->peer().application) (*request)->stamp.application = *application;
  (*request)->job_proven = session->job_proven();
  name_job(*session, from->peer(), (*request)->stamp.application);
  (*request)->connection_requests = &session->requests();
  (*request)->renewed = &session->renewed();
  (*request)->pulled_payloads = &session->pulled_payloads();
  (*request)->read_account = &session->read_account();
  if ((*request)->kind == ClientRequest::Kind::kWrite && (*request)->total > net::Budget::kSmall)
    uses_credit(*session, **request);
  session->resolve(std::move(*request));
}

// Clients rarely send requests of several jobs on one connection.
void NodeService::name_job(Session& session, const net::Peer& peer, ApplicationId application) {
  std::optional<ApplicationId>& named = session.named_job();
  if (named == application) return;
  const UserId user = session.caller()->uid;
  limits_->name_job(application, user, peer.job);
  if (named) limits_->forget_job(*named, user);
  named = application;
}

// A large write: its connection gets a credit again if it has none.
void NodeService::uses_credit(Session& session, const ClientRequest& write) {
  session.credit().used = true;
  if (write.payload == PayloadState::kHere) return;
  Lock lock(credit_mutex_);
  announce(credits_.join(session.credit()));
}

void NodeService::resolved(std::unique_ptr<ClientRequest> request, Session& session) {
  if (request->kind == ClientRequest::Kind::kCopy && copies_onto_itself(*request)) {
    request->fail(EINVAL, "the two ranges of the copy are in one file and overlap");
    return reply(*request);
  }
  if (request->kind != ClientRequest::Kind::kStat) return data_->admit(std::move(request));
  // No need to order it with writes: a stat only promises to see acknowledged writes, which are in the file system.
  dependencies_.workers->post(session.strand(), [this, owner = session.shared_from_this(),
                                                 shared = std::shared_ptr<ClientRequest>(std::move(request))] {
    answer_stat(*shared, *owner);
  });
}

void NodeService::refused(std::unique_ptr<ClientRequest> request, Session& session) {
  if (request->kind == ClientRequest::Kind::kStat && request->head.status == EACCES)
    return answer_stat(*request, session);
  reply(*request);
}

void NodeService::answer_stat(const ClientRequest& request, const Session& session) {
  FileSystem& files = *dependencies_.files;
  Result<struct stat> status = fail(ErrorCode::kIo, "no file");
  if (request.file)
    status = files.stat(*request.file);
  else
    status = files.look_up(session.caller(), request.reference.path, FileSystem::Links::kFollow, 0).map([
    ](const FileStat& found) -> struct stat { return found; });
  wire::ReplyHead head;
  if (!status) head = wire::to_head(status.error());
  head.now = dependencies_.world->clock().steady();
  request.connection->send(
      {.frame = status ? wire::encode(wire::StatRequest::Reply{head, to_attributes(*status)}, {.tag = request.tag})
                       : wire::encode_failure(request.type(), request.tag, head)});
}

// ---- control ----

bool NodeService::may_control(const Session& session) const {
  return session.caller()->uid == 0 || session.caller()->uid == own_credentials().uid;
}

void NodeService::receive_control(const net::ConnectionPointer& from, const SessionPointer& session,
                                  const net::Incoming& message) {
  std::optional<Scheduler::Stop> stop;
  from->send({.frame = answer_control(*session, message, stop)});
  if (stop) ask_to_stop(*stop);  // after the answer was sent
}

std::vector<std::byte> NodeService::answer_control(const Session& session, const net::Incoming& message,
                                                   std::optional<Scheduler::Stop>& stop) {
  const wire::Header& header = message.header;
  const wire::Envelope envelope{.tag = header.tag};
  const auto refuse = [&](std::int32_t status, const std::string& text) {
    return wire::encode_failure(header.type, header.tag, {status, text, {}});
  };
  const bool changes = header.type == wire::Type::kPolicySet || header.type == wire::Type::kStop ||
                       header.type == wire::Type::kLimitShare;
  if (changes && !may_control(session))
    return refuse(EPERM, "only the node's own user and root may change or stop a node, or share its limits");
  switch (header.type) {
    case wire::Type::kPolicyShow: {
      Lock lock(mutex_);
      return wire::encode(wire::PolicyReply{{}, policy_, policy_options_}, envelope);
    }
    case wire::Type::kPolicySet: {
      const auto request = wire::decode<wire::PolicySetRequest>(header, message.body);
      if (!request) return refuse(wire::kMalformed, request.error().message);
      if (auto set = set_policy(request->policy, request->options); !set)
        return wire::encode_failure(header.type, header.tag, wire::to_head(set.error()));
      return wire::encode(wire::PolicySetRequest::Reply{}, envelope);
    }
    case wire::Type::kStatistics: {
      const auto request = wire::decode<wire::StatisticsRequest>(header, message.body);
      if (!request) return refuse(wire::kMalformed, request.error().message);
      return wire::encode(statistics(request->first), envelope);
    }
    case wire::Type::kHealth:
      return wire::encode(health(), envelope);
    case wire::Type::kLimitShare:
      return answer_limits(message);
    case wire::Type::kLimitsShow:
      return wire::encode(limits(), envelope);
    case wire::Type::kStop: {
      const auto request = wire::decode<wire::StopRequest>(header, message.body);
      if (!request) return refuse(wire::kMalformed, request.error().message);
      stop = request->drain ? Scheduler::Stop::kDrain : Scheduler::Stop::kDrop;
      return wire::encode(wire::StopRequest::Reply{}, envelope);
    }
    default:
      return refuse(wire::kMalformed, "a node does not serve this type of message");
  }
}

Result<void> NodeService::set_policy(const std::string& name, const PolicyOptions& options) {
  Lock lock(mutex_);
  if (auto switched = scheduler_->switch_policy(name, options); !switched) return switched;
  policy_ = name;
  policy_options_ = options;
  spdlog::info("{}: policy {}", options_.name, name);
  dependencies_.workers->post(Workers::kProcess, [this] { data_->pump(); });
  return {};
}

std::vector<std::byte> NodeService::answer_limits(const net::Incoming& message) {
  const wire::Header& header = message.header;
  const auto request = wire::decode<wire::LimitShareRequest>(header, message.body);
  if (!request) return wire::encode_failure(header.type, header.tag, {wire::kMalformed, request.error().message, {}});
  auto reply = exchange_ ? exchange_->answer(*request)
                         : fail(ErrorCode::kInvalid, options_.name + " knows no other nodes: restart it");
  if (!reply) return wire::encode_failure(header.type, header.tag, wire::to_head(reply.error()));
  return wire::encode(*reply, {.tag = header.tag});
}

wire::LimitsReply NodeService::limits() const {
  if (exchange_) return exchange_->status();
  return {.head = {}, .limited = limits_->active(), .nodes = 1, .distributor = options_.name, .shares = 1};
}

wire::StatisticsReply NodeService::statistics(const wire::UsageKey& first) const {
  const Scheduler::State scheduler = scheduler_->state();
  const DataPath::DispatchCounts counts = data_->counts();
  wire::StatisticsReply reply;
  reply.node = options_.name;
  reply.policy = scheduler.policy;
  reply.uptime = uptime();
  reply.connections = sessions_;
  reply.waiting = scheduler.waiting;
  reply.waiting_bytes = scheduler.waiting_bytes.count();
  reply.in_flight = scheduler.in_flight;
  reply.batches = counts.batches;
  reply.batched_requests = counts.batched_requests;
  reply.refused = counts.refused;
  reply.buffer_bytes = (write_memory_->in_use() + pulled_memory_->in_use() + read_memory_->in_use()).count();
  UsageTable::Page page = data_->usage(first);
  reply.usage = std::move(page.rows);
  reply.more = page.more;
  return reply;
}

wire::HealthReply NodeService::health() const {
  wire::HealthReply reply;
  reply.head.now = dependencies_.world->clock().steady();
  reply.node = options_.name;
  reply.software = "tutti";
  reply.engine = engine_name_;
  reply.root = options_.directory;
  {
    Lock lock(mutex_);
    reply.policy = policy_;
  }
  reply.stopping = stopping_;
  reply.uptime = uptime();
  reply.process = dependencies_.process;
  reply.job_check = options_.job_check;
  reply.key = !options_.key_file.empty();
  return reply;
}

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

}  // namespace tutti
