// SPDX-License-Identifier: Apache-2.0
#include "trace/live_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/descriptor.h"
#include "base/replace_file.h"
#include "base/units.h"
#include "sched/prediction/predicted_queues.h"

namespace tutti::trace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".trace";
constexpr std::uint64_t kFilesPerLimit = 8;
constexpr std::size_t kMostFiles = 1000;  // of a node, however small they are

Failure file_error(const std::string& path, int error) {
  return fail(ErrorCode::kIo, fmt::format("{}: {}", path, std::strerror(error)), error);
}

Result<void> write_all(int file, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return file_error(path, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

class Files final : public TraceOutput {
 public:
  explicit Files(const FilesOptions& options) : options_(options) {}

  // Finds the files of earlier recordings.
  Result<void> open();
  Result<void> write(const FileHeader& header, std::span<const std::byte> block) override;

 private:
  Bytes file_limit() const { return options_.limit / kFilesPerLimit; }
  std::string path_of(std::uint64_t number) const {
    return fmt::format("{}/{}.{:06}{}", options_.directory, options_.name, number, kSuffix);
  }
  Result<void> begin_file(const FileHeader& header, std::size_t first_block);
  void make_room(Bytes wanted);
  void end_damaged_file();

  const FilesOptions options_;
  Descriptor file_;
  std::map<std::uint64_t, Bytes> sizes_;  // of existing files, by number
  std::uint64_t next_ = 1;
  Bytes complete_{};  // size of the current file up to its last whole block; 0: it has none
};

Result<void> Files::open() {
  if (options_.name.empty() || options_.name.find('/') != std::string::npos)
    return fail(ErrorCode::kInvalid, fmt::format("'{}' is no name for trace files", options_.name));
  if (options_.limit < kLeastLimit)
    return fail(ErrorCode::kInvalid,
                fmt::format("the limit of traces is {}; at least {}", format(options_.limit), format(kLeastLimit)));
  if (::mkdir(options_.directory.c_str(), 0700) != 0 && errno != EEXIST) return file_error(options_.directory, errno);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(options_.directory, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(options_.name + ".") || !name.ends_with(kSuffix)) continue;
    std::uint64_t number = 0;
    const char* begin = name.data() + options_.name.size() + 1;
    const char* end = name.data() + name.size() - kSuffix.size();
    if (begin >= end || std::from_chars(begin, end, number).ptr != end || number >= UINT64_MAX / 2) continue;
    std::error_code unknown;
    const auto size = entry.file_size(unknown);
    if (unknown || path_of(number) != options_.directory + "/" + name) continue;
    sizes_[number] = Bytes(size);
    next_ = std::max(next_, number + 1);
  }
  if (error) return file_error(options_.directory, error.value());
  if (::access(options_.directory.c_str(), W_OK | X_OK) != 0) return file_error(options_.directory, errno);
  return {};
}

void Files::make_room(Bytes wanted) {
  Bytes sum = wanted;
  for (const auto& [number, size] : sizes_) sum += size;
  while (!sizes_.empty() && (sum > options_.limit || sizes_.size() >= kMostFiles)) {
    const auto oldest = sizes_.begin();
    ::unlink(path_of(oldest->first).c_str());  // a file that cannot be removed no longer counts, or nothing is recorded
    sum -= oldest->second;
    sizes_.erase(oldest);
  }
}

Result<void> Files::begin_file(const FileHeader& header, std::size_t first_block) {
  const std::vector<std::byte> bytes = encode_header(header);
  make_room(std::max(file_limit(), Bytes(bytes.size() + first_block)));
  const std::string path = path_of(next_);
  file_ = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  const int problem = errno;
  ++next_;  // also after a failure: another process may have made this file
  if (!file_) return file_error(path, problem);
  sizes_[next_ - 1] = Bytes(bytes.size());
  complete_ = Bytes();
  return write_all(file_.get(), bytes, path);
}

Result<void> Files::write(const FileHeader& header, std::span<const std::byte> block) {
  if (file_ && sizes_.rbegin()->second + Bytes(block.size()) > file_limit()) file_ = Descriptor();
  Result<void> done;
  if (!file_) done = begin_file(header, block.size());
  if (done) {
    const std::uint64_t number = next_ - 1;
    done = write_all(file_.get(), block, path_of(number));
    sizes_[number] += Bytes(block.size());
    if (done) complete_ = sizes_[number];
  }
  if (!done && file_) end_damaged_file();
  return done;
}

// Removes the part of a block that was written, and a file without any block: a full disk must not fill with files.
void Files::end_damaged_file() {
  const std::uint64_t number = next_ - 1;
  struct stat status {};
  const auto keep = static_cast<off_t>(complete_.count());
  if (keep == 0)
    ::unlink(path_of(number).c_str());
  else if (::ftruncate(file_.get(), keep) != 0 && fstat(file_.get(), &status) == 0)
    complete_ = Bytes(static_cast<std::uint64_t>(status.st_size));
  if (keep == 0)
    sizes_.erase(number);
  else
    sizes_[number] = complete_;
  file_ = Descriptor();
}

Result<std::vector<std::string>> expand(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    const std::size_t before = files.size();
    for (const auto& entry : fs::directory_iterator(path, error))
      if (entry.path().string().ends_with(kSuffix)) files.push_back(entry.path().string());
    if (error) return file_error(path, error.value());
    if (files.size() == before)
      return fail(ErrorCode::kNotFound, fmt::format("{}: the directory has no file *{}", path, kSuffix));
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  }
  return files;
}

}  // namespace

