// SPDX-License-Identifier: Apache-2.0
// Decodes data messages.
#pragma once

#include <tutti/base.h>

#include <memory>

#include "net/transport.h"
#include "node/client_request.h"

namespace tutti::node {

// Messages that refer to an open file: read, write, copy, fsync, truncate, stat.
bool is_data(wire::Type type);

// kProtocol: the message is malformed, or its payload and its extents have different sizes.
Result<std::unique_ptr<ClientRequest>> decode_client_request(net::Incoming message);

}  // namespace tutti::node
