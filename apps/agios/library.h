// SPDX-License-Identifier: Apache-2.0
// The state between agios_init() and agios_exit(): a scheduler, and its requests by file name, type, offset and length.
#pragma once

#include <tutti/sched.h>
#include <tutti/tutti.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "configuration.h"

namespace tutti::agios {

struct Callbacks {
  void* (*process)(std::int64_t id) = nullptr;                         // not null
  void* (*process_list)(std::int64_t* ids, std::int32_t n) = nullptr;  // may be null
};

// How AGIOS identifies a request.
struct RequestName {
  const char* file = nullptr;
  std::int32_t type = 0;
  std::int64_t offset = 0;
  std::int64_t length = 0;
};

// Thread-safe. Functions that return false have printed the reason (complaints.h).
class Library {
 public:
  // Also returns errors of the scheduler, such as an option out of range.
  static Result<std::shared_ptr<Library>> start(const Callbacks& callbacks, const Configuration& configuration,
                                                std::int32_t max_queue_id);
  ~Library();  // after finish(); not from a callback

  bool add(const RequestName& name, std::int64_t id, std::int32_t queue_id);
  bool release(const RequestName& name);
  bool cancel(const RequestName& name);

  // Accepts no more requests and dispatches the waiting ones. Returns after the last callback, so it must not be called
  // in a callback.
  void finish();
  // True if the calling thread runs a callback of this library.
  bool inside_callback() const;

 private:
  struct Key {
    FileId file = 0;
    std::int32_t type = 0;
    std::int64_t offset = 0, length = 0;
    auto operator<=>(const Key&) const = default;
  };
  // Unique and ordered by age among requests with the same key. `id` is a counter, because the caller's ids need not be
  // unique.
  struct UniqueKey {
    Key key;
    RequestId id = 0;
    auto operator<=>(const UniqueKey&) const = default;
  };
  struct File {
    FileId id = 0;
    std::size_t requests = 0;  // waiting or dispatched
  };
  using UserIds = std::shared_ptr<std::vector<std::int64_t>>;

  Library(const Callbacks& callbacks, std::int32_t max_queue_id, bool names_files)
      : callbacks_(callbacks), max_queue_id_(max_queue_id), names_files_(names_files) {}

  bool acceptable(const RequestName& name) const;
  bool acceptable_queue(std::int32_t queue_id) const;
  void hand_out(std::span<const tutti_request> requests);
  UserIds note_handed_out(std::span<const tutti_request> requests);
  void call(std::vector<std::int64_t>& ids) const;
  Key open(const RequestName& name) TUTTI_REQUIRES(mutex_);
  std::optional<Key> find(const RequestName& name) const
      TUTTI_REQUIRES(mutex_);  // none: no request of that file is known
  void close(const char* file) TUTTI_REQUIRES(mutex_);

  const Callbacks callbacks_;
  const std::int32_t max_queue_id_;
  const bool names_files_;                // for traces and predictions
  tutti_scheduler* scheduler_ = nullptr;  // set in start(), then constant

  Mutex mutex_;  // guards everything below
  std::unordered_map<std::string, File> files_ TUTTI_GUARDED_BY(mutex_);
  FileId last_file_ TUTTI_GUARDED_BY(mutex_) = 0;
  RequestId last_request_ TUTTI_GUARDED_BY(mutex_) = 0;
  std::map<UniqueKey, std::int64_t> waiting_ TUTTI_GUARDED_BY(mutex_);  // value: the caller's id
  std::map<UniqueKey, UserIds> handed_out_
      TUTTI_GUARDED_BY(mutex_);  // value: the list passed to process_list, which must stay valid
};

}  // namespace tutti::agios
