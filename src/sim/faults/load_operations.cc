// SPDX-License-Identifier: Apache-2.0
// The operations of a LoadClient.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "sim/faults/load_client.h"

namespace tutti::sim {
namespace {

constexpr std::uint64_t kBlock = Inode::kBlock;

// Adjoining blocks are one part.
template <typename Part, typename Memory>
std::vector<Part> parts_of(const std::vector<std::uint64_t>& blocks, Memory memory) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < blocks.size();) {
    std::size_t count = 1;
    while (i + count < blocks.size() && blocks[i + count] == blocks[i] + count) ++count;
    parts.push_back({blocks[i] * kBlock, memory.subspan(i * kBlock, count * kBlock)});
    i += count;
  }
  return parts;
}

bool is(const Error& error, int system) {
  return error.system == system;
}

}  // namespace

// ---- data ----

void LoadClient::open_shared(std::size_t thread, std::size_t file) {
  const auto operation = begin(LoadKind::kOpen, thread);
  async().open(fmt::format("shared{}", file), {.write = true},
               when_done<std::shared_ptr<OpenFile>>(operation, [this, file](Result<std::shared_ptr<OpenFile>>& opened) {
                 if (opened) shared_[file] = FileHandle{*opened, ++state_.last_handle};
               }));
}

// Opens a named file of any thread.
void LoadClient::open_extra(std::size_t thread) {
  const std::size_t name = state_.chance.below(state_.plan.clients * state_.plan.threads * 2);
  const auto operation = begin(LoadKind::kOpen, thread);
  async().open(state_.names.path(name), {.write = true},
               when_done<std::shared_ptr<OpenFile>>(
                   operation, [this, thread, name, operation](Result<std::shared_ptr<OpenFile>>& opened) {
                     if (!opened && !is(opened.error(), ENOENT)) return;
                     const std::uint64_t content = opened ? (*opened)->opened().generation : NameModel::kAbsent;
                     state_.names.observed(name, content, {operation->begin, now()});
                     if (opened) threads_[thread].extra = FileHandle{*opened, ++state_.last_handle};
                   }));
}

void LoadClient::drop_stale(std::size_t thread, const Error& error) {
  if (thread < threads_.size() && (is(error, ESTALE) || is(error, ENOENT))) threads_[thread].extra.reset();
}

void LoadClient::write(std::size_t thread, const FileHandle& handle, const std::vector<std::uint64_t>& blocks,
                       LoadKind kind) {
  const auto operation = begin(kind, thread);
  operation->memory.resize(blocks.size() * kBlock);
  const auto parts = parts_of<WritePart>(blocks, std::span<const std::byte>(operation->memory));
  const std::uint64_t number = state_.history.write_begins(handle.file->opened().generation, handle.number, blocks);
  History::fill(operation->memory, number);
  note(*operation, handle, blocks, number);
  operation->unknown = [this, number] { state_.history.ended(number, Known::kUnknown, state_.latest_effect()); };
  handle.file->write(parts,
                     when_done<std::size_t>(operation, [this, thread, number, operation](Result<std::size_t>& done) {
                       if (!done) return drop_stale(thread, done.error());
                       state_.history.ended(number, Known::kDone, now());
                       if (*done != operation->memory.size())
                         state_.violation(fmt::format("write {} returned {} bytes", number, *done));
                     }));
}

void LoadClient::read(std::size_t thread, const FileHandle& handle, std::vector<std::uint64_t> blocks, LoadKind kind) {
  const auto operation = begin(kind, thread);
  operation->memory.resize(blocks.size() * kBlock);
  operation->blocks = std::move(blocks);
  History::clear(operation->memory);
  note(*operation, handle, operation->blocks);
  const auto parts = parts_of<ReadPart>(operation->blocks, std::span<std::byte>(operation->memory));
  const std::uint64_t file = handle.file->opened().generation;
  handle.file->read(
      parts, when_done<std::size_t>(operation, [this, thread, file, operation](Result<std::size_t>& done) {
        if (!done) return drop_stale(thread, done.error());
        const std::span<const std::byte> memory(operation->memory);
        for (std::size_t i = 0; i < operation->blocks.size(); ++i)
          state_.history.read(file, operation->blocks[i], memory.subspan(i * kBlock, kBlock), operation->begin);
      }));
}

