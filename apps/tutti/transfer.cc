// SPDX-License-Identifier: Apache-2.0
#include "transfer.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/units.h"
#include "transfer_ends.h"

namespace tutti::cli {
namespace {

constexpr std::size_t kChunk = 4 << 20;        // several stripes at once keep all nodes busy
constexpr std::size_t kLeastChunk = 1 << 20;   // a stripe of this size is a chunk of its own
constexpr std::size_t kFirstPart = 128 << 10;  // of a file that is empty when it is opened
constexpr std::size_t kThreads = 4;  // that copy parts of one file: more wait for the lock of the file on one machine
constexpr std::size_t kEarlySync = 256 << 20;  // bytes copied until storage begins to write them
constexpr std::size_t kSmall = 64 << 10;       // files whose data is sent with those of others
constexpr std::size_t kSmallTransfers = 16;    // threads that carry out transfers
constexpr std::size_t kGroup = 256;            // files that are synced together

// As many threads as the system allows, at most `most`: the caller does the work of those that it does not get.
template <typename Work>
std::vector<std::thread> start_threads(std::size_t most, const Work& work) {
  std::vector<std::thread> threads;
  threads.reserve(most);
  try {
    while (threads.size() < most) threads.emplace_back(work);
  } catch (const std::system_error&) {
  }
  return threads;
}

// One running transfer.
class Copy {
 public:
  // `replies` counts what send() sends. `assume_new`: see Destination::assumes_new().
  Copy(Client& client, const Transfer& what, StopSignals& signals, Activity& activity, std::shared_ptr<Replies> replies,
       bool assume_new)
      : client_(client),
        what_(what),
        signals_(signals),
        activity_(activity),
        replies_(std::move(replies)),
        assume_new_(assume_new) {}

  // The steps of a transfer, in this order. send() begins step i without waiting, so that the requests of many files
  // are under way at the same time; it is optional. finish() carries the step out, or waits for what send() has begun.
  // After a failed step, the transfer is over and has left nothing.
  static constexpr std::size_t kSteps = 6;
  void send(std::size_t step) {
    if (signals_.number() != 0) return;
    sent_ = true;  // also after a signal, the step must be completed: a request may be under way
    (this->*kAll[step].send)();
  }
  Result<void> finish(std::size_t step) {
    const int number = signals_.number();
    const bool sent = std::exchange(sent_, false);
    if (number != 0 && !sent) return failure(stopped(number).value());
    const auto done = (this->*kAll[step].finish)();
    return done ? done : failure(done.error());
  }
  // Carries out all steps.
  Result<void> run() {
    for (std::size_t step = 0; step < kSteps; ++step)
      if (auto done = finish(step); !done) return done;
    return {};
  }
  // After the last step has failed: the file must not be assumed to be new.
  bool may_exist(const Error& why) const {
    return destination_ && destination_->assumes_new() && (why.system == EEXIST || why.system == EINVAL);
  }
  // After commit(): as in Destination.
  std::optional<std::string> directory() const { return what_.sync ? destination_->directory() : std::nullopt; }
  const std::string& path() const { return destination_->path(); }

 private:
  struct Step {
    void (Copy::*send)();
    Result<void> (Copy::*finish)();
  };
  static const std::array<Step, kSteps> kAll;

  void send_open() {
    if (what_.from.where == FileLocation::Where::kCluster)
      client_.open_async(what_.from.path, {}, opening_.expect(replies_));
  }
  Result<void> open() {
    const FileLocation &from = what_.from, &to = what_.to;
    activity_.set("opening " + from.path);
    auto source = open_source();
    if (!source) return Failure(source.error());
    source_ = std::move(*source);
    if (S_ISREG(source_->opened().mode)) size_ = source_->opened().size;
    DestinationName name{to.path, base_name(from.path), what_.known_directory,
                         assume_new_ && size_ && *size_ <= kSmall};  // else a refused file would be sent for nothing
    destination_ = to.where == FileLocation::Where::kCluster ? cluster_destination(client_, std::move(name), replies_)
                                                             : local_destination(std::move(name));
    return {};
  }
  Result<std::unique_ptr<Source>> open_source() {
    const std::string& path = what_.from.path;
    if (what_.from.where == FileLocation::Where::kLocal) return open_local_source(path, signals_);
    return cluster_source(path, opening_.sent() ? opening_.take() : client_.open(path, {}));
  }

