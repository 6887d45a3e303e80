// SPDX-License-Identifier: Apache-2.0
// Part of NodeService: requests for names, and reports of progress to clients.
#include <set>
#include <utility>

#include "base/mutex.h"
#include "node/namespace_service.h"
#include "node/node_service.h"

namespace tutti {

using namespace node;

void NodeService::receive_namespace(const net::ConnectionPointer& from, const SessionPointer& session,
                                    net::Incoming message) {
  if (message.header.type == wire::Type::kClose) {
    const auto request = wire::decode<wire::CloseRequest>(message.header, message.body);
    if (!request)
      return from->send(
          {.frame = wire::encode_failure(message.header.type, message.header.tag, wire::to_head(request.error()))});
    session->forget(request->key);
    return from->send({.frame = wire::encode(wire::CloseRequest::Reply{}, {.tag = message.header.tag})});
  }
  using Kind = NamesAtWork::Kind;
  const Kind kind = message.header.type == wire::Type::kSyncDirectory ? Kind::kDirectorySync : Kind::kName;
  names_.began(from.get(), session->caller()->uid, kind);
  data_->look_soon();
  auto shared = std::make_shared<net::Incoming>(std::move(message));
  dependencies_.workers->post(session->strand(), [this, from, session, shared, kind] {
    const NamespaceContext on{*dependencies_.files, session->caller(), dependencies_.world->clock(),
                              session->renewed()};
    auto reply = answer_namespace(on, shared->header, shared->body);
    names_.ended(from.get(), session->caller()->uid, kind);
    from->send({.frame = std::move(reply)});
  });
}

// If the queue moves, all clients are notified: what they have sent may wait in their sockets.
bool NodeService::report(const DataPath::Progress& progress) {
  clock_->follow();
  {
    Lock lock(credit_mutex_);
    announce(credits_.look());
  }
  const std::set<net::ConnectionPointer> syncing(progress.syncing.begin(), progress.syncing.end());
  const bool moving = progress.waiting && progress.moving;
  const NamesAtWork::Progress names = names_.look();
  if (!moving && syncing.empty() && names.naming.empty()) return names.any;
  std::vector<net::ConnectionPointer> all;
  {
    Lock lock(mutex_);
    all = connections_;
  }
  wire::Progress message{.head = {.now = dependencies_.world->clock().steady()}, .moving = moving};
  for (const net::ConnectionPointer& connection : all) {
    message.syncing = syncing.contains(connection) || names.syncing.contains(connection.get());
    message.naming = names.naming.contains(connection.get());
    if (moving || message.syncing || message.naming) connection->send({.frame = wire::encode(message, {})});
  }
  return names.any;
}

}  // namespace tutti
