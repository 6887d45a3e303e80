// SPDX-License-Identifier: Apache-2.0
#include "mpi/interpose/file.h"

#include <fmt/core.h>
#include <pthread.h>

#include <cerrno>
#include <cstdlib>

#include "base/live_world.h"
#include "base/print_error.h"
#include "job/live.h"

namespace tutti::mpi {
namespace {

std::atomic<JobTurns*> turns_of_process{nullptr};

// The gate's connection belongs to the parent. Children of MPI programs do not use MPI.
void in_child() {
  if (JobTurns* turns = turns_of_process.exchange(nullptr)) turns->abandon_after_fork();
}

}  // namespace

Process& Process::current() {
  static auto* const process = new Process;
  return *process;
}

std::shared_ptr<OpenFile> Process::find(MPI_File file) {
  if (open_.load(std::memory_order_relaxed) == 0) return nullptr;
  Lock lock(mutex_);
  const auto found = files_.find(file);
  return found == files_.end() ? nullptr : found->second;
}

void Process::add(MPI_File file, std::shared_ptr<OpenFile> open) {
  Lock lock(mutex_);
  files_[file] = std::move(open);
  open_ = files_.size();
}

void Process::remove(MPI_File file) {
  Lock lock(mutex_);
  files_.erase(file);
  open_ = files_.size();
}

Process::Application Process::application(std::optional<std::uint64_t> hint) {
  const auto identity = job::identify_process({});
  Application made{0, identity ? identity->name : std::string()};
  if (!identity) say_once(identity.error().message);
  Lock lock(mutex_);
  if (hint)
    application_ = hint;
  else if (!application_ && identity && identity->numbered)
    application_ = identity->number;
  else if (!application_)
    application_ = live_world().random() % 32768;  // as in the SC11 paper, section 4.2
  made.number = *application_;
  return made;
}

void Process::adopt(std::uint64_t number) {
  Lock lock(mutex_);
  application_ = number;
}

JobTurns* Process::turns(const Application& application) {
  Lock lock(mutex_);
  if (turns_made_) return turns_.get();
  turns_made_ = true;
  auto options = turn_options(application.number, application.name);
  if (!options) {
    print_error("tutti: {}; continuing without turns\n", options.error().message);
    return nullptr;
  }
  if (!*options) return nullptr;
  turns_ = std::make_unique<JobTurns>(live_world(), std::move(**options));
  turns_of_process = turns_.get();
  pthread_atfork(nullptr, nullptr, in_child);
  return turns_.get();
}

JobTurns* Process::turns() {
  Lock lock(mutex_);
  return turns_.get();
}

void Process::end_turns() {
  std::unique_ptr<JobTurns> turns;
  {
    Lock lock(mutex_);
    turns = std::move(turns_);
    turns_of_process = nullptr;
  }
}

namespace {

// The application's number is the same on all ranks, also if the environment of this one says another.
Result<ClientOptions> client_options(const std::string& cluster_file, std::uint64_t number, const Settings& settings) {
  auto cluster = load_cluster(cluster_file);
  if (!cluster) return Failure(cluster.error());
  const auto identity = job::identify_process({.order_ids = cluster->order_ids});
  if (!identity) return Failure(identity.error());
  ClientOptions options{.cluster = std::move(*cluster)};
  if (!identity->numbered || identity->number != number) {
    options.application = static_cast<ApplicationId>(number);
    options.application_is_job = settings.application.has_value();
    options.processes = identity->processes;
    if (const char* order = std::getenv("TUTTI_ORDER"); order && *order) options.order = identity->order;
  }
  options.gate = "off";  // JobTurns asks for turns
  options.phase_gap = settings.gap;
  options.give_up = settings.give_up;
  return options;
}

}  // namespace

Result<std::shared_ptr<Client>> Process::client(const std::string& cluster_file, const Settings& settings) {
  Lock connecting(connecting_);
  std::uint64_t number = 0;
  {
    Lock lock(mutex_);
    number = application_.value_or(0);
  }
  auto& known = clients_[{cluster_file, number}];
  if (known) return known;
  auto options = client_options(cluster_file, number, settings);
  if (!options) return Failure(options.error());
  auto client = Client::connect(std::move(*options));
  if (!client) return Failure(client.error());
  known = std::move(*client);
  return known;
}

void Process::disconnect() {
  Lock connecting(connecting_);
  clients_.clear();
}

void Process::say_once(const std::string& line) {
  Lock lock(mutex_);
  if (said_.size() < 64 && said_.insert(line).second) print_error("tutti: {}\n", line);
}

void Process::count(const FileCounters& counters, std::uint64_t ranks) {
  Lock lock(mutex_);
  total_.add(counters);
  ranks_ = std::max(ranks_, ranks);
}

std::string Process::report() {
  Lock lock(mutex_);
  return ranks_ == 0 ? std::string() : describe(total_, ranks_);
}

std::int64_t agree(const OpenFile& file, std::int64_t mine) {
  return agree(file, Agreement{.code = mine}).code;
}

Agreement agree(const OpenFile& file, const Agreement& mine) {
  // A severity that grows: fine, fall back, error classes.
  const std::int64_t severity = mine.code == kFine ? 0 : mine.code == kFallBack ? 1 : mine.code + 1;
  const std::int64_t local[4] = {severity, -mine.value, mine.all, mine.io};
  std::int64_t most[4] = {severity, -mine.value, mine.all, mine.io};
  PMPI_Allreduce(local, most, 4, MPI_INT64_T, MPI_MAX, file.comm);
  return {most[0] == 0 ? kFine : most[0] == 1 ? kFallBack : most[0] - 1, -most[1], most[2], most[3]};
}

int raise_error(MPI_File file, int error_class) {
  if (file != MPI_FILE_NULL) {
    PMPI_File_call_errhandler(file, error_class);
    return error_class;
  }
  // Open MPI does not call the handler of MPI_FILE_NULL for others. Its default returns the error.
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  PMPI_File_get_errhandler(MPI_FILE_NULL, &handler);
  if (handler == MPI_ERRORS_ARE_FATAL) PMPI_Abort(MPI_COMM_WORLD, error_class);  // as the program asked
  if (handler != MPI_ERRHANDLER_NULL) PMPI_Errhandler_free(&handler);
  return error_class;
}

int error_class_of(const Error& error) {
  switch (error.system) {
    case ENOSPC:
      return MPI_ERR_NO_SPACE;
    case EDQUOT:
      return MPI_ERR_QUOTA;
    case EACCES:
    case EPERM:
      return MPI_ERR_ACCESS;
    case EROFS:
      return MPI_ERR_READ_ONLY;
    default:
      return MPI_ERR_IO;
  }
}

namespace {

void wait_for_turn(OpenFile& file, Bytes bytes) try {
  const bool whole = file.settings.turn == TurnAt::kOpen;
  if (JobTurns* turns = Process::current().turns())
    turns->begin({&file, &file.layout, bytes, whole ? Duration::max() : file.settings.gap});
} catch (const std::exception& problem) {  // no memory or no thread; the other ranks wait in a barrier
  Process::current().say_once(fmt::format("{}; continuing without a turn", problem.what()));
}

}  // namespace

void begin_turn(OpenFile& file, Bytes bytes) {
  if (!file.turns) return;
  const TimePoint start = live_world().clock().steady();
  if (file.rank == 0) wait_for_turn(file, bytes);
  PMPI_Barrier(file.comm);
  file.counters.turn += static_cast<std::uint64_t>((live_world().clock().steady() - start).count());
}

void end_use(OpenFile& file) {
  if (!file.turns || file.rank != 0) return;
  if (JobTurns* turns = Process::current().turns()) turns->done(&file);
}

}  // namespace tutti::mpi
