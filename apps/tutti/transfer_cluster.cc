// SPDX-License-Identifier: Apache-2.0
// Files of a cluster as ends of a transfer.
#include <fmt/format.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>

#include "base/mutex.h"
#include "transfer_ends.h"

namespace tutti::cli {
namespace {

Failure cluster_failure(const std::string& path, int error) {
  return fail(ErrorCode::kIo, fmt::format("{}: {}", path, std::strerror(error)), error);
}

Result<void> check_regular(const std::string& path, const FileStatus& status) {
  if (status.is_directory()) return cluster_failure(path, EISDIR);
  if (S_ISREG(status.mode)) return {};
  return fail(ErrorCode::kIo, path + " is not a regular file", EINVAL);
}

class ClusterSource final : public Source {
 public:
  explicit ClusterSource(std::shared_ptr<File> file) : file_(std::move(file)) {}

  const FileStatus& opened() const override { return file_->opened(); }
  Result<FileStatus> status() override { return file_->status(); }
  std::optional<std::uint32_t> permissions() const override { return opened().mode & 0777; }

  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> into) override {
    return file_->read(offset, into);
  }

  File* cluster_file() override { return file_.get(); }

  Result<void> check_end(std::uint64_t bytes_read) override {
    if (bytes_read >= opened().size) return {};
    return fail(ErrorCode::kIo, file_->path() + " became shorter while it was read");
  }

 private:
  const std::shared_ptr<File> file_;
};

// Adds the names of a path in front of those that are left.
void prepend_names(const std::string& path, std::deque<std::string>& left) {
  std::size_t end = path.size();
  while (end != std::string::npos) {
    const std::size_t slash = end == 0 ? std::string::npos : path.rfind('/', end - 1);
    const std::size_t first = slash == std::string::npos ? 0 : slash + 1;
    if (end > first) left.push_front(path.substr(first, end - first));
    end = slash;
  }
}

// The path without symbolic links. The node resolves links itself in every request but a rename, which acts on the
// link.
Result<std::string> without_links(Client& client, const std::string& path) {
  constexpr int kMostLinks = 40;  // as in the kernel
  std::deque<std::string> left;
  prepend_names(path, left);
  std::string resolved;
  for (int links = 0; !left.empty();) {
    const std::string name = std::move(left.front());
    left.pop_front();
    if (name == ".") continue;
    if (name == "..") {
      const std::size_t slash = resolved.rfind('/');
      resolved.erase(slash == std::string::npos ? 0 : slash);
      continue;
    }
    std::string next = resolved.empty() ? name : fmt::format("{}/{}", resolved, name);
    const auto status = client.status(next, false);
    if (!status) return Failure(status.error());
    if (!S_ISLNK(status->mode)) {
      resolved = std::move(next);
      continue;
    }
    if (++links > kMostLinks) return cluster_failure(path, ELOOP);
    const auto target = client.read_link(next);
    if (!target) return Failure(target.error());
    if (target->starts_with('/'))
      return fail(ErrorCode::kDenied, next + ": leads outside the served directory", EACCES);
    prepend_names(*target, left);
  }
  return resolved;
}

// Repeats a request after its node was lost and its result is unknown. Only for requests that may be executed twice:
// the client library does not repeat changes of names and modes.
template <typename Request>
auto repeat_if_lost(const Request& request) {
  constexpr int kAttempts = 3;
  auto result = request();
  for (int attempt = 1; attempt < kAttempts && !result && result.error().code == ErrorCode::kUnreachable; ++attempt)
    result = request();
  return result;
}

class ClusterDestination final : public Destination {
 public:
  ClusterDestination(Client& client, DestinationName name, std::shared_ptr<Replies> replies)
      : client_(client),
        replies_(std::move(replies)),
        path_(std::move(name.path)),
        name_(std::move(name.name)),
        known_directory_(name.known_directory),
        assumes_new_(name.known_directory && name.assume_new) {}

  void begin_look() override {
    if (assumes_new_) return;
    if (known_directory_ && !in_directory_) enter_directory();
    client_.status_async(path_, false, looking_.expect(replies_));
  }
  Result<std::optional<FileStatus>> look() override {
    // Mostly one request per file: the directory is looked at once for all files, and links are seldom.
    if (known_directory_ && !in_directory_) enter_directory();
    if (assumes_new_) return std::optional<FileStatus>{};
    auto status = follow();
    if (status && status->is_directory() && !in_directory_) {
      enter_directory();
      status = follow();
    }
    if (!status) return look_at_nothing(status.error());
    if (path_.ends_with('/')) return cluster_failure(path_, ENOTDIR);
    if (auto regular = check_regular(path_, *status); !regular) return Failure(regular.error());
    // Opened only to ask for the permission to write: a rename alone would replace read-only files.
    if (auto writable = client_.open(path_, {.read = false, .write = true}); !writable)
      return Failure(writable.error());
    if (!is_link_) return *status;
    auto resolved = without_links(client_, path_);
    if (!resolved) return Failure(resolved.error());
    path_ = std::move(*resolved);
    return *status;
  }