Result<std::unique_ptr<TraceOutput>> make_files(const FilesOptions& options) {
  auto files = std::make_unique<Files>(options);
  if (auto opened = files->open(); !opened) return Failure(opened.error());
  return files;
}

Result<std::vector<std::byte>> read_whole_file(const std::string& path) {
  const Descriptor file(
      ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));  // does not wait for the writer of a pipe
  if (!file) return file_error(path, errno);
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return file_error(path, errno);
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::kInvalid, path + ": not a regular file");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size > kMostFile) return fail(ErrorCode::kInvalid, path + ": the file is too large to be read");
  std::vector<std::byte> bytes(size);
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error(path, errno);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

Result<std::vector<Recording>> read_files(const std::vector<std::string>& paths, Names names) {
  const auto files = expand(paths);
  if (!files) return Failure(files.error());
  std::vector<std::pair<FileHeader, Decoder>> decoders;
  Problems unreadable;
  Error first{ErrorCode::kInvalid, "no trace was given"};
  for (const std::string& path : *files) {
    const auto bytes = read_whole_file(path);
    const auto header = bytes ? decode_header(*bytes, path) : Result<FileHeader>(Failure(bytes.error()));
    if (!header) {
      if (unreadable.count() == 0) first = header.error();
      unreadable.add(header.error().message);
      continue;
    }
    auto same = std::ranges::find(decoders, *header, [](const auto& known) { return known.first; });
    if (same == decoders.end()) {
      decoders.emplace_back(*header, Decoder(*header, names));
      same = std::prev(decoders.end());
    }
    same->second.add(*bytes, path);
  }
  if (decoders.empty()) return Failure(first);
  std::vector<Recording> recordings;
  for (auto& [header, decoder] : decoders) recordings.push_back(decoder.take());
  recordings.front().problems.add(unreadable);
  return recordings;
}

namespace {

// Requests in order of arrival, with the completions that fall between them.
class WholeEncoder {
 public:
  explicit WholeEncoder(const Recording& recording) : recording_(recording), bytes_(encode_header(header())) {
    const auto& requests = recording.trace.requests;
    for (std::size_t i = 0; i < requests.size(); ++i)
      if (requests[i].has_completed()) ends_.emplace_back(requests[i].completed, i);
    std::ranges::sort(ends_);
  }

  const std::vector<std::byte>& encode() {
    for (const TraceRequest& request : recording_.trace.requests) {
      end_until(request.time);
      encoder_.add({.time = request.time,
                    .file = request.file,
                    .application = request.application,
                    .offset = request.offset,
                    .length = request.length,
                    .target = request.target,
                    .direction = request.direction,
                    .process = request.process},
                   recording_.trace.files[request.file]);
      ++added_;
      if (encoder_.full()) end_block();
    }
    end_until(Duration::max());
    end_block();
    return bytes_;
  }

 private:
  FileHeader header() const { return {.start = recording_.start, .facts = recording_.facts}; }
  // A request that ended at the time of its own arrival ends after it.
  void end_until(Duration time) {
    for (; next_end_ < ends_.size() && ends_[next_end_].first <= time && ends_[next_end_].second < added_;
         ++next_end_) {
      encoder_.complete(ends_[next_end_].second, ends_[next_end_].first);
      if (encoder_.full()) end_block();
    }
  }
  void end_block() {
    const auto block = encoder_.take();
    bytes_.insert(bytes_.end(), block.begin(), block.end());
  }

  const Recording& recording_;
  std::vector<std::byte> bytes_;
  std::vector<std::pair<Duration, std::size_t>> ends_;  // time, index
  std::size_t next_end_ = 0;
  std::size_t added_ = 0;
  BlockEncoder encoder_;
};

}  // namespace

Result<LoadedPredictions> load_predictions(const std::string& path) {
  auto recordings = read_files({path}, Names::kPatterns);
  if (!recordings) return Failure(recordings.error());
  LoadedPredictions loaded{.traces = recordings->size()};
  std::vector<Trace> traces;
  for (Recording& recording : *recordings) {
    for (const std::string& problem : recording.problems.texts()) loaded.problems.push_back(problem);
    loaded.requests += recording.trace.requests.size();
    traces.push_back(std::move(recording.trace));
  }
  loaded.queues = PredictedQueues::combine(traces);
  return loaded;
}

Result<void> write_file(const Recording& recording, const std::string& path) {
  WholeEncoder encoder(recording);
  return replace_file(path, encoder.encode(), 0600);
}

}  // namespace tutti::trace
