// SPDX-License-Identifier: Apache-2.0
// The functions of tutti.h: they check for null pointers, convert errors to codes and let no exception out.
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "capi/handle.h"

namespace tutti {
namespace {

// Fixed size, so that running out of memory can be reported.
thread_local char last_error[1024] = "";

int refuse(int code, std::string_view message) noexcept {
  const std::size_t length = std::min(message.size(), sizeof last_error - 1);
  std::memcpy(last_error, message.data(), length);
  last_error[length] = '\0';
  return code;
}

int code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
      return TUTTI_INVALID;
    case ErrorCode::kNotFound:
      return TUTTI_NOT_FOUND;
    case ErrorCode::kDuplicate:
      return TUTTI_DUPLICATE;
    case ErrorCode::kFull:
      return TUTTI_FULL;
    case ErrorCode::kStopped:
      return TUTTI_STOPPED;
    case ErrorCode::kTimeout:
      return TUTTI_TIMEOUT;
    default:
      return TUTTI_INTERNAL;
  }
}

// Runs a function that returns Result<void> and converts its result or exception to a code.
template <typename Function>
int guarded(Function function) noexcept {
  try {
    const Result<void> result = function();
    return result ? TUTTI_OK : refuse(code_of(result.error().code), result.error().message);
  } catch (const std::bad_alloc&) {
    return refuse(TUTTI_NO_MEMORY, "out of memory");
  } catch (const std::exception& problem) {
    return refuse(TUTTI_INTERNAL, problem.what());
  } catch (...) {
    return refuse(TUTTI_INTERNAL, "an unknown exception");
  }
}

Failure null_argument(std::string_view name) {
  return fail(ErrorCode::kInvalid, std::string(name) + " is NULL");
}

int create(const tutti_config* config, const tutti_callbacks* callbacks, tutti_scheduler** scheduler) {
  return guarded([&]() -> Result<void> {
    auto made = tutti_scheduler::create(config ? *config : tutti_config{}, callbacks);
    if (!made) return Failure(made.error());
    *scheduler = made->release();
    return {};
  });
}

}  // namespace
}  // namespace tutti

using tutti::guarded;
using tutti::null_argument;
using tutti::refuse;
using tutti::Result;

extern "C" {

const char* tutti_last_error(void) {
  return tutti::last_error;
}

const char* tutti_version(void) {
  return TUTTI_VERSION;
}

int tutti_create(const tutti_config* config, tutti_scheduler** scheduler) {
  if (!scheduler) return refuse(TUTTI_INVALID, "scheduler is NULL; pass the address of a tutti_scheduler pointer");
  *scheduler = nullptr;
  return tutti::create(config, nullptr, scheduler);
}

int tutti_create_with_callbacks(const tutti_config* config, const tutti_callbacks* callbacks,
                                tutti_scheduler** scheduler) {
  if (!scheduler) return refuse(TUTTI_INVALID, "scheduler is NULL; pass the address of a tutti_scheduler pointer");
  *scheduler = nullptr;
  if (!callbacks) return refuse(TUTTI_INVALID, "callbacks is NULL; use tutti_create() for pull mode");
  if (!callbacks->process) return refuse(TUTTI_INVALID, "callbacks: process is NULL; it must serve requests");
  if (!callbacks->dropped) return refuse(TUTTI_INVALID, "callbacks: dropped is NULL; it must answer dropped requests");
  return tutti::create(config, callbacks, scheduler);
}

int tutti_destroy(tutti_scheduler* scheduler) {
  if (scheduler && !scheduler->may_be_destroyed())
    return refuse(TUTTI_INVALID, "tutti_destroy() inside a callback of the same scheduler; use tutti_stop() there");
  return guarded([&]() -> Result<void> {
    delete scheduler;
    return {};
  });
}

int tutti_add(tutti_scheduler* scheduler, const tutti_request* request) {
  return guarded([&]() -> Result<void> {
    if (!scheduler) return null_argument("scheduler");
    if (!request) return null_argument("request");
    return scheduler->add(*request);
  });
}

int tutti_name_file(tutti_scheduler* scheduler, uint64_t file, const char* name) {
  return guarded([&]() -> Result<void> {
    if (!scheduler) return null_argument("scheduler");
    if (!name) return null_argument("name");
    scheduler->name_file(file, name);
    return {};
  });
}

int tutti_cancel(tutti_scheduler* scheduler, uint64_t id) {
  return guarded([&]() -> Result<void> {
    if (!scheduler) return null_argument("scheduler");
    return scheduler->cancel(id);
  });
}

int tutti_next(tutti_scheduler* scheduler, int64_t timeout, tutti_batch* batch) {
  return guarded([&]() -> Result<void> {
    if (!scheduler) return null_argument("scheduler");
    if (!batch) return null_argument("batch");
    return scheduler->next(timeout, *batch);
  });
}

int tutti_complete(tutti_scheduler* scheduler, const tutti_request* requests, size_t count) {
  return guarded([&]() -> Result<void> {
    if (!scheduler) return null_argument("scheduler");
    if (!requests && count > 0) return null_argument("requests");
    return scheduler->complete({requests, count});
  });
}

int tutti_switch_policy(tutti_scheduler* scheduler, const char* policy, const tutti_option* options,
                        size_t option_count) {
  return guarded([&]() -> Result<void> {
    if (!scheduler) return null_argument("scheduler");
    if (!policy) return null_argument("policy");
    if (!options && option_count > 0) return null_argument("options");
    return scheduler->switch_policy(policy, {options, option_count});
  });
}

int tutti_stop(tutti_scheduler* scheduler, int how) {
  return guarded([&]() -> Result<void> {
    if (!scheduler) return null_argument("scheduler");
    if (how != TUTTI_DRAIN && how != TUTTI_DROP)
      return tutti::fail(tutti::ErrorCode::kInvalid, "how: TUTTI_DRAIN or TUTTI_DROP");
    scheduler->stop(how == TUTTI_DRAIN ? tutti::Scheduler::Stop::kDrain : tutti::Scheduler::Stop::kDrop);
    return {};
  });
}

int tutti_get_statistics(tutti_scheduler* scheduler, tutti_statistics* statistics) {
  return guarded([&]() -> Result<void> {
    if (!scheduler) return null_argument("scheduler");
    if (!statistics) return null_argument("statistics");
    *statistics = scheduler->statistics();
    return {};
  });
}

int tutti_get_statistics_json(tutti_scheduler* scheduler, char** text) {
  return guarded([&]() -> Result<void> {
    if (!text) return null_argument("text");
    *text = nullptr;
    if (!scheduler) return null_argument("scheduler");
    *text = strdup(scheduler->statistics_json().c_str());
    if (!*text) throw std::bad_alloc();
    return {};
  });
}

void tutti_free(void* text) {
  std::free(text);
}

}  // extern "C"
