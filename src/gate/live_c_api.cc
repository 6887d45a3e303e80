// SPDX-License-Identifier: Apache-2.0
// Implements include/tutti/gate.h with one Coordinator per process.
#include <fmt/core.h>
#include <pthread.h>
#include <sys/stat.h>
#include <tutti/gate.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <memory>

#include "base/mutex.h"
#include "base/print_error.h"
#include "gate/live_coordinator.h"

namespace tutti::gate {
namespace {

// Never destroyed: threads may be in a call when the process exits. The gate notices the closed connection.
struct ProcessState {
  Mutex mutex;
  std::unique_ptr<Coordinator> coordinator;
  std::atomic<int> depth{0};  // calls of begin minus calls of end
};

std::atomic<ProcessState*> current{nullptr};

// For the gate, the child is another job. The child has none of the parent's other threads, and mutexes may be locked.
// So only the connection is closed: if the child kept its copy open, the gate would not notice the parent's death.
void in_child() {
  ProcessState* old = current.exchange(new ProcessState);
  if (old && old->coordinator && old->coordinator->client()) old->coordinator->client()->abandon_after_fork();
}

ProcessState& process() {
  static const bool once = [] {
    current = new ProcessState;
    pthread_atfork(nullptr, nullptr, in_child);
    return true;
  }();
  (void)once;
  return *current;
}

void say(const std::string& line) {
  print_error("tutti: {}\n", line);
}

Result<CoordinatorOptions> settings() {
  auto options = CoordinatorOptions::from_environment();
  if (!options) {
    say(options.error().message);
    return options;
  }
  options->client.say = say;
  return options;
}

Coordinator* coordinator(ProcessState& process) {
  Lock guard(process.mutex);
  if (process.coordinator) return process.coordinator.get();
  auto options = settings();
  if (!options) return nullptr;
  auto made = Coordinator::create(std::move(*options));
  if (!made) {
    say(made.error().message);
    return nullptr;
  }
  process.coordinator = std::move(*made);
  return process.coordinator.get();
}

int as_answer(bool turn) {
  return turn ? TUTTI_TURN : TUTTI_WENT_AHEAD;
}
int as_errno(const Error& error) {
  return -(error.system != 0 ? error.system : EIO);
}

}  // namespace
}  // namespace tutti::gate

using namespace tutti;
using namespace tutti::gate;

int tutti_phase_begin(const char* targets, uint64_t bytes) try {
  const auto list = TargetList::parse(targets && *targets ? targets : "*");
  if (!list) {
    say(list.error().message);
    return -EINVAL;
  }
  ProcessState& mine = process();
  Coordinator* const turns = coordinator(mine);
  if (!turns) return -EINVAL;
  const TurnResult turn = turns->begin(*list, Bytes(bytes));
  ++mine.depth;
  return as_answer(turn.outcome == GateOutcome::kGranted || (turn.probe && turn.probe->quiet));
} catch (...) {  // out of memory or threads: the I/O phase still proceeds
  return TUTTI_WENT_AHEAD;
}

int tutti_phase_end(void) try {
  ProcessState& mine = process();
  int depth = mine.depth;
  while (depth > 0 && !mine.depth.compare_exchange_weak(depth, depth - 1)) continue;
  if (depth <= 0) return -EINVAL;
  if (Coordinator* turns = coordinator(mine)) turns->end();
  return 0;
} catch (...) {
  return 0;
}

int tutti_phase_holds(void) {
  ProcessState& mine = process();
  Coordinator* const turns = mine.depth > 0 ? coordinator(mine) : nullptr;
  return turns && turns->holds() ? 1 : 0;
}

int tutti_probe(const char* path) try {
  if (!path) return -EINVAL;
  auto options = settings();
  if (!options) return -EINVAL;
  std::error_code ignored;
  std::filesystem::path directory(path);
  if (!std::filesystem::is_directory(directory, ignored)) directory = directory.parent_path();
  options->prober.directory = directory.empty() ? "." : directory.string();
  const auto report = probe(options->prober);
  return report ? as_answer(report->quiet) : as_errno(report.error());
} catch (...) {
  return TUTTI_WENT_AHEAD;
}

ssize_t tutti_probe_data(int file, const void* data, size_t size, off_t offset) try {
  if (!data || offset < 0) return -EINVAL;
  auto options = settings();
  if (!options) return -EINVAL;
  const RealData real{file, static_cast<std::uint64_t>(offset), {static_cast<const std::byte*>(data), size}};
  const auto report = probe_with(real, options->prober);
  return report ? static_cast<ssize_t>(report->written.count()) : as_errno(report.error());
} catch (...) {
  return -ENOMEM;
}
