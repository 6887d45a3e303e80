// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <tutti/client.h>
#include <tutti/tutti_client.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

struct tutti_client {
  std::unique_ptr<tutti::Client> client;
};

struct tutti_file {
  std::shared_ptr<tutti::File> file;
};

namespace {

using namespace tutti;

thread_local std::string last_error;

int to_errno(const Error& error) {
  if (error.system != 0) return error.system;
  switch (error.code) {
    case ErrorCode::kInvalid:
      return EINVAL;
    case ErrorCode::kNotFound:
      return ENOENT;
    case ErrorCode::kDuplicate:
      return EEXIST;
    case ErrorCode::kFull:
      return EAGAIN;
    case ErrorCode::kStopped:
      return ESHUTDOWN;
    case ErrorCode::kDenied:
      return EACCES;
    case ErrorCode::kUnreachable:
      return EHOSTUNREACH;
    case ErrorCode::kTimeout:
      return ETIMEDOUT;
    case ErrorCode::kProtocol:
      return EPROTO;
    case ErrorCode::kIo:
      break;
  }
  return EIO;
}

int failed(const Error& error) {
  last_error = error.message;
  return -to_errno(error);
}

int status_of(const Result<void>& result) {
  return result ? 0 : failed(result.error());
}

ssize_t count_of(const Result<std::size_t>& result) {
  return result ? static_cast<ssize_t>(*result) : failed(result.error());
}

timespec to_timespec(TimePoint time) {
  const auto nanoseconds = time.time_since_epoch().count();
  auto seconds = nanoseconds / 1'000'000'000;
  auto rest = nanoseconds % 1'000'000'000;
  if (rest < 0) --seconds, rest += 1'000'000'000;
  return {.tv_sec = seconds, .tv_nsec = rest};
}

int store(const Result<FileStatus>& from, struct stat* into) {
  if (!from) return failed(from.error());
  *into = {};
  into->st_ino = from->inode;
  into->st_mode = from->mode;
  into->st_nlink = from->links;
  into->st_uid = from->uid;
  into->st_gid = from->gid;
  into->st_size = static_cast<off_t>(from->size);
  into->st_blocks = static_cast<blkcnt_t>(from->blocks);
  into->st_blksize = 1 << 20;
  into->st_rdev = from->device;
  into->st_atim = to_timespec(from->accessed);
  into->st_mtim = to_timespec(from->modified);
  into->st_ctim = to_timespec(from->changed);
  return 0;
}

std::vector<ReadPart> read_parts(const tutti_part* parts, std::size_t count) {
  std::vector<ReadPart> result;
  for (std::size_t i = 0; i < count; ++i) {
    result.push_back({parts[i].offset, {static_cast<std::byte*>(parts[i].data), parts[i].size}});
  }
  return result;
}

std::vector<WritePart> write_parts(const tutti_part* parts, std::size_t count) {
  std::vector<WritePart> result;
  for (std::size_t i = 0; i < count; ++i) {
    result.push_back({parts[i].offset, {static_cast<const std::byte*>(parts[i].data), parts[i].size}});
  }
  return result;
}

// Runs a call of the C interface: no exception leaves it, and `fine` is false if a pointer is NULL that must not be.
template <typename Call>
auto guarded(bool fine, const Call& call) -> decltype(call()) {
  if (!fine) return failed({ErrorCode::kInvalid, "an argument is NULL", EFAULT});
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return failed({ErrorCode::kIo, "out of memory", ENOMEM});
  } catch (const std::exception& error) {
    return failed({ErrorCode::kIo, error.what(), EIO});
  }
}

bool valid(const tutti_part* parts, std::size_t count) {
  if (parts == nullptr) return count == 0;
  return std::all_of(parts, parts + count,
                     [](const tutti_part& part) { return part.data != nullptr || part.size == 0; });
}

File::Done call_back(tutti_done done, void* context) {
  return [done, context](const Result<std::size_t>& result) { done(context, count_of(result)); };
}

}  // namespace