  bool assumes_new() const override { return assumes_new_; }

  const std::string& path() const override { return path_; }
  bool in_directory() const override { return in_directory_; }
  bool direct() const override { return false; }

  void begin_create(std::optional<std::uint32_t> permissions) override {
    permissions_ = permissions;
    choose_temporary();
    client_.open_async(temporary_, creation(), creating_.expect(replies_));
  }
  Result<void> create(std::optional<std::uint32_t> permissions) override {
    permissions_ = permissions;
    // Each attempt has a name of its own: a file of a lost attempt may appear later, and is not
    // mistaken for a file of another program.
    auto file = repeat_if_lost([&] {
      if (creating_.sent()) return creating_.take();
      choose_temporary();
      return client_.open(temporary_, creation());
    });
    if (!file) return not_created(file.error());
    file_ = std::move(*file);
    return {};
  }

  Result<void> write(std::uint64_t offset, std::span<const std::byte> from) override {
    if (from.empty()) return {};
    const auto put = file_->write(offset, from);
    if (!put) return Failure(put.error());
    written_ += from.size();
    synced_ = false;
    return {};
  }
  bool begin_write(std::span<const std::byte> from) override {
    synced_ = false;
    writing_size_ = from.size();
    if (!from.empty()) file_->write_async({{0, from}}, writing_.expect(replies_));
    return true;
  }
  Result<void> finish_write() override {
    if (!writing_.sent()) return {};
    const auto put = writing_.take();
    if (!put) return Failure(put.error());
    written_ += writing_size_;
    return {};
  }
  bool in_cluster() const override { return true; }
  Result<std::size_t> copy(File& source, std::uint64_t offset, std::size_t length) override {
    auto copied = file_->copy_from(source, {offset, offset, length});
    if (copied) written_ += *copied;
    synced_ = false;
    return copied;
  }
  std::uint64_t written() const override { return written_; }

  void begin_stabilising() override {
    synced_ = true;
    {
      Lock lock(early_->mutex);
      ++early_->running;
    }
    replies_->begin();
    file_->fsync_async(false, [early = early_, replies = replies_](const Result<std::size_t>& synced) {
      {
        Lock lock(early->mutex);
        if (!synced && early->result) early->result = Failure(synced.error());
        if (--early->running == 0) early->ended.notify_all();
      }
      replies->end();
    });
  }
  // A later sync may succeed although an earlier one has failed.
  Result<void> stabilise() override {
    auto synced = synced_ ? Result<void>{} : file_->fsync();
    Lock lock(early_->mutex);
    early_->ended.wait(lock, [&]() TUTTI_REQUIRES(early_->mutex) { return early_->running == 0; });
    return early_->result ? synced : early_->result;
  }
  // The mode comes after fsync: a node may have to open the file again for the latter.
  void begin_commit() override {
    if (!has_permissions()) return;
    rename_sent_ = true;
    client_.rename_async(temporary_, path_, rename_flags(), renaming_.expect(replies_));
  }
  Result<void> commit(bool) override {
    if (auto set = set_permissions(); !set) return set;
    rename_sent_ = true;
    auto renamed = repeat_if_lost(
        [&] { return renaming_.sent() ? renaming_.take() : client_.rename(temporary_, path_, rename_flags()); });
    if (!renamed && !has_final_name(file_->opened().inode)) return renamed;
    temporary_.clear();
    remove_lost();
    return {};
  }
  std::optional<std::string> directory() const override {
    const std::size_t slash = path_.rfind('/');
    return slash == std::string::npos ? "" : path_.substr(0, slash);
  }

  const std::string& temporary() const override { return temporary_; }
  Result<void> remove_temporary() override {
    file_.reset();
    remove_lost();
    auto removed = repeat_if_lost([&] { return client_.unlink(temporary_); });
    const bool gone = !removed && removed.error().system == ENOENT;
    if (!removed && !gone) return removed;
    if (gone && rename_sent_)
      return fail(ErrorCode::kIo, fmt::format("it no longer exists; compare {} with the source", path_));
    temporary_.clear();
    return {};
  }

 private:
  void enter_directory() {
    in_directory_ = true;
    path_ += (path_.empty() || path_.ends_with('/') ? "" : "/") + name_;
  }