  // Makes all checks that are possible before a file is created.
  void send_look() { destination_->begin_look(); }
  Result<void> look() {
    const auto existing = destination_->look();
    if (!existing) return Failure(existing.error());
    if (what_.only_into && !destination_->in_directory())
      return fail(ErrorCode::kInvalid, what_.to.path + " is not a directory, and there are several files to copy");
    replaces_ = existing->has_value();
    if (replaces_) {
      const auto after = source_->status();
      if (!after) return Failure(after.error());
      if (same_file(source_->opened(), **existing, *after))
        return fail(ErrorCode::kIo, fmt::format("both are the same file (inode {})", source_->opened().inode));
    }
    if (!destination_->direct()) {
      signals_.protect();
      signal(SIGPIPE, SIG_IGN);  // a closed standard error must not prevent the removal of the temporary file
    }
    return {};
  }

  void send_create() { destination_->begin_create(source_->permissions()); }
  Result<void> create() { return destination_->create(source_->permissions()); }

  // Small local files.
  void send_data() {
    if (what_.from.where != FileLocation::Where::kLocal || !size_ || *size_ == 0 || *size_ > kSmall) return;
    if (what_.from.path == "-" || !destination_->in_cluster()) return;
    const std::span<std::byte> part = small_.of(first_part());
    // An error, and a file that is longer now, are left to copy().
    if (const auto got = source_->read(0, part); got && *got < part.size()) {
      end_ = *got;
      destination_->begin_write(part.first(*got));
    }
  }
  Result<void> copy_and_close() {
    auto done = end_ > 0 ? destination_->finish_write() : copy();
    if (done) done = source_->check_end(end_);
    source_.reset();
    small_ = {};
    return done;
  }

  void send_sync() {
    if (what_.sync) destination_->begin_stabilising();
  }
  Result<void> sync() {
    if (!what_.sync) return {};
    activity_.set("syncing " + destination_->path());
    return destination_->stabilise();
  }

  void send_commit() { destination_->begin_commit(); }
  Result<void> commit() {
    activity_.set("completing " + destination_->path());
    return destination_->commit(what_.sync);
  }

  Result<void> copy() {
    const bool parallel = size_ && *size_ > chunk() && what_.from.path != "-" && !destination_->direct();
    if (auto done = parallel ? copy_parallel() : copy_in_order(); !done) return done;
    if (const int number = signals_.number(); number != 0) return stopped(number);
    return {};
  }

  // Source and destination are in the cluster: its nodes copy.
  bool on_nodes() { return destination_->in_cluster() && source_->cluster_file() != nullptr; }
  // One stripe, if it is large: it is one request, whose reply is received by the thread that waits for it.
  std::size_t chunk() { return stripe() >= kLeastChunk && stripe() <= kChunk && !on_nodes() ? stripe() : kChunk; }
  std::uint64_t stripe() const { return client_.cluster().stripe_size.count(); }
  // Memory for one part, for a thread. Not initialised: that would cost more than a small file.
  class Memory {
   public:
    std::span<std::byte> of(std::size_t size) {
      if (size_ < size) data_ = std::make_unique_for_overwrite<std::byte[]>(size_ = size);
      return {data_.get(), size};
    }

   private:
    std::unique_ptr<std::byte[]> data_;
    std::size_t size_ = 0;
  };

  // Copies one part of `length` bytes. Returns its length; less at the end of the source.
  Result<std::size_t> copy_part(std::uint64_t offset, std::size_t length, Memory& memory) {
    if (const int number = signals_.number(); number != 0) return stopped(number);
    if (on_nodes() || (source_->cluster_file() != nullptr && !destination_->direct() && length <= stripe())) {
      activity_.set(fmt::format("copying {} to {}", what_.from.path, destination_->path()));
      return destination_->copy(*source_->cluster_file(), offset, length);
    }
    if (destination_->in_cluster() && length >= kLeastChunk)
      if (const MappedPart part = source_->map(offset, length); !part.memory().empty()) {
        activity_.set("writing " + destination_->path());
        const auto done = destination_->write(offset, part.memory());
        if (done) return length;
        if (done.error().system != EFAULT) return Failure(done.error());
      }
    activity_.set("reading " + (what_.from.path == "-" ? "standard input" : what_.from.path));
    const std::span<std::byte> part = memory.of(length);
    auto got = source_->read(offset, part);
    if (!got) return signals_.number() != 0 ? stopped(signals_.number()) : Failure(got.error());
    activity_.set("writing " + (what_.to.path == "-" ? "standard output" : destination_->path()));
    if (auto done = destination_->write(offset, part.first(*got)); !done) return Failure(done.error());
    return got;
  }

  Result<void> copy_in_order() {
    Memory memory;
    for (std::size_t length = first_part(), got = length; got == length; end_ += got) {
      if (end_ > 0) length = kChunk;  // the file is longer than it was
      const auto part = copy_part(end_, length, memory);
      if (!part) return Failure(part.error());
      got = *part;
    }
    return {};
  }

