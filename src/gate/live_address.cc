// SPDX-License-Identifier: Apache-2.0
#include "gate/live_address.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

namespace tutti::gate {
namespace {

constexpr const char* kDirectory = "/run/tutti";
constexpr const char* kSocket = "/run/tutti/gate.sock";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The owner of the directory, if no other user can write to it.
std::optional<std::uint32_t> sole_owner(const std::string& directory) {
  struct stat facts {};
  if (::stat(directory.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode) || (facts.st_mode & 022) != 0)
    return std::nullopt;
  return facts.st_uid;
}

}  // namespace

Result<net::Endpoint> parse_address(std::string_view text) {
  return net::parse_endpoint(text.starts_with('/') ? fmt::format("unix:{}", text) : std::string(text));
}

std::string default_address() {
  if (const std::string set = variable("TUTTI_GATE"); !set.empty()) return set;
  const std::string own = variable("XDG_RUNTIME_DIR");
  return ::access(kSocket, F_OK) == 0 || own.empty() ? kSocket : own + "/tutti-gate.sock";
}

Result<std::string> default_listen_address() {
  if (const std::string set = variable("TUTTI_GATE"); !set.empty()) return set;
  ::mkdir(kDirectory, 0755);
  const auto owner = sole_owner(kDirectory);
  if (owner && (*owner == 0 || *owner == ::geteuid()) && ::access(kDirectory, W_OK) == 0) return kSocket;
  if (const std::string own = variable("XDG_RUNTIME_DIR"); !own.empty()) return own + "/tutti-gate.sock";
  return fail(ErrorCode::kInvalid,
              fmt::format("{} cannot be used (it must belong to root or this user, and no other user may write to it), "
                          "and XDG_RUNTIME_DIR is not set; set a socket with --listen",
                          kDirectory));
}

std::optional<std::uint32_t> trusted_owner(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  return sole_owner(directory.empty() ? "." : directory);
}

}  // namespace tutti::gate
