// SPDX-License-Identifier: Apache-2.0
// Addresses of the gate as text ("unix:/path", "/path" or "tcp:host:port"), and which users may run a gate there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "net/endpoint.h"

namespace tutti::gate {

Result<net::Endpoint> parse_address(std::string_view text);

// The address that clients use: $TUTTI_GATE, else /run/tutti/gate.sock if it exists, else
// $XDG_RUNTIME_DIR/tutti-gate.sock if that variable is set, else /run/tutti/gate.sock. Never a directory that others
// can write to.
std::string default_address();

// The address that a gate listens on by default: the same as for clients. Creates /run/tutti (mode 0755) if permitted.
// kInvalid: none of the addresses can be used.
Result<std::string> default_listen_address();

// The user that may run a gate on a socket at this path, besides root and this process's user: the owner of its
// directory, if no other user can write to the directory.
std::optional<std::uint32_t> trusted_owner(const std::string& path);

}  // namespace tutti::gate
