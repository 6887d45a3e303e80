// SPDX-License-Identifier: Apache-2.0
#include "gate/live_server.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/descriptor.h"
#include "base/live_world.h"
#include "base/log_limit.h"
#include "gate/live_address.h"

namespace tutti::gate {
namespace {

// How long sessions of the previous gate may re-assert.
Duration recovery(const std::optional<RunMarker>& marker, Duration lease, std::span<const net::Endpoint> endpoints) {
  if (marker && marker->left_behind()) return std::max(*marker->left_behind(), lease);
  const bool clean = marker && marker->idle();
  const auto tcp = [](const net::Endpoint& endpoint) { return endpoint.kind == net::Endpoint::Kind::kTcp; };
  return !clean && std::ranges::any_of(endpoints, tcp) ? lease : Duration::zero();
}

}  // namespace

Result<std::unique_ptr<GateServer>> GateServer::create(Options options) {
  if (options.addresses.empty()) return fail(ErrorCode::kInvalid, "a gate needs at least one address to listen on");
  std::unique_ptr<GateServer> server(new GateServer);
  server->wakeup_ = net::Socket(::eventfd(0, EFD_CLOEXEC));
  if (server->wakeup_.file() < 0) return fail(ErrorCode::kIo, fmt::format("eventfd: {}", std::strerror(errno)), errno);
  std::vector<net::Endpoint> endpoints;
  for (const std::string& text : options.addresses) {
    auto endpoint = parse_address(text);
    if (!endpoint) return Failure(endpoint.error());
    endpoints.push_back(std::move(*endpoint));
  }
  if (!options.state_path.empty()) {
    auto opened = RunMarker::open(options.state_path);
    if (!opened) return Failure(opened.error());
    server->marker_ = std::move(*opened);
  }
  GateService::Options service{.table = options.table,
                               .recover_for = recovery(server->marker_, options.table.lease, endpoints),
                               .authentication = {.key = options.key.has_value()},
                               .log = options.log};
  if (options.jobs) service.authentication.job_check = options.jobs->kind();
  auto made = GateService::create(live_world(), std::move(service));
  if (!made) return Failure(made.error());
  server->service_ = std::move(*made);
  auto transport = net::Transport::create({});
  if (!transport) return Failure(transport.error());
  server->transport_ = std::move(*transport);
  // Before the first grant, so that the next gate knows that there may be holders.
  if (server->marker_)
    if (auto set = server->marker_->set_running(options.table.lease); !set) return Failure(set.error());
  net::ListenOptions listen = GateService::listen_options();
  listen.key = options.key;
  listen.munge = options.munge;
  listen.jobs = options.jobs;
  if (options.log)
    listen.refused = [log = options.log, limit = std::make_shared<LogLimit>()](const std::string& address,
                                                                               const Error& why) {
      if (limit->allow(net::steady_now())) log(fmt::format("refused a login from {}: {}", address, why.message));
    };
  listen.max_connections = std::min(options.max_connections, raise_descriptor_limit() - 64);
  listen.max_connections_per_user = options.max_connections_per_user;
  for (const net::Endpoint& endpoint : endpoints) {
    auto listener = server->transport_->listen(endpoint, listen, *server->service_);
    if (!listener) return Failure(listener.error());
    server->listeners_.push_back(std::move(*listener));
  }
  return server;
}

GateServer::~GateServer() {
  if (service_) (void)service_->stop();
  listeners_.clear();
}

Result<void> GateServer::run() {
  std::uint64_t count = 0;
  while (::read(wakeup_.file(), &count, sizeof count) < 0 && errno == EINTR) continue;
  const bool idle = service_->stop();  // before the connections are closed, because that ends their turns
  listeners_.clear();
  return idle && marker_ ? marker_->set_idle() : Result<void>{};
}

void GateServer::stop() {
  const std::uint64_t one = 1;
  (void)!::write(wakeup_.file(), &one, sizeof one);
}

std::uint16_t GateServer::port() const {
  for (const auto& listener : listeners_)
    if (listener->endpoint().kind == net::Endpoint::Kind::kTcp) return listener->endpoint().port;
  return 0;
}

}  // namespace tutti::gate