void LoadClient::sync(std::size_t thread, const FileHandle& handle) {
  const auto operation = begin(LoadKind::kSync, thread);
  note(*operation, handle, {});
  handle.file->fsync(
      state_.chance.chance(0.5),
      when_done<std::size_t>(operation, [this, thread, handle = handle.number, operation](Result<std::size_t>& done) {
        if (done) return state_.history.synced(handle, operation->begin);
        state_.history.sync_failed(handle, operation->begin);
        drop_stale(thread, done.error());
      }));
}

void LoadClient::truncate(std::size_t thread, const FileHandle& handle) {
  const auto operation = begin(LoadKind::kTruncate, thread);
  const std::uint64_t size = state_.chance.below(state_.plan.blocks + 1);
  note(*operation, handle, {size});
  const std::uint64_t number = state_.history.truncate_begins(handle.file->opened().generation, size);
  operation->unknown = [this, number] { state_.history.ended(number, Known::kUnknown, state_.latest_effect()); };
  handle.file->truncate(size * kBlock, when_done<void>(operation, [this, thread, number](Result<void>& done) {
                          if (!done) return drop_stale(thread, done.error());
                          state_.history.ended(number, Known::kDone, now());
                        }));
}

// ---- names ----

void LoadClient::step_names(std::size_t thread, LoadKind kind) {
  const auto& own = threads_[thread].names;
  const std::size_t name = own[state_.chance.below(own.size())];
  const std::size_t other = name == own[0] ? own[1] : own[0];
  NameModel& names = state_.names;
  for (const std::size_t each : {name, other})
    if (!names.content(each)) {
      if (names.settles_at(each) < now()) return look_up(thread, each, true);
      kind = LoadKind::kLookUp;
    }
  if (kind == LoadKind::kLookUp) {
    const std::size_t any = state_.chance.below(state_.plan.clients * state_.plan.threads * own.size());
    return look_up(thread, any, false);
  }
  if (names.content(name) == NameModel::kAbsent || kind == LoadKind::kCreate) return create(thread, name);
  if (kind == LoadKind::kRecreate) return recreate(thread, name);
  if (kind == LoadKind::kRename) return rename(thread, name, other);
  unlink(thread, name);
}

// Creates the file, or finds that it exists.
void LoadClient::create(std::size_t thread, std::size_t name) {
  const auto operation = begin(LoadKind::kCreate, thread);
  const bool exists = state_.names.content(name) != NameModel::kAbsent;
  operation->unknown = [this, name, begin = now()] {
    state_.names.may_have_changed(name, NameModel::kNew, {begin, state_.latest_effect()});
  };
  async().open(state_.names.path(name), {.write = true, .create = true, .exclusive = true},
               when_done<std::shared_ptr<OpenFile>>(
                   operation, [this, thread, name, exists, operation](Result<std::shared_ptr<OpenFile>>& opened) {
                     if (opened) {
                       state_.names.changed(name, (*opened)->opened().generation, {operation->begin, now()});
                       // Else the thread continues with a file that has been removed.
                       if (!threads_[thread].extra || state_.chance.chance(0.5))
                         threads_[thread].extra = FileHandle{*opened, ++state_.last_handle};
                       if (exists) state_.violation("an exclusive create replaced " + state_.names.path(name));
                     } else if (is(opened.error(), EEXIST)) {
                       operation->unknown = nullptr;
                       if (!exists)
                         state_.violation("a create failed although there was no " + state_.names.path(name));
                     }
                   }));
}

// Opens an existing file with create and truncate.
void LoadClient::recreate(std::size_t thread, std::size_t name) {
  const auto operation = begin(LoadKind::kRecreate, thread);
  const std::uint64_t file = *state_.names.content(name);
  const std::uint64_t number = state_.history.truncate_begins(file, 0);
  operation->unknown = [this, name, number, begin = now()] {
    state_.history.ended(number, Known::kUnknown, state_.latest_effect());
    state_.names.may_have_changed(name, NameModel::kNew, {begin, state_.latest_effect()});
  };
  async().open(state_.names.path(name), {.write = true, .create = true, .truncate = true},
               when_done<std::shared_ptr<OpenFile>>(
                   operation, [this, thread, name, number, file](Result<std::shared_ptr<OpenFile>>& opened) {
                     if (!opened) return;
                     state_.history.ended(number, Known::kDone, now());
                     if ((*opened)->opened().generation != file)
                       state_.violation(fmt::format("{} is file {} and not {}", state_.names.path(name),
                                                    (*opened)->opened().generation, file));
                     threads_[thread].extra = FileHandle{*opened, ++state_.last_handle};
                   }));
}

