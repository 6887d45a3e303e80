// SPDX-License-Identifier: Apache-2.0
#include "net/endpoint.h"

#include <fmt/format.h>
#include <sys/un.h>

#include <charconv>

namespace tutti::net {
namespace {

Failure wrong(std::string_view text, std::string_view why) {
  return fail(ErrorCode::kInvalid,
              fmt::format("endpoint \"{}\": {}; write unix:/path, tcp:host:port or local:name", text, why));
}

Result<Endpoint> parse_tcp(std::string_view text, std::string_view rest) {
  const auto colon = rest.rfind(':');
  if (colon == rest.npos || colon == 0) return wrong(text, "a TCP endpoint needs a host and a port");
  Endpoint endpoint{Endpoint::Kind::kTcp, std::string(rest.substr(0, colon)), 0};
  const auto digits = rest.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), endpoint.port);
  if (error != std::errc{} || end != digits.data() + digits.size()) return wrong(text, "the port is not a number");
  if (endpoint.name.find(':') != endpoint.name.npos && endpoint.name.front() != '[') {
    return wrong(text, "an IPv6 address must be in square brackets");
  }
  return endpoint;
}

}  // namespace

Result<Endpoint> parse_endpoint(std::string_view text) {
  const auto colon = text.find(':');
  const auto kind = text.substr(0, colon);
  const auto rest = colon == text.npos ? std::string_view{} : text.substr(colon + 1);
  if (rest.empty()) return wrong(text, "not an endpoint");
  if (kind == "tcp") return parse_tcp(text, rest);
  if (kind == "local") return Endpoint{Endpoint::Kind::kLocal, std::string(rest), 0};
  if (kind != "unix") return wrong(text, fmt::format("unknown kind \"{}\"", kind));
  if (rest.size() >= sizeof(sockaddr_un::sun_path)) {
    return wrong(text, fmt::format("the path of a socket has at most {} bytes", sizeof(sockaddr_un::sun_path) - 1));
  }
  return Endpoint{Endpoint::Kind::kUnix, std::string(rest), 0};
}

std::string to_text(const Endpoint& endpoint) {
  switch (endpoint.kind) {
    case Endpoint::Kind::kUnix:
      return "unix:" + endpoint.name;
    case Endpoint::Kind::kTcp:
      return fmt::format("tcp:{}:{}", endpoint.name, endpoint.port);
    case Endpoint::Kind::kLocal:
      break;
  }
  return "local:" + endpoint.name;
}

}  // namespace tutti::net
