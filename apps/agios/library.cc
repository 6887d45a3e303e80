// SPDX-License-Identifier: Apache-2.0
#include "library.h"

#include <fmt/format.h>

#include "agios.h"
#include "base/mutex.h"
#include "complaints.h"

namespace tutti::agios {
namespace {

thread_local const Library* calling = nullptr;  // the library whose callback this thread is in

// AGIOS has no limits. These only prevent a faulty server from using all memory.
constexpr std::size_t kMostRequests = std::size_t{1} << 24;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;

std::vector<tutti_option> to_c(const PolicyOptions& options) {
  std::vector<tutti_option> result;
  for (const auto& [name, value] : options) result.push_back({name.c_str(), value.c_str()});
  return result;
}

}  // namespace

Result<std::shared_ptr<Library>> Library::start(const Callbacks& callbacks, const Configuration& configuration,
                                                std::int32_t max_queue_id) {
  std::shared_ptr<Library> library(
      new Library(callbacks, max_queue_id, !configuration.trace.empty() || !configuration.predict.empty()));
  const std::vector<tutti_option> options = to_c(configuration.options);
  tutti_config config{};
  config.policy = configuration.policy.c_str();
  config.options = options.data();
  config.option_count = options.size();
  config.max_requests = kMostRequests;
  config.max_bytes = kMostBytes;
  if (!configuration.trace.empty()) config.trace = configuration.trace.c_str();
  if (!configuration.predict.empty()) config.predict = configuration.predict.c_str();

  const auto hand_out = [](const tutti_request* requests, std::size_t count, void* arg) {
    static_cast<Library*>(arg)->hand_out({requests, count});
  };
  tutti_callbacks functions{};
  functions.process = hand_out;
  functions.dropped = hand_out;  // never called: finish() drains
  functions.arg = library.get();
  functions.explicit_completion = 1;
  if (tutti_create_with_callbacks(&config, &functions, &library->scheduler_) != TUTTI_OK)
    return fail(ErrorCode::kInvalid, tutti_last_error());
  return library;
}

Library::~Library() {
  tutti_destroy(scheduler_);
}

bool Library::add(const RequestName& name, std::int64_t id, std::int32_t queue_id) {
  if (!acceptable(name) || !acceptable_queue(queue_id)) return false;
  tutti_request request{};
  request.offset = static_cast<std::uint64_t>(name.offset);
  request.length = static_cast<std::uint64_t>(name.length);
  request.direction = name.type == RT_WRITE ? TUTTI_WRITE : TUTTI_READ;
  request.target = request.stamp.application = static_cast<std::uint32_t>(std::max(queue_id, 0));

  Lock lock(mutex_);
  const UniqueKey unique{open(name), ++last_request_};
  waiting_.emplace(unique, id);
  lock.unlock();  // a callback may lock it during the next call
  request.id = unique.id;
  request.file = unique.key.file;
  if (tutti_add(scheduler_, &request) == TUTTI_OK) return true;

  const std::string reason = tutti_last_error();
  lock.lock();
  waiting_.erase(unique);
  close(name.file);
  complain("agios_add_request refuses a request", reason);
  return false;
}

bool Library::release(const RequestName& name) {
  if (!acceptable(name)) return false;
  Lock lock(mutex_);
  const auto key = find(name);
  const auto found = key ? handed_out_.lower_bound({*key, 0}) : handed_out_.end();
  if (found == handed_out_.end() || found->first.key != *key) {
    complain("agios_release_request: no such request was handed out", name.file);
    return false;
  }
  tutti_request done{};
  done.id = found->first.id;
  const UserIds list = std::move(found->second);  // freed after the lock is released
  handed_out_.erase(found);
  close(name.file);
  lock.unlock();
  return tutti_complete(scheduler_, &done, 1) == TUTTI_OK;
}

bool Library::cancel(const RequestName& name) {
  if (!acceptable(name)) return false;
  Lock guard(mutex_);
  const auto key = find(name);
  auto entry = key ? waiting_.lower_bound({*key, 0}) : waiting_.end();
  for (; entry != waiting_.end() && entry->first.key == *key; ++entry) {
    if (tutti_cancel(scheduler_, entry->first.id) != TUTTI_OK) continue;  // already dispatched
    waiting_.erase(entry);
    close(name.file);
    return true;
  }
  return false;
}

void Library::finish() {
  tutti_stop(scheduler_, TUTTI_DRAIN);
}

bool Library::inside_callback() const {
  return calling == this;
}

bool Library::acceptable(const RequestName& name) const {
  if (!name.file)
    complain("a request's file is NULL");
  else if (name.type != RT_READ && name.type != RT_WRITE)
    complain("a request's type is neither RT_READ (0) nor RT_WRITE (1)", std::to_string(name.type));
  else if (name.offset < 0)
    complain("a request's offset is negative", fmt::format("{} at {}", name.file, name.offset));
  else if (name.length < 1)
    complain("a request's length is below 1", fmt::format("{}: {}", name.file, name.length));
  else
    return true;
  return false;
}

bool Library::acceptable_queue(std::int32_t queue_id) const {
  if (max_queue_id_ <= 0 || (queue_id >= 0 && queue_id < max_queue_id_)) return true;
  complain("a request's queue id is not among those given to agios_init",
           fmt::format("{}; 0 to {}", queue_id, max_queue_id_ - 1));
  return false;
}

void Library::hand_out(std::span<const tutti_request> requests) {
  const UserIds ids = note_handed_out(requests);
  const Library* outer = std::exchange(calling, this);
  call(*ids);
  calling = outer;
}

Library::UserIds Library::note_handed_out(std::span<const tutti_request> requests) {
  auto ids = std::make_shared<std::vector<std::int64_t>>();
  Lock guard(mutex_);
  for (const tutti_request& request : requests) {
    const Key key{request.file, request.direction == TUTTI_WRITE ? RT_WRITE : RT_READ,
                  static_cast<std::int64_t>(request.offset), static_cast<std::int64_t>(request.length)};
    const auto entry = waiting_.find({key, request.id});
    ids->push_back(entry->second);
    handed_out_.emplace(entry->first, ids);
    waiting_.erase(entry);
  }
  return ids;
}

void Library::call(std::vector<std::int64_t>& ids) const {
  const auto guarded = [](const auto& callback) {
    try {
      callback();
    } catch (...) {
      complain("a callback threw an exception; it is ignored");
    }
  };
  if (callbacks_.process_list && ids.size() > 1)
    guarded([&] { callbacks_.process_list(ids.data(), static_cast<std::int32_t>(ids.size())); });
  else
    for (const std::int64_t id : ids) guarded([&] { callbacks_.process(id); });
}

Library::Key Library::open(const RequestName& name) {
  File& file = files_[name.file];
  if (file.requests++ == 0) {
    file.id = ++last_file_;
    if (names_files_) tutti_name_file(scheduler_, file.id, name.file);
  }
  return {file.id, name.type, name.offset, name.length};
}

std::optional<Library::Key> Library::find(const RequestName& name) const {
  const auto file = files_.find(name.file);
  if (file == files_.end()) return std::nullopt;
  return Key{file->second.id, name.type, name.offset, name.length};
}

void Library::close(const char* name) {
  const auto file = files_.find(name);
  if (--file->second.requests == 0) files_.erase(file);
}

}  // namespace tutti::agios
