// SPDX-License-Identifier: Apache-2.0
// The functions of agios.h. A process has at most one library.
#include "agios.h"

#include <exception>
#include <thread>

#include "base/mutex.h"
#include "complaints.h"
#include "library.h"

namespace tutti::agios {
namespace {

struct Process {
  Mutex mutex;
  std::shared_ptr<Library> library;  // guarded by mutex; null: not started
};

// Never destroyed: a program that ends without agios_exit() must not get callbacks after main().
Process& process_wide() {
  static auto& process = *new Process;
  return process;
}

std::shared_ptr<Library> current() {
  Lock guard(process_wide().mutex);
  return process_wide().library;
}

Result<void> start(const Callbacks& callbacks, const char* config_file, std::int32_t max_queue_id) {
  if (!callbacks.process) return fail(ErrorCode::kInvalid, "process is NULL");
  if (max_queue_id < 0) return fail(ErrorCode::kInvalid, "max_queue_id is negative");
  Lock guard(process_wide().mutex);
  if (process_wide().library) return fail(ErrorCode::kInvalid, "already started; call agios_exit() first");
  auto configuration = read_configuration(config_file, max_queue_id);
  if (!configuration) return Failure(configuration.error());
  auto library = Library::start(callbacks, *configuration, max_queue_id);
  if (!library) return Failure(library.error());
  for (const std::string& remark : configuration->remarks) complain(remark);
  process_wide().library = std::move(*library);
  return {};
}

// Requests can still be released while the library finishes.
void finish(const std::shared_ptr<Library>& library) {
  library->finish();
  Lock guard(process_wide().mutex);
  if (process_wide().library == library) process_wide().library.reset();
}

// Runs a call on the library and catches its exceptions (out of memory).
template <typename Call>
bool on_library(const char* name, Call call) noexcept {
  try {
    if (const auto library = current()) return call(library);
    complain(name, "not started; call agios_init() first");
  } catch (const std::exception& problem) {
    complain(name, problem.what());
  }
  return false;
}

}  // namespace
}  // namespace tutti::agios

using tutti::agios::on_library;

extern "C" {

bool agios_init(void* (*process)(int64_t id), void* (*process_list)(int64_t* ids, int32_t n), char* config_file,
                int32_t max_queue_id) {
  try {
    const auto started = tutti::agios::start({process, process_list}, config_file, max_queue_id);
    if (!started) tutti::agios::complain("agios_init: " + started.error().message);
    return started.has_value();
  } catch (const std::exception& problem) {
    tutti::agios::complain("agios_init", problem.what());
    return false;
  }
}

void agios_exit(void) {
  on_library("agios_exit", [](const auto& library) {
    if (library->inside_callback())  // must not wait for itself
      std::thread([library] { tutti::agios::finish(library); }).detach();
    else
      tutti::agios::finish(library);
    return true;
  });
}

bool agios_add_request(char* file, int32_t type, int64_t offset, int64_t len, int64_t id, int32_t queue_id) {
  return on_library("agios_add_request", [&](const auto& library) {
    return library->add({file, type, offset, len}, id, queue_id);
  });
}

bool agios_release_request(char* file, int32_t type, int64_t len, int64_t offset) {
  return on_library("agios_release_request", [&](const auto& library) {
    return library->release({file, type, offset, len});
  });
}

bool agios_cancel_request(char* file, int32_t type, int64_t len, int64_t offset) {
  return on_library("agios_cancel_request", [&](const auto& library) {
    return library->cancel({file, type, offset, len});
  });
}

}  // extern "C"
