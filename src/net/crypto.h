// SPDX-License-Identifier: Apache-2.0
// The little cryptography the handshake needs, from OpenSSL.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "net/transport.h"

namespace tutti::net {

wire::Nonce random_nonce();

// HMAC-SHA256 over the parts, each preceded by its length, so that no two sequences of parts look the same.
wire::Digest authenticate(const ClusterKey& key, std::string_view purpose,
                          std::initializer_list<std::span<const std::byte>> parts);

// In time that does not depend on where they differ.
bool same_digest(const wire::Digest& a, const wire::Digest& b);

}  // namespace tutti::net