  // One byte more than the file has, to see its end. Files in /proc have more than their size, which is 0.
  std::size_t first_part() const {
    if (!size_ || what_.from.path == "-") return kChunk;
    return *size_ == 0 ? kFirstPart : std::min<std::uint64_t>(kChunk, *size_ + 1);
  }

  Result<void> copy_parallel() {
    Mutex mutex;
    Result<void> result;
    std::uint64_t next = 0, end = UINT64_MAX, furthest = 0;  // guarded by the mutex
    std::size_t copied = 0;                                  // since begin_stabilising(), too
    const auto work = [&] {
      Memory memory;
      for (;;) {
        Lock lock(mutex);
        if (!result || next >= end) return;
        const std::uint64_t offset = std::exchange(next, next + chunk());
        lock.unlock();
        const auto got = copy_part(offset, chunk(), memory);
        lock.lock();
        if (!got && result) result = Failure(got.error());
        if (!got) return;
        if (*got > 0) furthest = std::max(furthest, offset + *got);
        if (*got < chunk()) end = std::min(end, offset + *got);
        copied += *got;
        if (!what_.sync || copied < kEarlySync) continue;
        copied = 0;
        lock.unlock();
        destination_->begin_stabilising();
      }
    };
    auto threads = start_threads(kThreads - 1, work);
    work();
    for (std::thread& thread : threads) thread.join();
    end_ = end;
    if (result && furthest > end) return fail(ErrorCode::kIo, what_.from.path + " changed its size while it was read");
    return result;
  }

  static Failure stopped(int number) {
    return fail(ErrorCode::kStopped, fmt::format("stopped by signal {} ({})", number, strsignal(number)));
  }

  // The error for the user: command, path, reason, and how much was written.
  Failure failure(const Error& why) {
    std::string what = what_.command + " " + what_.from.path;
    if (what_.to.path != "-") what += " to " + what_.to.path;
    // After a file was created the error is not a usage error.
    const bool created = destination_ && !destination_->temporary().empty();
    const ErrorCode code = created && why.code == ErrorCode::kInvalid ? ErrorCode::kIo : why.code;
    return fail(code, fmt::format("{}: {}. {}", what, why.message, remains()), why.system);
  }

  std::string remains() {
    if (!destination_) return "Nothing was written.";
    const Bytes count(destination_->written());
    const std::string written = size_ ? fmt::format("{} of {}", format(count), format(Bytes(*size_))) : format(count);
    const std::string temporary = destination_->temporary();
    if (temporary.empty() && count == Bytes(0)) return "Nothing was written.";
    if (temporary.empty()) return written + " were written.";
    if (const auto removed = destination_->remove_temporary(); !removed)
      return fmt::format("{} were written to {}, which could not be removed: {}.", written, temporary,
                         removed.error().message);
    return fmt::format("{} were written to {}, which was removed. {} was not {}.", written, temporary,
                       destination_->path(), replaces_ ? "changed" : "created");
  }