void LoadClient::rename(std::size_t thread, std::size_t from, std::size_t to) {
  const auto operation = begin(LoadKind::kRename, thread);
  const std::uint64_t file = *state_.names.content(from);
  operation->unknown = [this, from, to, file, begin = now()] {
    const NameModel::When when{begin, state_.latest_effect()};
    state_.names.may_have_changed(from, NameModel::kAbsent, when);
    state_.names.may_have_changed(to, file, when);
  };
  async().rename(state_.names.path(from), state_.names.path(to), 0,
                 when_done<void>(operation, [this, from, to, file, operation](Result<void>& done) {
                   if (done) {
                     state_.names.changed(from, NameModel::kAbsent, {operation->begin, now()});
                     state_.names.changed(to, file, {operation->begin, now()});
                   } else if (is(done.error(), ENOENT)) {
                     state_.violation("a rename did not find " + state_.names.path(from));
                   }
                 }));
}

void LoadClient::unlink(std::size_t thread, std::size_t name) {
  const auto operation = begin(LoadKind::kUnlink, thread);
  operation->unknown = [this, name, begin = now()] {
    state_.names.may_have_changed(name, NameModel::kAbsent, {begin, state_.latest_effect()});
  };
  async().unlink(state_.names.path(name), when_done<void>(operation, [this, name, operation](Result<void>& done) {
                   if (done)
                     state_.names.changed(name, NameModel::kAbsent, {operation->begin, now()});
                   else if (is(done.error(), ENOENT))
                     state_.violation("an unlink did not find " + state_.names.path(name));
                 }));
}

// `own`: the owner settles what is not known.
void LoadClient::look_up(std::size_t thread, std::size_t name, bool own) {
  const auto operation = begin(LoadKind::kLookUp, thread);
  async().status(state_.names.path(name), true,
                 when_done<FileStatus>(operation, [this, name, own, operation](Result<FileStatus>& status) {
                   if (!status && !is(status.error(), ENOENT)) return;
                   const std::uint64_t content = status ? status->generation : NameModel::kAbsent;
                   const NameModel::When when{operation->begin, now()};
                   if (!own) {
                     state_.names.observed(name, content, when);
                   } else if (auto wrong = state_.names.found(name, content, when)) {
                     state_.violation(*wrong);
                   }
                   if (!status) status = FileStatus{};  // it succeeded: there is no file
                 }));
}

// ---- control ----

void LoadClient::switch_policy(std::size_t thread) {
  const auto operation = begin(LoadKind::kSwitchPolicy, thread);
  const wire::PolicySetRequest request{.policy = kFaultPolicies[state_.chance.below(kFaultPolicies.size())]};
  async().core().ask_node(request, Retry::kNever, state_.chance.below(state_.plan.nodes),
                          when_done<wire::PolicySetRequest::Reply>(operation, [](auto&) {}));
}

// ---- after the load ----

void LoadClient::check_open(std::size_t file) {
  open_shared(threads_.size(), file);
}

void LoadClient::check_write(std::size_t file) {
  write(threads_.size(), *shared_[file], {index_ % state_.plan.blocks}, LoadKind::kWrite);
}

void LoadClient::check_sync(std::size_t file) {
  sync(threads_.size(), *shared_[file]);
}

void LoadClient::check_read(std::size_t file) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t block = 0; block < state_.plan.blocks; ++block) all.push_back(block);
  read(threads_.size(), *shared_[file], std::move(all), LoadKind::kRead);
}

void LoadClient::check_turn() {
  checking_ = true;
  take_turn();
}

void LoadClient::check_name(std::size_t name) {
  look_up(threads_.size(), name, !state_.names.content(name));
}

void LoadClient::close_files() {
  for (auto& file : shared_) file.reset();
  for (LoadThread& thread : threads_) thread.extra.reset();
}

}  // namespace tutti::sim
