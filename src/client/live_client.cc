// SPDX-License-Identifier: Apache-2.0
// The blocking client: wraps AsyncClient, takes its identity from the environment, and uses real sockets and threads.
#include "gate/live_client.h"

#include <fmt/format.h>
#include <tutti/client.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>

#include "base/live_world.h"
#include "base/print_error.h"
#include "client/async_client.h"
#include "gate/live_prober.h"
#include "job/live.h"

namespace tutti {
namespace {

constexpr Duration kConnectTimeout = std::chrono::seconds(2);

// The umask of this process. umask(2) cannot read it without changing it for a moment.
std::uint32_t current_umask() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::uint32_t mask = 0;
    if (word == "Umask:" && status >> std::oct >> mask) return mask;
  }
  return 022;
}

// Starts an asynchronous call and blocks until it is done. If possible, receives the reply on this thread.
template <typename T, typename Start>
Result<T> wait(Router& router, Start start) {
  std::promise<Result<T>> promise;
  auto future = promise.get_future();
  const CallPointer call = start([&promise](Result<T> result) { promise.set_value(std::move(result)); });
  if (call) router.await_reply(call);
  return future.get();
}

Result<void> write_all(int descriptor, std::uint64_t offset, std::span<const std::byte> from) {
  while (!from.empty()) {
    const auto put = ::pwrite(descriptor, from.data(), from.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return fail(ErrorCode::kIo, std::strerror(errno), errno);
    offset += static_cast<std::uint64_t>(put);
    from = from.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

// Part of the data may be in a pipe of the kernel.
Result<void> write_all(int descriptor, std::uint64_t offset, net::Incoming& data) {
  const std::span<std::byte> memory = data.payload.span();
  const std::size_t begin = data.pages_at, end = begin + data.pages.size();
  if (auto done = write_all(descriptor, offset, memory.first(begin)); !done) return done;
  while (data.pages.left() > 0) {
    const std::size_t at = end - data.pages.left();
    const auto put = data.pages.write(descriptor, offset + at);
    if (put > 0 || (put < 0 && errno == EINTR)) continue;
    if (put < 0 && errno != EINVAL) return fail(ErrorCode::kIo, std::strerror(errno), errno);
    // This file cannot be written from a pipe.
    if (!data.pages.read(memory.subspan(at))) return fail(ErrorCode::kIo, std::strerror(errno), errno);
    if (auto done = write_all(descriptor, offset + at, memory.subspan(at, end - at)); !done) return done;
  }
  return write_all(descriptor, offset + end, memory.subspan(end));
}

class LiveFile final : public File {
 public:
  explicit LiveFile(std::shared_ptr<OpenFile> file) : file_(std::move(file)), router_(file_->core().router()) {}

  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> into) override {
    return read_list({{offset, into}});
  }
  Result<std::size_t> write(std::uint64_t offset, std::span<const std::byte> from) override {
    return write_list({{offset, from}});
  }
  Result<std::size_t> read_list(std::vector<ReadPart> parts) override {
    return wait<std::size_t>(router_, [&](auto done) { return file_->read(parts, std::move(done)); });
  }
  Result<std::size_t> write_list(std::vector<WritePart> parts) override {
    return wait<std::size_t>(router_, [&](auto done) { return file_->write(parts, std::move(done)); });
  }
  Result<std::size_t> copy_from(const File& source, const CopyRange& range) override {
    const auto* other = dynamic_cast<const LiveFile*>(&source);
    if (other == nullptr || &other->router_ != &router_)
      return fail(ErrorCode::kInvalid, source.path() + " is a file of another client", EXDEV);
    return wait<std::size_t>(router_, [&](auto done) {
      return file_->copy_from(*other->file_, {range.source_offset, range.offset, range.length}, std::move(done));
    });
  }
  Result<std::size_t> read_to(int descriptor, std::uint64_t at, std::uint64_t offset, std::size_t length) override {
    if (length == 0) return std::size_t{0};
    if (!file_->fits_one_pipe({offset, length})) {
      const auto memory = std::make_unique_for_overwrite<std::byte[]>(length);
      const auto got = read(offset, {memory.get(), length});
      const auto done = got ? write_all(descriptor, at, std::span(memory.get(), *got)) : Result<void>{};
      return done ? got : Failure(done.error());
    }
    auto got = wait<OpenFile::Received>(router_, [&](auto done) {
      return file_->read_by_reference({offset, length}, std::move(done));
    });
    if (!got) return Failure(got.error());
    if (got->bytes == 0) return std::size_t{0};
    if (auto done = write_all(descriptor, at, got->message); !done) return Failure(done.error());
    return got->bytes;
  }
  void read_async(std::vector<ReadPart> parts, File::Done done) override { file_->read(parts, std::move(done)); }
  void write_async(std::vector<WritePart> parts, File::Done done) override { file_->write(parts, std::move(done)); }
  void read_async(std::vector<ReadPart> parts, const Stamp& stamp, File::Done done) override {
    file_->read(parts, std::move(done), &stamp);
  }
  void write_async(std::vector<WritePart> parts, const Stamp& stamp, File::Done done) override {
    file_->write(parts, std::move(done), &stamp);
  }
  void fsync_async(bool data_only, File::Done done) override { file_->fsync(data_only, std::move(done)); }
  Result<void> fsync(bool data_only) override {
    return wait<std::size_t>(router_, [&](auto done) { return file_->fsync(data_only, std::move(done)), nullptr; })
        .map([](std::size_t) {});
  }
  Result<void> truncate(std::uint64_t size) override {
    return wait<void>(router_, [&](auto done) { return file_->truncate(size, std::move(done)); });
  }
  Result<FileStatus> status() override {
    return wait<FileStatus>(router_, [&](auto done) { return file_->status(std::move(done)); });
  }
  const FileStatus& opened() const override { return file_->opened(); }
  const std::string& path() const override { return file_->path(); }
  FileLayout layout() const override {
    const Layout& layout = file_->layout();
    return {layout.stripe_size, layout.stripe_count, layout.targets, layout.source, layout.object_size};
  }
  TimeSpent time_spent() const override { return file_->time_spent(); }
  OpenFile& open_file() const { return *file_; }

 private:
  const std::shared_ptr<OpenFile> file_;
  Router& router_;
};

class LiveClient final : public Client {
 public:
  LiveClient(std::shared_ptr<Core> core, std::string memory_file)
      : async_(std::move(core), current_umask()), memory_file_(std::move(memory_file)) {
    if (!memory_file_.empty())
      async_.core().with_phases([&](job::Phases& phases) { job::load_sizes(memory_file_, phases); });
  }
  ~LiveClient() override {
    async_.core().stop();
    if (memory_file_.empty()) return;
    // The learned sizes are only a forecast for the next run, so an error is ignored.
    async_.core().with_phases([&](job::Phases& phases) { (void)job::save_sizes(phases, memory_file_); });
  }

  Result<std::shared_ptr<File>> open(const std::string& path, const OpenOptions& options) override {
    auto file = wait<std::shared_ptr<OpenFile>>([&](auto done) { return async_.open(path, options, std::move(done)); });
    if (!file) return Failure(file.error());
    return std::make_shared<LiveFile>(std::move(*file));
  }
  Result<FileStatus> status(const std::string& path, bool follow) override {
    return wait<FileStatus>([&](auto done) { return async_.status(path, follow, std::move(done)); });
  }
  void open_async(const std::string& path, const OpenOptions& options,
                  std::function<void(Result<std::shared_ptr<File>>)> done) override {
    async_.open(path, options, [done = std::move(done)](Result<std::shared_ptr<OpenFile>> file) {
      if (!file) return done(Failure(file.error()));
      done(std::make_shared<LiveFile>(std::move(*file)));
    });
  }
  void status_async(const std::string& path, bool follow, std::function<void(Result<FileStatus>)> done) override {
    async_.status(path, follow, std::move(done));
  }
  void rename_async(const std::string& from, const std::string& to, std::uint32_t flags,
                    std::function<void(Result<void>)> done) override {
    async_.rename(from, to, flags, std::move(done));
  }
  Result<void> make_directory(const std::string& path, std::uint32_t mode) override {
    return wait<void>([&](auto done) { return async_.make_directory(path, mode, std::move(done)); });
  }
  Result<std::vector<DirectoryItem>> read_directory(const std::string& path) override {
    return wait<std::vector<DirectoryItem>>([&](auto done) { return async_.read_directory(path, std::move(done)); });
  }
  Result<std::vector<DirectoryItemStatus>> read_directory_status(const std::string& path) override {
    return wait<std::vector<DirectoryItemStatus>>(
        [&](auto done) { return async_.read_directory_status(path, std::move(done)); });
  }
  Result<void> rename(const std::string& from, const std::string& to, std::uint32_t flags) override {
    return wait<void>([&](auto done) { return async_.rename(from, to, flags, std::move(done)); });
  }
  Result<void> unlink(const std::string& path) override {
    return wait<void>([&](auto done) { return async_.unlink(path, std::move(done)); });
  }
  Result<void> sync_directory(const std::string& path) override {
    return wait<void>([&](auto done) -> CallPointer { return async_.sync_directory(path, std::move(done)), nullptr; });
  }
  Result<void> remove_directory(const std::string& path) override {
    return wait<void>([&](auto done) { return async_.remove_directory(path, std::move(done)); });
  }
  Result<FileStatus> change_status(const std::string& path, const StatusChanges& changes, bool follow) override {
    return wait<FileStatus>([&](auto done) { return async_.change_status(path, changes, follow, std::move(done)); });
  }
  Result<void> symlink(const std::string& path, const std::string& target) override {
    return wait<void>([&](auto done) { return async_.symlink(path, target, std::move(done)); });
  }
  Result<std::string> read_link(const std::string& path) override {
    return wait<std::string>([&](auto done) { return async_.read_link(path, std::move(done)); });
  }
  Result<void> link(const std::string& from, const std::string& to) override {
    return wait<void>([&](auto done) { return async_.link(from, to, std::move(done)); });
  }
  Result<std::string> get_attribute(const std::string& path, const std::string& name) override {
    return wait<std::string>([&](auto done) { return async_.get_attribute(path, name, std::move(done)); });
  }
  Result<void> set_attribute(const std::string& path, const std::string& name, const std::string& value,
                             std::uint32_t flags) override {
    return wait<void>([&](auto done) { return async_.set_attribute(path, name, value, flags, std::move(done)); });
  }
  Result<std::vector<std::string>> list_attributes(const std::string& path) override {
    return wait<std::vector<std::string>>([&](auto done) { return async_.list_attributes(path, std::move(done)); });
  }
  Result<void> remove_attribute(const std::string& path, const std::string& name) override {
    return wait<void>([&](auto done) { return async_.remove_attribute(path, name, std::move(done)); });
  }
  Result<FileSystemStatus> file_system_status() override {
    return wait<FileSystemStatus>([&](auto done) { return async_.file_system_status(std::move(done)); });
  }

  Result<void> begin_phase(const PhaseAnnouncement& announcement, const File* file) override {
    return wait<void>([&](auto done) { return begin_phase_async(announcement, file, std::move(done)), nullptr; });
  }
  void begin_phase_async(const PhaseAnnouncement& announcement, const File* file,
                         std::function<void(Result<void>)> done) override {
    if (!file) return async_.core().begin_phase(announcement, std::move(done));
    const auto own = own_file(*file);
    if (!own) return done(Failure(own.error()));
    async_.core().begin_phase(announcement, std::move(done), (*own)->key());
  }
  Result<bool> probe(const File& file) override;
  void end_phase() override { async_.core().end_phase(); }
  Stamp stamp_together(std::span<const TargetShare> shares) override { return async_.core().issue_together(shares); }
  std::string waiting_for(Duration since) override { return async_.core().router().waiting_for(since); }
  ApplicationId application() const override { return async_.core().identity().application; }
  const Cluster& cluster() const override { return async_.core().options().cluster; }

 private:
  Result<OpenFile*> own_file(const File& file) const {
    const auto* own = dynamic_cast<const LiveFile*>(&file);
    if (own && &own->open_file().core() == &async_.core()) return &own->open_file();
    return fail(ErrorCode::kInvalid, file.path() + " was not opened by this client", EINVAL);
  }
  template <typename T, typename Start>
  Result<T> wait(Start start) {
    return tutti::wait<T>(async_.core().router(), std::move(start));
  }

  AsyncClient async_;
  const std::string memory_file_;  // of learned sizes; empty: none
};

Result<bool> LiveClient::probe(const File& file) {
  if (auto own = own_file(file); !own) return Failure(own.error());
  const std::string path = fmt::format("{}.probe-{:016x}", file.path(), live_world().random());
  const auto made = open(path, {.write = true, .create = true, .exclusive = true, .mode = 0600});
  if (!made) return Failure(made.error());
  std::vector<std::shared_ptr<OpenFile>> files;  // by target
  for (const TargetId target : file.layout().targets)
    files.push_back(async_.on_target((*made)->path(), (*made)->opened(), target));
  gate::ProberOptions options;
  options.backoff.targets = static_cast<std::uint32_t>(files.size());
  options.state_directory = std::filesystem::path(memory_file_).parent_path();
  options.directory = options.state_directory;
  const std::vector<std::byte> data(std::max(options.backoff.data_size, options.backoff.priming).count());
  const auto report = gate::probe_through(
      [&](const gate::Backoff::Write& wanted) {
        const WritePart part{0, std::span(data).first(wanted.bytes.count())};
        OpenFile& on = *files[wanted.target];
        auto written = wait<std::size_t>([&](auto done) { return on.write({part}, std::move(done)); });
        if (written) written = wait<std::size_t>([&](auto done) { return on.fsync(true, std::move(done)), nullptr; });
        return written.map([](std::size_t) {});
      },
      options);
  if (auto removed = unlink(path); report && !removed) return Failure(removed.error());
  return report.map([](const gate::ProbeReport& result) { return result.quiet; });
}

// The file with phase sizes learned in earlier runs; empty: none.
Result<std::string> memory_file(const ClientOptions& options, const std::string& job) {
  std::string directory = options.state_directory;
  if (const char* given = std::getenv("TUTTI_STATE"); directory.empty() && given != nullptr) directory = given;
  if (directory.empty()) return std::string{};
  std::error_code ignored;
  if (!std::filesystem::is_directory(directory, ignored))
    return fail(ErrorCode::kInvalid, fmt::format("TUTTI_STATE: '{}' is not a directory", directory));
  std::string name = job;
  for (auto& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_') c = '_';
  }
  return directory + "/" + name + ".phases";
}

// nullptr: no gate is configured.
Result<std::unique_ptr<job::Turns>> turns_of(const ClientOptions& options, const job::Identity& identity) {
  std::string address = options.gate;
  if (const char* given = std::getenv("TUTTI_GATE"); address.empty() && given != nullptr) address = given;
  if (address.empty() || address == "off") return nullptr;
  gate::LiveGateOptions turns{.address = address};
  turns.set_job(identity);
  if (auto read = turns.read_environment(); !read) return Failure(read.error());
  turns.say = [](const std::string& line) { print_error("tutti: {}\n", line); };
  return gate::make_live_turns(turns);
}

Result<net::ConnectOptions> connect_options(const ClientOptions& options, const job::Identity& identity) {
  net::ConnectOptions connect{.job = identity.name,
                              .claimed_job = {identity.application, identity.numbered && options.application_is_job},
                              .munge = options.cluster.munge,
                              .node_user = options.cluster.node_user,
                              .timeout = kConnectTimeout};
  if (!options.cluster.key_file.empty()) {
    auto key = net::load_key(options.cluster.key_file);
    if (!key) return Failure(key.error());
    connect.key = std::move(*key);
  }
  connect.pool = net::BufferPool::create(Bytes(std::uint64_t{64} << 20));
  return connect;
}

}  // namespace

Result<std::unique_ptr<Client>> Client::connect(ClientOptions options) {
  if (auto fine = check_cluster(options.cluster); !fine) return Failure(fine.error());
  auto identity = job::identify_process({.application = options.application,
                                         .order = options.order,
                                         .processes = options.processes,
                                         .name = options.job,
                                         .order_ids = options.cluster.order_ids});
  if (!identity) return Failure(identity.error());
  auto memory = memory_file(options, identity->name);
  if (!memory) return Failure(memory.error());
  auto connect = connect_options(options, *identity);
  if (!connect) return Failure(connect.error());
  auto transport = net::Transport::create({});
  if (!transport) return Failure(transport.error());
  auto turns = turns_of(options, *identity);
  if (!turns) return Failure(turns.error());
  auto core = std::make_shared<Core>(live_world(), std::move(*transport), std::move(options), std::move(*identity),
                                     std::move(*connect), std::move(*turns));
  std::promise<Result<void>> started;
  core->start([&](Result<void> result) { started.set_value(std::move(result)); });
  if (auto result = started.get_future().get(); !result) return Failure(result.error());
  return std::make_unique<LiveClient>(std::move(core), std::move(*memory));
}

}  // namespace tutti