extern "C" {

const char* tutti_client_error(void) {
  return last_error.c_str();
}

int tutti_client_connect(const char* cluster, tutti_client** client) {
  return guarded(client != nullptr, [&]() -> int {
    auto description = load_cluster(cluster != nullptr ? cluster : default_cluster_file());
    if (!description) return failed(description.error());
    ClientOptions options;
    options.cluster = std::move(*description);
    auto connected = Client::connect(std::move(options));
    if (!connected) return failed(connected.error());
    *client = new tutti_client{std::move(*connected)};
    return 0;
  });
}

void tutti_client_close(tutti_client* client) {
  delete client;
}

int tutti_client_begin_phase(tutti_client* client, uint64_t total, uint64_t kind) {
  return tutti_client_begin_phase_files(client, total, kind, TUTTI_SHARED_FILES);
}

int tutti_client_begin_phase_files(tutti_client* client, uint64_t total, uint64_t kind, int files) {
  return tutti_client_begin_phase_on(client, nullptr, total, kind, files);
}

int tutti_client_begin_phase_on(tutti_client* client, tutti_file* file, uint64_t total, uint64_t kind, int files) {
  return guarded(client != nullptr, [&]() -> int {
    if (files != TUTTI_SHARED_FILES && files != TUTTI_ONE_FILE_PER_PROCESS)
      return failed({ErrorCode::kInvalid, "files must be TUTTI_SHARED_FILES or TUTTI_ONE_FILE_PER_PROCESS", EINVAL});
    const auto use = files == TUTTI_SHARED_FILES ? PhaseFiles::kShared : PhaseFiles::kOnePerProcess;
    return status_of(client->client->begin_phase({.total = Bytes(total), .kind = kind, .files = use},
                                                 file ? file->file.get() : nullptr));
  });
}

void tutti_client_end_phase(tutti_client* client) {
  guarded(client != nullptr, [&]() -> int { return client->client->end_phase(), 0; });
}

int tutti_client_open(tutti_client* client, const char* path, int flags, mode_t mode, tutti_file** file) {
  return guarded(client != nullptr && path != nullptr && file != nullptr, [&]() -> int {
    constexpr int kKnown = O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_CLOEXEC;
    const int access = flags & O_ACCMODE;
    if ((flags & ~kKnown) != 0 || access == O_ACCMODE) {
      return failed({ErrorCode::kInvalid, "unknown open flags", EINVAL});
    }
    auto opened = client->client->open(path, {.read = access != O_WRONLY,
                                              .write = access != O_RDONLY,
                                              .create = (flags & O_CREAT) != 0,
                                              .exclusive = (flags & O_EXCL) != 0,
                                              .truncate = (flags & O_TRUNC) != 0,
                                              .mode = mode});
    if (!opened) return failed(opened.error());
    *file = new tutti_file{std::move(*opened)};
    return 0;
  });
}

int tutti_file_close(tutti_file* file) {
  delete file;
  return 0;
}

ssize_t tutti_file_read(tutti_file* file, void* data, size_t size, uint64_t offset) {
  return guarded(file != nullptr && (data != nullptr || size == 0), [&]() -> ssize_t {
    return count_of(file->file->read(offset, {static_cast<std::byte*>(data), size}));
  });
}

ssize_t tutti_file_write(tutti_file* file, const void* data, size_t size, uint64_t offset) {
  return guarded(file != nullptr && (data != nullptr || size == 0), [&]() -> ssize_t {
    return count_of(file->file->write(offset, {static_cast<const std::byte*>(data), size}));
  });
}

ssize_t tutti_file_read_list(tutti_file* file, const tutti_part* parts, size_t count) {
  return guarded(file != nullptr && valid(parts, count),
                 [&]() -> ssize_t { return count_of(file->file->read_list(read_parts(parts, count))); });
}

ssize_t tutti_file_write_list(tutti_file* file, const tutti_part* parts, size_t count) {
  return guarded(file != nullptr && valid(parts, count),
                 [&]() -> ssize_t { return count_of(file->file->write_list(write_parts(parts, count))); });
}

void tutti_file_read_async(tutti_file* file, const tutti_part* parts, size_t count, tutti_done done, void* context) {
  const int begun = guarded(file != nullptr && done != nullptr && valid(parts, count), [&]() -> int {
    return file->file->read_async(read_parts(parts, count), call_back(done, context)), 0;
  });
  if (begun != 0 && done != nullptr) done(context, begun);
}

void tutti_file_write_async(tutti_file* file, const tutti_part* parts, size_t count, tutti_done done, void* context) {
  const int begun = guarded(file != nullptr && done != nullptr && valid(parts, count), [&]() -> int {
    return file->file->write_async(write_parts(parts, count), call_back(done, context)), 0;
  });
  if (begun != 0 && done != nullptr) done(context, begun);
}

int tutti_file_sync(tutti_file* file, int data_only) {
  return guarded(file != nullptr, [&]() -> int { return status_of(file->file->fsync(data_only != 0)); });
}

int tutti_file_truncate(tutti_file* file, uint64_t size) {
  return guarded(file != nullptr, [&]() -> int { return status_of(file->file->truncate(size)); });
}

int tutti_file_stat(tutti_file* file, struct stat* status) {
  return guarded(file != nullptr && status != nullptr, [&]() -> int { return store(file->file->status(), status); });
}

int tutti_client_stat(tutti_client* client, const char* path, int follow, struct stat* status) {
  return guarded(client != nullptr && path != nullptr && status != nullptr,
                 [&]() -> int { return store(client->client->status(path, follow != 0), status); });
}

int tutti_client_mkdir(tutti_client* client, const char* path, mode_t mode) {
  return guarded(client != nullptr && path != nullptr,
                 [&]() -> int { return status_of(client->client->make_directory(path, mode)); });
}

int tutti_client_rmdir(tutti_client* client, const char* path) {
  return guarded(client != nullptr && path != nullptr,
                 [&]() -> int { return status_of(client->client->remove_directory(path)); });
}

int tutti_client_sync_directory(tutti_client* client, const char* path) {
  return guarded(client != nullptr && path != nullptr,
                 [&]() -> int { return status_of(client->client->sync_directory(path)); });
}

int tutti_client_unlink(tutti_client* client, const char* path) {
  return guarded(client != nullptr && path != nullptr,
                 [&]() -> int { return status_of(client->client->unlink(path)); });
}

int tutti_client_rename(tutti_client* client, const char* from, const char* to) {
  return guarded(client != nullptr && from != nullptr && to != nullptr,
                 [&]() -> int { return status_of(client->client->rename(from, to, 0)); });
}

int tutti_client_link(tutti_client* client, const char* from, const char* to) {
  return guarded(client != nullptr && from != nullptr && to != nullptr,
                 [&]() -> int { return status_of(client->client->link(from, to)); });
}

int tutti_client_symlink(tutti_client* client, const char* target, const char* path) {
  return guarded(client != nullptr && target != nullptr && path != nullptr,
                 [&]() -> int { return status_of(client->client->symlink(path, target)); });
}

ssize_t tutti_client_readlink(tutti_client* client, const char* path, char* target, size_t size) {
  return guarded(client != nullptr && path != nullptr && (target != nullptr || size == 0), [&]() -> ssize_t {
    auto found = client->client->read_link(path);
    if (!found) return failed(found.error());
    const auto count = std::min(size, found->size());
    std::memcpy(target, found->data(), count);
    return static_cast<ssize_t>(count);
  });
}

int tutti_client_chmod(tutti_client* client, const char* path, mode_t mode) {
  return guarded(client != nullptr && path != nullptr, [&]() -> int {
    auto changed = client->client->change_status(path, {.mode = mode}, true);
    return changed ? 0 : failed(changed.error());
  });
}

int tutti_client_readdir(tutti_client* client, const char* path, tutti_entry entry, void* context) {
  return guarded(client != nullptr && path != nullptr && entry != nullptr, [&]() -> int {
    auto items = client->client->read_directory(path);
    if (!items) return failed(items.error());
    for (const auto& item : *items) {
      if (const int stop = entry(context, item.name.c_str(), item.type); stop != 0) return stop;
    }
    return 0;
  });
}

}  // extern "C"
