// SPDX-License-Identifier: Apache-2.0
#include "capi/handle.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "base/clock.h"
#include "base/live_world.h"
#include "base/print_error.h"
#include "capi/convert.h"
#include "trace/live_files.h"

using tutti::Bytes;
using tutti::Duration;
using tutti::ErrorCode;
using tutti::fail;
using tutti::Failure;
using tutti::print_error;
using tutti::Result;
using tutti::Scheduler;
using tutti::TimePoint;

namespace {

void warn(const std::string& text) {
  print_error("tutti: {}\n", text);
}

}  // namespace

Result<std::unique_ptr<tutti_scheduler>> tutti_scheduler::create(const tutti_config& config,
                                                                 const tutti_callbacks* callbacks) {
  if (config.option_count > 0 && !config.options)
    return fail(ErrorCode::kInvalid, fmt::format("options is NULL, but option_count is {}", config.option_count));
  auto policy_options = tutti::options_from_c({config.options, config.option_count});
  if (!policy_options) return Failure(policy_options.error());

  Scheduler::Options options;
  if (config.policy) options.policy = config.policy;
  options.policy_options = std::move(*policy_options);
  if (config.max_requests > 0) options.max_requests = config.max_requests;
  if (config.max_bytes > 0) options.max_bytes = Bytes(config.max_bytes);
  options.max_in_flight = config.max_in_flight;
  std::unique_ptr<tutti_scheduler> handle(new tutti_scheduler);
  if (config.predict) {
    auto loaded = tutti::trace::load_predictions(config.predict);
    if (!loaded) return Failure(loaded.error());
    for (const std::string& problem : loaded->problems) warn(problem);
    options.predictions = std::move(loaded->queues);
  }
  if (config.trace)
    if (auto recording = handle->record(config); !recording) return Failure(recording.error());
  options.observer = handle->recorder_.get();
  auto scheduler = Scheduler::create(std::move(options));
  if (!scheduler) return Failure(scheduler.error());
  handle->scheduler_ = std::move(*scheduler);
  if (callbacks)
    handle->dispatcher_ = std::make_unique<tutti::Dispatcher>(*handle->scheduler_, handle->dispatched_, *callbacks);
  return handle;
}

tutti_scheduler::~tutti_scheduler() {
  if (scheduler_ && !stopped_) scheduler_->stop(Scheduler::Stop::kDrop);
  dispatcher_.reset();
  scheduler_.reset();
  if (!recorder_) return;
  recorder_->flush();
  workers_->stop();  // after it has written
}

Result<void> tutti_scheduler::record(const tutti_config& config) {
  const std::filesystem::path path(config.trace);
  tutti::trace::FilesOptions options{.directory = path.has_parent_path() ? path.parent_path().string() : ".",
                                     .name = path.filename().string()};
  if (config.trace_limit > 0) options.limit = Bytes(config.trace_limit);
  auto files = tutti::trace::make_files(options);
  if (!files) return Failure(files.error());
  workers_ = tutti::make_live_workers(1);
  tutti::trace::Facts facts{{"policy", config.policy ? config.policy : Scheduler::Options{}.policy}};
  recorder_ = std::make_unique<tutti::trace::Recorder>(
      tutti::live_world(), *workers_, std::move(*files),
      tutti::trace::Recorder::Options{.facts = std::move(facts), .warn = warn});
  return {};
}

Result<void> tutti_scheduler::add(const tutti_request& request) {
  if (request.direction != TUTTI_READ && request.direction != TUTTI_WRITE)
    return fail(ErrorCode::kInvalid, fmt::format("request {}: direction {}; TUTTI_READ ({}) or TUTTI_WRITE ({})",
                                                 request.id, request.direction, +TUTTI_READ, +TUTTI_WRITE));
  const TimePoint now = request.stamp.issued == 0 ? tutti::real_clock().now() : TimePoint{};
  return scheduler_->add(tutti::from_c(request, now));
}

Result<void> tutti_scheduler::cancel(std::uint64_t id) {
  if (!scheduler_->cancel(id)) return fail(ErrorCode::kNotFound, fmt::format("no waiting request has the id {}", id));
  return {};
}

Result<void> tutti_scheduler::next(std::int64_t timeout, tutti_batch& batch) {
  if (dispatcher_)
    return fail(ErrorCode::kInvalid, "tutti_next() is for pull mode; this scheduler calls your callbacks");
  Scheduler::Dispatched dispatched;
  if (auto taken = take(timeout, dispatched); !taken) return taken;
  const std::span<const tutti_request> requests = dispatched_.open(dispatched);
  batch = {.requests = requests.data(),
           .count = requests.size(),
           .dropped = dispatched.dropped,
           .arrived = dispatched.arrived.time_since_epoch().count(),
           .dispatched = dispatched.dispatched.time_since_epoch().count(),
           .held = dispatched.held.count()};
  return {};
}

Result<void> tutti_scheduler::take(std::int64_t timeout, Scheduler::Dispatched& batch) {
  const std::span one(&batch, 1);
  const std::size_t taken = timeout < 0    ? scheduler_->next(one)
                            : timeout == 0 ? scheduler_->try_next(one)
                                           : scheduler_->next(one, Duration(timeout));
  if (taken == 1) return {};
  if (timeout < 0 || exhausted()) return fail(ErrorCode::kStopped, "the scheduler is stopped and has no requests left");
  return fail(ErrorCode::kTimeout, fmt::format("no batch was ready within {} ns", timeout));
}

Result<void> tutti_scheduler::complete(std::span<const tutti_request> requests) {
  thread_local std::vector<Scheduler::Dispatched> completed;
  completed.clear();
  const auto unknown = dispatched_.complete(requests, completed);
  if (!completed.empty()) scheduler_->complete(completed);
  if (unknown)
    return fail(ErrorCode::kNotFound, fmt::format("request {} is not being served or is already completed", *unknown));
  return {};
}

Result<void> tutti_scheduler::switch_policy(const char* policy, std::span<const tutti_option> options) {
  auto texts = tutti::options_from_c(options);
  if (!texts) return Failure(texts.error());
  return scheduler_->switch_policy(policy, *texts);
}

void tutti_scheduler::stop(Scheduler::Stop how) {
  stopped_ = true;  // must be set before next() can return because of the stop
  scheduler_->stop(how);
  if (dispatcher_ && !dispatcher_->inside_callback()) dispatcher_->wait_until_done();
}

tutti_statistics tutti_scheduler::statistics() const {
  tutti_statistics result = tutti::to_c(scheduler_->statistics());
  result.callback_failures = dispatcher_ ? dispatcher_->failures() : 0;
  return result;
}

std::string tutti_scheduler::statistics_json() const {
  return tutti::to_json(scheduler_->statistics(), dispatcher_ ? dispatcher_->failures() : 0);
}
