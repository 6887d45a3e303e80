// SPDX-License-Identifier: Apache-2.0
// Cryptography for the handshake, from OpenSSL.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "net/transport.h"

namespace tutti::net {

wire::Nonce random_nonce();

// HMAC-SHA256 over the parts. Each part is preceded by its length, so that different sequences give different digests.
wire::Digest authenticate(const ClusterKey& key, std::string_view purpose,
                          std::initializer_list<std::span<const std::byte>> parts);

// Compares in constant time.
bool same_digest(const wire::Digest& a, const wire::Digest& b);

}  // namespace tutti::net
