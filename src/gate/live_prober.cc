// SPDX-License-Identifier: Apache-2.0
#include "gate/live_prober.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "base/prng.h"
#include "net/socket.h"

namespace tutti::gate {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = ".tutti-probe-";

Failure io_error(const std::string& what) {
  return fail(ErrorCode::kIo, fmt::format("{}: {}", what, std::strerror(errno)), errno);
}

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  std::string text(name);
  std::replace(text.begin(), text.end(), '/', '_');
  return text;
}

std::uint64_t random_seed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

// New random data each time, because file systems may compress or deduplicate.
std::vector<std::byte> dummy_data(Bytes size) {
  std::vector<std::byte> data(size.count());
  Prng prng(random_seed());
  for (std::size_t i = 0; i < data.size(); i += 8) {
    const std::uint64_t value = prng();
    std::memcpy(data.data() + i, &value, std::min<std::size_t>(8, data.size() - i));
  }
  return data;
}

Result<void> write_all(int file, std::span<const std::byte> data, std::uint64_t offset) {
  while (!data.empty()) {
    const ssize_t count = pwrite(file, data.data(), data.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return io_error("cannot write probe data");
    data = data.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

Result<net::Socket> open_probe_file(const std::string& directory) {
  net::Socket nameless(open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (nameless.file() >= 0) return nameless;
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOTSUP && errno != EINVAL)
    return io_error(fmt::format("cannot make a probe file in {}", directory));
  remove_stale_probe_files(directory);
  const std::string path = fmt::format("{}/{}{}-{}-{:016x}", directory, kPrefix, host_name(), getpid(), random_seed());
  net::Socket named(open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
  if (named.file() < 0) return io_error(fmt::format("cannot make a probe file in {}", directory));
  unlink(path.c_str());
  return named;
}

std::string directory_of_target(std::string pattern, std::uint32_t target) {
  const std::string number = std::to_string(target);
  for (std::size_t at = pattern.find("%t"); at != std::string::npos; at = pattern.find("%t", at + number.size()))
    pattern.replace(at, 2, number);
  return pattern;
}

// writeDummyDataToFile() of algorithm 1: the time to create, write, flush and close a file.
Result<Duration> write_dummy(const std::string& directory, std::span<const std::byte> data) {
  const auto start = std::chrono::steady_clock::now();
  {
    auto file = open_probe_file(directory);
    if (!file) return Failure(file.error());
    if (auto written = write_all(file->file(), data, 0); !written) return Failure(written.error());
    if (fdatasync(file->file()) != 0) return io_error("cannot flush probe data");
  }
  return std::chrono::steady_clock::now() - start;
}

using WriteStep = std::function<Result<std::optional<Duration>>(const Backoff::Write&)>;

struct ProbeSetup {
  const ProberOptions& options;
  BackoffOptions backoff;
  CalibrationStore store;
};

// Runs the steps of Backoff. An empty result of `write` means that there is no more data, which ends the probing.
Result<ProbeReport> run(ProbeSetup setup, const WriteStep& write) {
  const ProberOptions& options = setup.options;
  const TimePoint now = std::chrono::system_clock::now();
  const double threshold = options.threshold > 0 ? options.threshold : setup.store.load().threshold(now);
  Backoff backoff(setup.backoff, threshold, options.seed != 0 ? options.seed : random_seed());
  const auto report = [&](bool quiet) {
    return ProbeReport{quiet, backoff.rate(), threshold, backoff.rounds(), backoff.written()};
  };
  while (true) {
    const Backoff::Step step = backoff.next();
    if (const auto* wanted = std::get_if<Backoff::Write>(&step)) {
      const auto took = write(*wanted);
      if (!took) return Failure(took.error());
      if (!*took) return report(backoff.rate() >= threshold);
      backoff.wrote(**took);
      continue;
    }
    if (const auto* sleep = std::get_if<Backoff::Sleep>(&step)) {
      if (sleep->backing_off) setup.store.observe(backoff.rate(), now);
      options.sleep ? options.sleep(sleep->time) : std::this_thread::sleep_for(sleep->time);
      continue;
    }
    setup.store.observe(backoff.rate(), now);
    return report(std::get<Backoff::Proceed>(step).quiet);
  }
}

}  // namespace

Result<ProbeReport> probe(const ProberOptions& options) {
  std::vector<std::string> directories;
  const bool per_target = options.directory.find("%t") != std::string::npos;
  if (per_target)
    for (std::uint32_t target : options.targets) directories.push_back(directory_of_target(options.directory, target));
  if (directories.empty()) directories.push_back(directory_of_target(options.directory, 0));
  BackoffOptions backoff = options.backoff;
  backoff.targets = static_cast<std::uint32_t>(directories.size());
  const std::vector<std::byte> data = dummy_data(std::max(backoff.data_size, backoff.priming));
  CalibrationStore store(options.state_directory, {directories.front(), backoff.data_size, false});
  return run({options, backoff, std::move(store)},
             [&](const Backoff::Write& wanted) -> Result<std::optional<Duration>> {
               auto took = write_dummy(directories[wanted.target], std::span(data).first(wanted.bytes.count()));
               if (!took) return Failure(took.error());
               return *took;
             });
}

Result<ProbeReport> probe_with(const RealData& real, const ProberOptions& options) {
  BackoffOptions backoff = options.backoff;
  backoff.targets = 1;
  backoff.priming = Bytes(0);
  backoff.probes = 1;
  std::size_t written = 0;
  // Any path identifies the file system, so the path of the open file is enough.
  CalibrationStore store(options.state_directory,
                         {fmt::format("/proc/self/fd/{}", real.file), backoff.data_size, true});
  auto report =
      run({options, backoff, std::move(store)}, [&](const Backoff::Write& wanted) -> Result<std::optional<Duration>> {
        const std::size_t size = wanted.bytes.count();
        if (real.data.size() - written < size) return std::nullopt;
        const auto start = std::chrono::steady_clock::now();
        if (auto done = write_all(real.file, real.data.subspan(written, size), real.offset + written); !done)
          return Failure(done.error());
        if (fdatasync(real.file) != 0 && errno != EINVAL) return io_error("cannot flush the first part of the data");
        written += size;
        return std::chrono::steady_clock::now() - start;
      });
  if (report) report->written = Bytes(written);
  return report;
}

Result<ProbeReport> probe_through(const ProbeWrite& write, const ProberOptions& options) {
  CalibrationStore store(options.state_directory, {options.directory, options.backoff.data_size, false});
  return run({options, options.backoff, std::move(store)},
             [&](const Backoff::Write& wanted) -> Result<std::optional<Duration>> {
               const auto start = std::chrono::steady_clock::now();
               if (auto written = write(wanted); !written) return Failure(written.error());
               return std::chrono::steady_clock::now() - start;
             });
}

std::size_t remove_stale_probe_files(const std::string& directory) {
  std::size_t removed = 0;
  const std::string mine = std::string(kPrefix) + host_name() + "-";
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(mine)) continue;
    const int process = std::atoi(name.c_str() + mine.size());
    if (process <= 0 || kill(process, 0) == 0 || errno != ESRCH) continue;
    removed += fs::remove(it->path(), error) ? 1 : 0;
  }
  return removed;
}

CalibrationStore::CalibrationStore(const std::string& directory, const Subject& subject) {
  struct statfs facts {};
  if (directory.empty() || statfs(subject.path.c_str(), &facts) != 0) return;
  std::uint64_t number = 0;
  std::memcpy(&number, &facts.f_fsid, std::min(sizeof(number), sizeof(facts.f_fsid)));
  std::error_code ignored;
  fs::create_directories(directory, ignored);
  file_ = fmt::format("{}/probe-{:x}-{:x}-{}{}", directory, static_cast<std::uint64_t>(facts.f_type), number,
                      subject.data_size.count(), subject.real_data ? "-data" : "");
}

Calibration CalibrationStore::load() const {
  if (file_.empty()) return {};
  std::ifstream file(file_);
  std::ostringstream text;
  text << file.rdbuf();
  return Calibration::parse(text.str());
}

void CalibrationStore::observe(double rate, TimePoint now) {
  if (file_.empty()) return;
  Calibration calibration = load();
  calibration.observe(rate, now);
  // Two probers at the same time may lose one observation, but never the file.
  const std::string temporary = fmt::format("{}.{}", file_, getpid());
  {
    std::ofstream file(temporary, std::ios::trunc);
    file << calibration.text();
    if (!file.flush()) return void(unlink(temporary.c_str()));
  }
  if (rename(temporary.c_str(), file_.c_str()) != 0) unlink(temporary.c_str());
}

std::string default_state_directory() {
  const auto set = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value ? value : "";
  };
  if (const std::string own = set("TUTTI_STATE_DIR"); !own.empty()) return own;
  if (const std::string state = set("XDG_STATE_HOME"); !state.empty()) return state + "/tutti";
  if (const std::string home = set("HOME"); !home.empty()) return home + "/.local/state/tutti";
  return "";
}

}  // namespace tutti::gate
