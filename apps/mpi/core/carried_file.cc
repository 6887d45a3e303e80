// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/carried_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <future>
#include <limits>

#include "client/cluster_file.h"

namespace tutti::mpi {
namespace {

namespace fs = std::filesystem;

// A file that grows while it is read is read again. After this number of times what was read counts.
constexpr int kMostRepetitions = 16;
// prefetch() reads at most this size at a time.
constexpr std::uint64_t kPrefetchBytes = std::uint64_t{4} << 20;

// Starts an operation of the client and waits for it.
template <typename Start>
Result<std::size_t> wait_for(const Issue& issue, Start start) {
  std::promise<Result<std::size_t>> promise;
  auto result = promise.get_future();
  start([&promise](Result<std::size_t> done) { promise.set_value(std::move(done)); });
  if (issue.issued) {
    result.wait_for(issue.delay);
    issue.issued();
  }
  return result.get();
}

// The end of the part that ends last.
std::uint64_t end_of(const std::vector<ReadPart>& parts) {
  std::uint64_t end = 0;
  for (const ReadPart& part : parts) end = std::max(end, part.offset + part.into.size());
  return end;
}

}  // namespace

Failure CarriedFile::failed(const char* what, const Error& error) const {
  return fail(error.code, fmt::format("cannot {} {} through the nodes: {}", what, options_.path, error.message),
              error.system);
}

Result<void> CarriedFile::open() {
  Lock lock(opening_);
  if (file_) return {};
  auto client = options_.connect();
  if (!client) return Failure(client.error());
  auto file = (*client)->open(options_.path, {.read = options_.read, .write = options_.write});
  if (!file) return failed("open", file.error());
  const auto status = (*file)->status();
  if (!status) return failed("open", status.error());
  if (options_.inode != 0 && status->inode != options_.inode)
    return fail(
        ErrorCode::kNotFound,
        fmt::format("{} of the cluster is another file than the one that MPI opened: set tutti_directory to the "
                    "directory that the cluster serves",
                    options_.path));
  client_ = std::move(*client);
  file_ = std::move(*file);
  return {};
}

Layout CarriedFile::layout() const {
  FileLayout found = file_->layout();
  return {found.stripe_size, found.stripe_count, found.object_size, std::move(found.targets), std::move(found.source)};
}

Result<void> CarriedFile::write(std::span<const FilePart> parts, const Issue& issue) {
  if (parts.empty()) return {};
  if (auto opened = open(); !opened) return opened;
  written_ = true;
  std::vector<WritePart> list;
  for (const FilePart& part : parts) list.push_back({part.offset, {part.memory, part.length}});
  const auto done = wait_for(issue, [&](File::Done report) {
    if (issue.stamp) return file_->write_async(std::move(list), *issue.stamp, std::move(report));
    file_->write_async(std::move(list), std::move(report));
  });
  if (!done) return failed("write", done.error());
  return {};
}

Result<std::size_t> CarriedFile::read_once(const std::vector<ReadPart>& parts, const Issue& issue) {
  return wait_for(issue, [&](File::Done report) {
    if (issue.stamp) return file_->read_async(parts, *issue.stamp, std::move(report));
    file_->read_async(parts, std::move(report));
  });
}

Result<std::uint64_t> CarriedFile::read(std::span<const FilePart> parts, const Issue& issue) {
  constexpr auto kInside = std::numeric_limits<std::uint64_t>::max();
  if (parts.empty()) return kInside;
  if (auto opened = open(); !opened) return Failure(opened.error());
  std::vector<ReadPart> list;
  std::size_t wanted = 0;
  for (const FilePart& part : parts) {
    list.push_back({part.offset, {part.memory, part.length}});
    wanted += part.length;
  }
  auto got = read_once(list, issue);
  for (int i = 0; got && *got < wanted; ++i) {
    const auto status = file_->status();
    if (!status) return failed("read", status.error());
    if (status->size < end_of(list) || i == kMostRepetitions) return status->size;
    got = read_once(list, {issue.stamp});  // the file has grown
  }
  if (!got) return failed("read", got.error());
  return kInside;
}

// The nodes read the data into their caches because this process reads it.
void CarriedFile::prefetch(std::span<const Extent> extents) {
  if (!open()) return;
  std::vector<std::byte> memory;
  for (const Extent& extent : extents)
    for (std::uint64_t done = 0; done < extent.length; done += kPrefetchBytes) {
      memory.resize(std::min(extent.length - done, kPrefetchBytes));
      if (!read_once({{extent.offset + done, memory}}, {})) return;
    }
}

Result<void> CarriedFile::sync() {
  if (!written_.exchange(false)) return {};
  const auto synced = file_->fsync();
  if (synced) return {};
  written_ = true;
  return failed("sync", synced.error());
}

Result<void> CarriedFile::close() {
  file_.reset();
  client_.reset();
  return {};
}

// Sizes on the busiest target follow from the sum and the layout, so the shares need not be exact (job/phases.h).
Stamp CarriedFile::stamp_together(Bytes bytes) {
  const FileLayout layout = file_->layout();
  std::vector<TargetShare> shares;
  const std::uint64_t each = bytes.count() / layout.targets.size();
  for (const TargetId target : layout.targets) shares.push_back({target, Bytes(each)});
  shares.front().bytes += Bytes(bytes.count() - each * layout.targets.size());
  return client_->stamp_together(shares);
}

Result<ClusterPath> find_in_cluster(const ClusterChoice& choice, const std::string& file) {
  const std::string given = choice.cluster.empty() ? default_cluster_file() : choice.cluster;
  std::error_code error;
  const std::string path = fs::absolute(cluster_file(given), error).string();
  const auto cluster = load_cluster_file(path);
  if (!cluster) return Failure(cluster.error());
  const std::string& served = choice.directory.empty() ? cluster->defaults.directory : choice.directory;
  if (served.empty())
    return fail(ErrorCode::kInvalid, fmt::format("{} does not say which directory the cluster serves: set "
                                                 "tutti_directory or TUTTI_DIRECTORY",
                                                 path));
  const fs::path directory = fs::canonical(served, error);
  if (error) return fail(ErrorCode::kNotFound, fmt::format("{}: {}", served, error.message()), error.value());
  const fs::path inside = fs::weakly_canonical(file, error).lexically_relative(directory);
  if (inside.empty() || *inside.begin() == "..")
    return fail(ErrorCode::kNotFound, fmt::format("{} is not in {}, which the cluster serves", file, served));
  const NodeSettings& nodes = cluster->defaults;
  const std::string& device = nodes.device_class.empty() ? nodes.device : nodes.device_class;
  return ClusterPath{path, inside.string(), device.starts_with("hdd")};
}

}  // namespace tutti::mpi