  Client& client_;
  const Transfer& what_;
  StopSignals& signals_;
  std::unique_ptr<Source> source_;
  std::unique_ptr<Destination> destination_;
  std::optional<std::uint64_t> size_;  // of the source, if it is known
  Activity& activity_;
  const std::shared_ptr<Replies> replies_;
  const bool assume_new_;
  std::uint64_t end_ = 0;  // bytes copied, when copy() has succeeded or send_data() has begun
  bool replaces_ = false;
  bool sent_ = false;  // send() was called, finish() was not
  SentAhead<std::shared_ptr<File>> opening_;
  Memory small_;  // the data of a small file
};

constexpr std::array<Copy::Step, Copy::kSteps> Copy::kAll = {{{&Copy::send_open, &Copy::open},
                                                              {&Copy::send_look, &Copy::look},
                                                              {&Copy::send_create, &Copy::create},
                                                              {&Copy::send_data, &Copy::copy_and_close},
                                                              {&Copy::send_sync, &Copy::sync},
                                                              {&Copy::send_commit, &Copy::commit}}};

}  // namespace

bool same_file(const FileStatus& before, const FileStatus& other, const FileStatus& after) {
  const auto between = [](auto first, auto value, auto last) {
    return std::min(first, last) <= value && value <= std::max(first, last);
  };
  return before.inode == other.inode && before.uid == other.uid && before.gid == other.gid &&
         (before.mode == other.mode || after.mode == other.mode) && between(before.links, other.links, after.links) &&
         between(before.size, other.size, after.size) && between(before.modified, other.modified, after.modified) &&
         between(before.changed, other.changed, after.changed);
}

std::string base_name(const std::string& path) {
  const std::size_t last = path.find_last_not_of('/');
  if (last == std::string::npos) return "";
  const std::size_t slash = path.find_last_of('/', last);
  const std::size_t first = slash == std::string::npos ? 0 : slash + 1;
  return path.substr(first, last + 1 - first);
}

std::string temporary_name(const std::string& name) {
  constexpr std::size_t kLongest = 255;
  static std::atomic<unsigned> number = std::random_device{}();
  const std::string suffix = fmt::format(".tutti-tmp.{}-{:08x}", getpid(), number++);
  std::string stem = name.substr(0, kLongest - suffix.size());
  if (stem.size() < name.size()) {  // not in the middle of a UTF-8 character
    const auto continues = [&](std::size_t at) { return (static_cast<unsigned char>(name[at]) & 0xc0) == 0x80; };
    while (!stem.empty() && continues(stem.size())) stem.pop_back();
  }
  return stem + suffix;
}

bool cannot_store_modes(int error) {
  return error == EPERM || error == EOPNOTSUPP;
}

void warn_about_mode(const std::string& path, std::uint32_t permissions) {
  const std::string text = fmt::format(
      "tutti: {}: the file system cannot store the mode {:04o} of the source. The file is copied without it.\n", path,
      permissions);
  std::fputs(text.c_str(), stderr);  // not fmt::print, which throws if standard error is closed
}

namespace {

Result<void> sync_directory(Client& client, const std::string& path, const std::string& directory) {
  const auto synced = client.sync_directory(directory);
  if (synced) return {};
  return fail(synced.error().code,
              fmt::format("{} is complete, but its name may be lost if the server loses power: {}", path,
                          synced.error().message),
              synced.error().system);
}

}  // namespace

Result<void> transfer(Client& client, const Transfer& what, StopSignals& signals, Activity& activity) {
  signal(SIGXFSZ, SIG_IGN);  // a file larger than RLIMIT_FSIZE is an error like a full disk (EFBIG)
  Copy copy(client, what, signals, activity, std::make_shared<Replies>(), false);
  if (auto done = copy.run(); !done) return done;
  const auto directory = copy.directory();
  return directory ? sync_directory(client, copy.path(), *directory) : Result<void>{};
}

// Step by step for many files at a time: the nodes get the requests of a step together, and a journal brings files that
// are synced at the same time to stable storage together.
void transfer_all(Client& client, std::span<const Transfer> transfers, StopSignals& signals, Activity& activity,
                  const std::function<void(const Error&)>& failed) {
  signal(SIGXFSZ, SIG_IGN);
  std::map<std::string, std::string> directories;  // with one file in each
  // Saves a request per file, until one of them exists. That one and the next group ask first.
  std::atomic<bool> assume_new = true;
  const auto replies = std::make_shared<Replies>();
  while (!transfers.empty() && signals.number() == 0) {
    const auto group = transfers.first(std::min(kGroup, transfers.size()));
    transfers = transfers.subspan(group.size());
    std::vector<std::unique_ptr<Copy>> copies;  // null: failed
    for (const Transfer& what : group)
      copies.push_back(std::make_unique<Copy>(client, what, signals, activity, replies, assume_new));
    // Also after a signal: each transfer that has begun removes its temporary file.
    const auto finish = [&](std::size_t step, const Transfer& what, std::unique_ptr<Copy>& copy) {
      if (!copy) return;
      auto done = copy->finish(step);
      if (!done && step + 1 == Copy::kSteps && copy->may_exist(done.error())) {
        assume_new = false;
        copy = std::make_unique<Copy>(client, what, signals, activity, replies, false);
        done = copy->run();
      }
      if (done) return;
      const bool begun = step > 0 || done.error().code != ErrorCode::kStopped;
      copy.reset();
      if (begun) failed(done.error());
    };
    const std::size_t crew = std::min(kSmallTransfers, group.size());
    std::barrier together(static_cast<std::ptrdiff_t>(crew));
    std::array<std::atomic<std::size_t>, 2 * Copy::kSteps> next{};
    const auto work = [&] {
      for (std::size_t step = 0; step < Copy::kSteps; ++step) {
        for (std::size_t i; (i = next[2 * step]++) < group.size();)
          if (copies[i]) copies[i]->send(step);
        together.arrive_and_wait();
        replies->wait();
        for (std::size_t i; (i = next[2 * step + 1]++) < group.size();) finish(step, group[i], copies[i]);
        together.arrive_and_wait();
      }
    };
    auto threads = start_threads(crew - 1, work);
    for (std::size_t missing = crew - 1 - threads.size(); missing > 0; --missing) together.arrive_and_drop();
    work();
    for (std::thread& thread : threads) thread.join();
    for (const auto& copy : copies)
      if (copy && copy->directory()) directories.emplace(*copy->directory(), copy->path());
  }
  for (const auto& [directory, path] : directories)
    if (auto synced = sync_directory(client, path, directory); !synced) failed(synced.error());
}

}  // namespace tutti::cli
