// SPDX-License-Identifier: Apache-2.0
// The address of a node, as text: "unix:/run/tutti/node0.sock", "tcp:host:7000", "local:name" (inside this process).
#pragma once

#include <tutti/base.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti::net {

struct Endpoint {
  enum class Kind { kUnix, kTcp, kLocal };
  Kind kind = Kind::kLocal;
  std::string name;        // path, host (a name, an IPv4 address or an IPv6 address in []), or any text
  std::uint16_t port = 0;  // TCP only; 0 when listening: the system chooses a free port

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

Result<Endpoint> parse_endpoint(std::string_view text);
std::string to_text(const Endpoint& endpoint);

}  // namespace tutti::net
