// SPDX-License-Identifier: Apache-2.0
// What lies between agios_init() and agios_exit(): a scheduler, and the requests by file name, type, offset and length.
#pragma once

#include <tutti/sched.h>
#include <tutti/tutti.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "configuration.h"

namespace tutti::agios {

struct Callbacks {
  void* (*process)(std::int64_t id) = nullptr;                         // not null
  void* (*process_list)(std::int64_t* ids, std::int32_t n) = nullptr;  // may be null
};

// A request in AGIOS's words.
struct RequestName {
  const char* file = nullptr;
  std::int32_t type = 0;
  std::int64_t offset = 0;
  std::int64_t length = 0;
};

// Thread-safe. Those that return bool complain when they return false.
class Library {
 public:
  // The scheduler's own errors are passed on: an option out of range, for instance.
  static Result<std::shared_ptr<Library>> start(const Callbacks& callbacks, const Configuration& configuration,
                                                std::int32_t max_queue_id);
  ~Library();  // after finish(); not from a callback

  bool add(const RequestName& name, std::int64_t id, std::int32_t queue_id);
  bool release(const RequestName& name);
  bool cancel(const RequestName& name);

  // Takes no more requests and hands out those it has. Returns after the last callback, so never from a callback.
  void finish();
  // Whether the calling thread is this library's, inside a callback.
  bool inside_callback() const;

 private:
  struct Key {
    FileId file = 0;
    std::int32_t type = 0;
    std::int64_t offset = 0, length = 0;
    auto operator<=>(const Key&) const = default;
  };
  // A request among those of the same name; ours counts up, as users' ids need not be unique.
  struct Place {
    Key key;
    RequestId id = 0;
    auto operator<=>(const Place&) const = default;
  };
  struct File {
    FileId id = 0;
    std::size_t requests = 0;  // waiting or handed out
  };
  using UserIds = std::shared_ptr<std::vector<std::int64_t>>;

  Library(const Callbacks& callbacks, std::int32_t max_queue_id) : callbacks_(callbacks), max_queue_id_(max_queue_id) {}

  bool acceptable(const RequestName& name) const;
  bool acceptable_queue(std::int32_t queue_id) const;
  void hand_out(std::span<const tutti_request> requests);
  UserIds note_handed_out(std::span<const tutti_request> requests);
  void call(std::vector<std::int64_t>& ids) const;
  // The next three: mutex_ is held.
  Key open(const RequestName& name);
  std::optional<Key> find(const RequestName& name) const;  // none: no request of that file is known
  void close(const char* file);

  const Callbacks callbacks_;
  const std::int32_t max_queue_id_;
  tutti_scheduler* scheduler_ = nullptr;  // set before anybody else knows us

  std::mutex mutex_;  // guards everything below
  std::unordered_map<std::string, File> files_;
  FileId last_file_ = 0;
  RequestId last_request_ = 0;
  std::map<Place, std::int64_t> waiting_;  // to the user's id
  std::map<Place, UserIds> handed_out_;    // to the list that process_list was given, kept for as long
};

}  // namespace tutti::agios
