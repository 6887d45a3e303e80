// SPDX-License-Identifier: Apache-2.0
#include "job/live.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace tutti::job {
namespace {

const char* variable(const char* name) {
  return std::getenv(name);
}

}  // namespace

Result<Identity> identify_process(IdentityOptions options) {
  options.session = static_cast<std::uint64_t>(::getsid(0));
  options.program = program_invocation_short_name;
  return identify(variable, options);
}

// Lines of "kind bytes".
void load_sizes(const std::string& path, Phases& phases) {
  std::ifstream file(path);
  std::uint64_t kind = 0, bytes = 0;
  while (file >> kind >> bytes) phases.remember(kind, Bytes(bytes));
}

Result<void> save_sizes(const Phases& phases, const std::string& path) {
  const auto sizes = phases.learned();
  if (sizes.empty()) return {};
  const auto temporary =
      fmt::format("{}.{}.new", path, ::getpid());  // unique: processes of a job save at the same time
  std::ofstream file(temporary);
  for (const auto& [kind, size] : sizes) file << kind << ' ' << size.count() << '\n';
  file.close();
  if (file && std::rename(temporary.c_str(), path.c_str()) == 0) return {};
  const int error = errno;
  std::remove(temporary.c_str());
  return fail(ErrorCode::kIo, fmt::format("cannot write {}", path), error);
}

}  // namespace tutti::job