  unsigned rename_flags() const { return assumes_new_ ? RENAME_NOREPLACE : 0; }

  // The name of the next attempt to create the file.
  void choose_temporary() {
    if (!temporary_.empty()) lost_.push_back(temporary_);
    const std::size_t slash = path_.rfind('/');
    const std::size_t first = slash == std::string::npos ? 0 : slash + 1;
    temporary_ = path_.substr(0, first) + temporary_name(path_.substr(first));
  }
  OpenOptions creation() const {
    OpenOptions options{.read = false, .write = true, .create = true, .exclusive = true};
    // With these permissions the mode need not be set later, unless the umask or the directory changes it.
    if (permissions_) options.mode = (*permissions_ & 0600) == 0600 ? *permissions_ : 0600;
    return options;
  }

  // The status of what path_ refers to.
  Result<FileStatus> follow() {
    auto status = looking_.sent() ? looking_.take() : client_.status(path_, false);
    is_link_ = status && S_ISLNK(status->mode);
    return is_link_ ? client_.status(path_) : status;
  }

  void remove_lost() {
    for (const std::string& name : lost_) static_cast<void>(repeat_if_lost([&] { return client_.unlink(name); }));
    lost_.clear();
  }

  Result<std::optional<FileStatus>> look_at_nothing(const Error& why) {
    if (why.system != ENOENT) return Failure(why);
    if (path_.ends_with('/')) return cluster_failure(path_, ENOTDIR);
    if (is_link_) return fail(ErrorCode::kIo, path_ + " is a symbolic link to a file that does not exist", ENOENT);
    return std::optional<FileStatus>{};
  }

  bool has_permissions() const { return !permissions_ || (file_->opened().mode & 07777) == *permissions_; }
  Result<void> set_permissions() {
    if (has_permissions()) return {};
    const auto status =
        repeat_if_lost([&] { return client_.change_status(temporary_, {.mode = permissions_}, false); });
    if (status) return {};
    if (!cannot_store_modes(status.error().system)) return Failure(status.error());
    warn_about_mode(path_, *permissions_);
    return {};
  }

  // With an error number the file system refused, and there is no file. Without one, for example after a lost
  // connection, the file may exist.
  Result<void> not_created(const Error& why) {
    if (why.system != 0) {
      temporary_.clear();
      remove_lost();
    }
    return fail(why.code, "cannot create a temporary file: " + why.message, why.system);
  }

  // After a rename that failed: if only the reply was lost, the file has its final name.
  bool has_final_name(std::uint64_t inode) {
    if (client_.status(temporary_, false)) return false;
    const auto status = client_.status(path_, false);
    return status && status->inode == inode;
  }

  // Syncs before the last one. Their replies may come after this object is gone.
  struct EarlySyncs {
    Mutex mutex;
    std::condition_variable_any ended;
    int running TUTTI_GUARDED_BY(mutex) = 0;
    Result<void> result TUTTI_GUARDED_BY(mutex);  // the first error
  };

  Client& client_;
  const std::shared_ptr<Replies> replies_;
  const std::shared_ptr<EarlySyncs> early_ = std::make_shared<EarlySyncs>();
  std::string path_;
  const std::string name_;  // of the new file if path_ is a directory
  const bool known_directory_, assumes_new_;
  bool in_directory_ = false;
  bool is_link_ = false;  // the path that was looked at last
  std::optional<std::uint32_t> permissions_;
  std::shared_ptr<File> file_;
  std::atomic<std::uint64_t> written_ = 0;
  std::atomic<bool> synced_ = false;  // early_ has syncs of all that is written
  SentAhead<FileStatus> looking_;
  SentAhead<std::shared_ptr<File>> creating_;
  SentAhead<std::size_t> writing_;
  SentAhead<void> renaming_;
  std::size_t writing_size_ = 0;  // bytes of writing_
  std::string temporary_;
  std::vector<std::string> lost_;  // temporary files that lost nodes may have created
  bool rename_sent_ = false;
};

}  // namespace

Result<std::unique_ptr<Source>> cluster_source(const std::string& path, Result<std::shared_ptr<File>> file) {
  if (!file) return file.error().system == EISDIR ? cluster_failure(path, EISDIR) : Failure(file.error());
  if (auto regular = check_regular(path, (*file)->opened()); !regular) return Failure(regular.error());
  return std::make_unique<ClusterSource>(std::move(*file));
}

std::unique_ptr<Destination> cluster_destination(Client& client, DestinationName name,
                                                 std::shared_ptr<Replies> replies) {
  return std::make_unique<ClusterDestination>(client, std::move(name), std::move(replies));
}

}  // namespace tutti::cli
