// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <list>
#include <mutex>
#include <set>

#include "base/live_world.h"
#include "base/temporary_directory.h"
#include "base/testing.h"
#include "engine/root.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

// A directory that all users may enter and only its owner may write to.
class RootTest : public testing::Test {
 protected:
  void SetUp() override {
    chmod(outside_.c_str(), 0755);
    directory_ = outside_ + "/root";
    fs::create_directory(directory_);
    root_ = std::move(Root::open(directory_, {.max_open_files = 8}).value());
  }

  void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
  static int error_of(const auto& result) { return result ? 0 : result.error().system; }

  const TemporaryDirectory temporary_;
  const std::string outside_ = temporary_.path();
  std::string directory_;
  Root::Caller self_ = std::make_shared<Credentials>(own_credentials());
  Root::Caller other_ = std::make_shared<Credentials>(Credentials{4711, 4711, {}});
  std::unique_ptr<Root> root_;
};

TEST_F(RootTest, NamespaceOperationsActOnTheDirectory) {
  EXPECT_TRUE(root_->make_directory(self_, "d", 0750));
  auto made = root_->create(self_, "d/f", {.mode = 0640, .exclusive = true});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->st_mode & 07777, 0640U);
  EXPECT_EQ(error_of(root_->create(self_, "d/f", {.exclusive = true})), EEXIST);
  EXPECT_TRUE(root_->create(self_, "d/f", {}));
  EXPECT_TRUE(root_->symlink(self_, "d/l", "f"));
  EXPECT_EQ(root_->read_link(self_, "d/l").value(), "f");
  EXPECT_EQ(error_of(root_->read_link(self_, "d/f")), EINVAL);
  EXPECT_TRUE(S_ISLNK(root_->look_up(self_, "d/l", Root::Links::kStop, 0)->st_mode));
  EXPECT_EQ(root_->look_up(self_, "d/l", Root::Links::kFollow, 0)->st_ino, made->st_ino);
  EXPECT_EQ(root_->link(self_, {"d/f", "d/g"})->st_nlink, 2U);
  EXPECT_TRUE(root_->rename(self_, {"d/g", "h"}));
  EXPECT_TRUE(fs::exists(directory_ + "/h"));
  EXPECT_EQ(error_of(root_->remove_directory(self_, "d")), ENOTEMPTY);
  EXPECT_TRUE(root_->sync_directory(self_, "d"));
  EXPECT_TRUE(root_->sync_directory(self_, ""));
  EXPECT_EQ(error_of(root_->sync_directory(self_, "none")), ENOENT);
  EXPECT_EQ(error_of(root_->sync_directory(self_, "h")), ENOTDIR);
  EXPECT_TRUE(root_->unlink(self_, "h"));
  EXPECT_EQ(error_of(root_->unlink(self_, "h")), ENOENT);
  auto changed = root_->change(self_, "d/f", Root::Links::kStop, {.mode = 0600, .modified = timespec{1000, 5}});
  ASSERT_TRUE(changed) << changed.error().message;
  EXPECT_EQ(changed->st_mode & 07777, 0600U);
  EXPECT_EQ(changed->st_mtim.tv_sec, 1000);
  EXPECT_GT(root_->usage()->f_blocks, 0U);
}

TEST_F(RootTest, ListsInParts) {
  for (int i = 0; i < 100; ++i) put(directory_ + "/" + std::to_string(i), "");
  std::vector<std::string> names;
  Root::ListOptions options{.most = 7};
  for (bool end = false; !end;) {
    auto listing = root_->list(self_, "", options);
    ASSERT_TRUE(listing) << listing.error().message;
    for (const Root::Entry& entry : listing->entries) names.push_back(entry.name);
    if (!listing->entries.empty()) options.cursor = listing->entries.back().cursor;
    end = listing->end;
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names.size(), 100U);
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
}

TEST_F(RootTest, ExtendedAttributes) {
  put(directory_ + "/f", "");
  if (auto set = root_->set_attribute(self_, "f", {"user.colour", "green"}); !set && set.error().system == EOPNOTSUPP)
    GTEST_SKIP() << "no user attributes on this file system";
  EXPECT_EQ(root_->get_attribute(self_, "f", "user.colour").value(), "green");
  EXPECT_THAT(root_->list_attributes(self_, "f").value(), ElementsAre("user.colour"));
  EXPECT_TRUE(root_->remove_attribute(self_, "f", "user.colour"));
  EXPECT_EQ(error_of(root_->get_attribute(self_, "f", "user.colour")), ENODATA);
}

TEST_F(RootTest, NoPathLeavesTheDirectory) {
  put(outside_ + "/secret", "secret");
  fs::create_symlink("../secret", directory_ + "/relative");
  fs::create_symlink(outside_ + "/secret", directory_ + "/absolute");
  fs::create_symlink("..", directory_ + "/up");
  fs::create_symlink("/proc/self/fd/0", directory_ + "/magic");
  for (const std::string path : {"relative", "absolute", "up/secret", "../secret", "magic", "/etc/passwd"}) {
    EXPECT_EQ(error_of(root_->open_file(self_, path, Direction::kRead)), EACCES) << path;
    EXPECT_EQ(error_of(root_->look_up(self_, path, Root::Links::kFollow, 0)), EACCES) << path;
    EXPECT_EQ(error_of(root_->create(self_, path, {.truncate = true})), EACCES) << path;
  }
  EXPECT_EQ(error_of(root_->unlink(self_, "up/secret")), EACCES);
  EXPECT_EQ(error_of(root_->rename(self_, {"relative", "up/elsewhere"})), EACCES);
  EXPECT_EQ(fs::file_size(outside_ + "/secret"), 6U);
}

TEST_F(RootTest, OnlyRegularFilesAreOpened) {
  fs::create_directory(directory_ + "/d");
  ASSERT_EQ(mkfifo((directory_ + "/pipe").c_str(), 0666), 0);
  EXPECT_EQ(error_of(root_->open_file(self_, "d", Direction::kRead)), EISDIR);
  EXPECT_EQ(error_of(root_->open_file(self_, "pipe", Direction::kRead)), EINVAL);
  EXPECT_EQ(error_of(root_->open_file(self_, "none", Direction::kRead)), ENOENT);
}

TEST_F(RootTest, HandlesOfOneFileShareADescriptorAndAreBounded) {
  put(directory_ + "/f", "");
  auto first = root_->open_file(self_, "f", Direction::kRead).value();
  auto second = root_->open_file(self_, "f", Direction::kRead).value();
  EXPECT_EQ(first, second);
  std::vector<std::shared_ptr<BackingFile>> held;
  for (int i = 0; i < 7; ++i) {
    put(directory_ + "/" + std::to_string(i), "");
    held.push_back(root_->open_file(self_, std::to_string(i), Direction::kRead).value());
  }
  EXPECT_EQ(root_->open_files(), 8U);
  put(directory_ + "/more", "");
  EXPECT_EQ(error_of(root_->open_file(self_, "more", Direction::kRead)), EMFILE);
  EXPECT_TRUE(root_->open_file(self_, "f", Direction::kRead)) << "open already: takes no more";
  held.pop_back();
  EXPECT_TRUE(root_->open_file(self_, "more", Direction::kRead));
}

TEST(BackingFileChanges, AreSyncedIfNoneBeganThatTheSyncDoesNotCover) {
  BackingFile file({.owner = std::make_shared<const Credentials>()}, {});
  file.changes.begin();
  EXPECT_TRUE(file.changes.in_progress());
  const auto early = file.changes.ended();
  file.changes.end();
  EXPECT_FALSE(file.changes.in_progress());
  const auto late = file.changes.ended();
  file.changes.synced(early);
  EXPECT_FALSE(file.changes.all_synced());
  file.changes.synced(late);
  EXPECT_TRUE(file.changes.all_synced());
  file.changes.synced(early);
  EXPECT_TRUE(file.changes.all_synced()) << "an earlier sync, reported later";
  file.changes.begin();
  EXPECT_FALSE(file.changes.all_synced());
}

// Keeps tasks until the test runs them.
class HeldWorkers final : public Workers {
 public:
  struct OwnedStrand final : Strand {
    Owner owner = kProcess;
  };
  std::shared_ptr<Strand> make_strand(Owner owner) override {
    auto strand = std::make_shared<OwnedStrand>();
    strand->owner = owner;
    return strand;
  }
  void post(const std::shared_ptr<Strand>& strand, Task task) override {
    tasks.emplace_back(static_cast<OwnedStrand&>(*strand).owner, std::move(task));
  }
  void stop() override {}
  std::vector<std::pair<Owner, Task>> tasks;
};

// The last close of a file without a name frees its blocks, which takes long. The thread that drops the file serves
// other users.
TEST_F(RootTest, AFileWithoutANameIsClosedByAWorkerOfItsUser) {
  HeldWorkers workers;
  auto root = Root::open(directory_, {.workers = &workers}).value();
  put(directory_ + "/f", "content");
  auto file = root->open_file(self_, "f", Direction::kRead).value();
  if (!file->local()) GTEST_SKIP() << "all files are closed by workers on this file system";
  const std::string descriptor = "/proc/self/fd/" + std::to_string(file->descriptor());
  file.reset();
  EXPECT_FALSE(fs::exists(fs::symlink_status(descriptor)));
  EXPECT_TRUE(workers.tasks.empty()) << "it has a name";
  file = root->open_file(self_, "f", Direction::kRead).value();
  ASSERT_TRUE(root->unlink(self_, "f"));
  file.reset();
  EXPECT_TRUE(fs::exists(fs::symlink_status(descriptor)));
  ASSERT_EQ(workers.tasks.size(), 1u);
  EXPECT_EQ(workers.tasks[0].first, self_->uid);
  workers.tasks[0].second();
  EXPECT_FALSE(fs::exists(fs::symlink_status(descriptor)));
}

// As tests/e2e/hanging_mount.sh, without a mount: a pipe is on no local file system.
TEST_F(RootTest, AFileThatIsNotLocalIsClosedByAWorkerOfItsUser) {
  HeldWorkers workers;
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  std::make_shared<BackingFile>(BackingFileKey{.writable = true, .owner = other_}, BackingFile::Descriptors{ends[1]},
                                &workers)
      .reset();
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), -1) << "it is still open";
  ASSERT_EQ(workers.tasks.size(), 1u);
  EXPECT_EQ(workers.tasks[0].first, other_->uid);
  workers.tasks[0].second();
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  close(ends[0]);
}

TEST_F(RootTest, CallersHaveTheirOwnRightsOnly) {
  TUTTI_NEEDS(geteuid() == 0, "root: it acts for other users");
  chmod(directory_.c_str(), 0755);
  put(directory_ + "/private", "private");
  chmod((directory_ + "/private").c_str(), 0600);
  put(directory_ + "/public", "public");
  chmod((directory_ + "/public").c_str(), 0644);
  EXPECT_EQ(error_of(root_->open_file(other_, "private", Direction::kRead)), EACCES);
  EXPECT_EQ(error_of(root_->look_up(other_, "private", Root::Links::kFollow, R_OK)), EACCES);
  auto reading = root_->open_file(other_, "public", Direction::kRead);
  ASSERT_TRUE(reading);
  EXPECT_FALSE((*reading)->writable());
  EXPECT_EQ(error_of(root_->open_file(other_, "public", Direction::kWrite)), EACCES);
  EXPECT_EQ(error_of(root_->reopen(**reading, Direction::kWrite)), EACCES);
  EXPECT_EQ(error_of(root_->create(other_, "mine", {})), EACCES);
  EXPECT_EQ(error_of(root_->change(other_, "public", Root::Links::kStop, {.mode = 0777})), EPERM);
  chmod(directory_.c_str(), 0777);
  EXPECT_EQ(root_->create(other_, "mine", {})->st_uid, 4711U);
  const std::string capabilities = std::string("\0\0\0\2", 4) + std::string(16, '\1');  // as setcap writes them
  EXPECT_EQ(error_of(root_->set_attribute(other_, "mine", {"security.capability", capabilities})), EPERM);
  EXPECT_EQ(error_of(root_->set_attribute(other_, "mine", {"trusted.x", "1"})), EPERM);
  EXPECT_TRUE(root_->look_up(self_, "private", Root::Links::kFollow, R_OK)) << "and this thread has its own back";
  chmod((directory_ + "/private").c_str(), 0640);
  ASSERT_EQ(chown((directory_ + "/private").c_str(), 0, 99), 0);
  const auto member = std::make_shared<Credentials>(Credentials{4711, 4711, {99}});
  EXPECT_TRUE(root_->open_file(member, "private", Direction::kRead)) << "by a supplementary group";
  EXPECT_EQ(error_of(root_->open_file(other_, "private", Direction::kRead)), EACCES);
}

TEST_F(RootTest, ADirectoryThatCannotBeReadCanBeSynced) {
  TUTTI_NEEDS(geteuid() == 0, "root: it acts for other users");
  fs::create_directory(directory_ + "/drop");
  ASSERT_EQ(chmod((directory_ + "/drop").c_str(), 0333), 0);
  EXPECT_TRUE(root_->create(other_, "drop/f", {}));
  EXPECT_EQ(error_of(root_->list(other_, "drop", {})), EACCES);
  EXPECT_TRUE(root_->sync_directory(other_, "drop"));
}

TEST_F(RootTest, TheOwnerOfAFileMayWriteButNotReadAgainstItsMode) {
  TUTTI_NEEDS(geteuid() == 0, "root: it acts for other users");
  chmod(directory_.c_str(), 0777);
  ASSERT_TRUE(root_->create(other_, "sealed", {.mode = 0444}));
  auto opened = root_->open_file(other_, "sealed", Direction::kWrite);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_TRUE((*opened)->writable());
  ASSERT_EQ(chmod((directory_ + "/sealed").c_str(), 0000), 0);
  EXPECT_EQ(error_of(root_->open_file(other_, "sealed", Direction::kRead)), EACCES);
  opened = root_->open_file(other_, "sealed", Direction::kWrite);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_FALSE((*opened)->readable());
  char byte = 0;
  EXPECT_EQ(pread((*opened)->descriptor(), &byte, 1, 0), -1) << "not even by mistake";
  EXPECT_EQ(error_of(root_->reopen(**opened, Direction::kRead)), EACCES);
  EXPECT_EQ(error_of(root_->look_up(other_, "sealed", Root::Links::kFollow, W_OK)), EACCES)
      << "opening anew is checked";
  const auto third = std::make_shared<Credentials>(Credentials{4712, 4712, {}});
  EXPECT_EQ(error_of(root_->open_file(third, "sealed", Direction::kWrite)), EACCES);
  fs::create_directory(directory_ + "/closed");
  ASSERT_TRUE(root_->create(self_, "closed/inside", {}));
  ASSERT_EQ(chown((directory_ + "/closed/inside").c_str(), 4711, 4711), 0);
  chmod((directory_ + "/closed").c_str(), 0700);
  EXPECT_EQ(error_of(root_->open_file(other_, "closed/inside", Direction::kRead)), EACCES)
      << "directories are not passed";
}

// ---- engines and properties that the conformance suite does not cover ----

class Collector : public CompletionSink {
 public:
  void completed(std::span<Operation* const> operations) override {
    std::lock_guard lock(mutex_);
    done_.insert(done_.end(), operations.begin(), operations.end());
    changed_.notify_all();
  }
  std::vector<Operation*> wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [&] { return done_.size() >= count; }));
    return done_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Operation*> done_;
};

// The pages of a cached file reach a socket up to the end of the file, with the same content as through memory.
TEST_F(RootTest, ACachedReadMayLeavePagesInsteadOfBytes) {
  std::string text(300'000, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 4096);
  put(directory_ + "/f", text);
  auto engine = make_posix_engine().value();
  for (const std::uint64_t offset : {0, 4096, 250'001}) {
    Collector collector;
    PagePipe pages;
    std::string memory(200'000, '-');
    Operation read;
    read.file = root_->open_file(self_, "f", Direction::kRead).value();
    read.offset = offset;
    read.memory = {{memory.data(), memory.size()}};
    read.sink = &collector;
    read.pages = &pages;
    engine->submit(read);
    collector.wait(1);
    const std::string expected = text.substr(offset, memory.size());
    ASSERT_EQ(read.error, 0);
    ASSERT_EQ(read.transferred, expected.size());
    std::string got = memory.substr(0, expected.size());
    if (pages.size() > 0) {
      ASSERT_EQ(pages.size(), expected.size());
      int ends[2];
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
      for (std::size_t there = 0; there < expected.size();) {
        pages.drain(ends[0], expected.size() - there);
        const ssize_t count = recv(ends[1], got.data() + there, got.size() - there, 0);
        ASSERT_GT(count, 0);
        there += static_cast<std::size_t>(count);
      }
      close(ends[0]);
      close(ends[1]);
    }
    EXPECT_TRUE(got == expected) << offset;
  }
}

// With O_DIRECT whole pages are transferred to and from the device; the operation's memory is not used.
TEST_F(RootTest, DirectTransfersDoNotCopyPages) {
  auto root = Root::open(directory_, {.direct = true}).value();
  put(directory_ + "/f", std::string(1 << 20, '.'));
  auto file = root->open_file(self_, "f", Direction::kWrite).value();
  if (file->direct_descriptor() < 0) GTEST_SKIP() << "no O_DIRECT on this file system";
  auto engine = make_posix_engine().value();
  constexpr std::size_t kSize = 256 << 10;
  alignas(4096) static char lent[kSize], memory[kSize];
  std::memset(lent, 'l', kSize);
  for (const auto kind : {Operation::Kind::kWrite, Operation::Kind::kRead}) {
    std::memset(memory, '-', kSize);
    PagePipe pages;
    ASSERT_TRUE(pages.open());
    if (kind == Operation::Kind::kWrite) {
      ASSERT_EQ(pages.take(std::as_bytes(std::span(lent))), kSize);
    }
    Collector collector;
    Operation operation;
    operation.kind = kind;
    operation.file = file;
    operation.offset = 4096;
    operation.memory = {{memory, kSize}};
    operation.sink = &collector;
    operation.pages = &pages;
    engine->submit(operation);
    collector.wait(1);
    EXPECT_EQ(operation.error, 0);
    EXPECT_EQ(operation.transferred, kSize);
    EXPECT_EQ(pages.left(), kind == Operation::Kind::kWrite ? 0 : kSize);
    EXPECT_EQ(std::count(std::begin(memory), std::end(memory), '-'), kSize);
    if (kind == Operation::Kind::kRead) {
      ASSERT_TRUE(pages.read(std::as_writable_bytes(std::span(memory))));
    }
  }
  EXPECT_EQ(std::count(std::begin(memory), std::end(memory), 'l'), kSize);
}

// Through the page cache, through the ring (with O_DIRECT), and from pages.
TEST_F(RootTest, NoWriteBeginsAfterItsDeadline) {
  auto engine = make_posix_engine().value();
  put(directory_ + "/f", std::string(1 << 20, '.'));
  alignas(4096) static char memory[64 << 10];
  std::memset(memory, 'w', sizeof memory);
  for (const bool direct : {false, true})
    for (const bool paged : {false, true}) {
      auto root = Root::open(directory_, {.direct = direct}).value();
      PagePipe pages;
      if (paged) {
        ASSERT_TRUE(pages.open());
        ASSERT_EQ(pages.take(std::as_bytes(std::span(memory))), sizeof memory);
      }
      Collector collector;
      Operation late;
      late.kind = Operation::Kind::kWrite;
      late.file = root->open_file(self_, "f", Direction::kWrite).value();
      late.memory = {{memory, sizeof memory}};
      late.sink = &collector;
      late.deadline = real_clock().steady() - milliseconds(1);
      Operation in_time = late;
      in_time.offset = 512 << 10;
      in_time.deadline = real_clock().steady() + std::chrono::hours(1);
      if (paged) late.pages = &pages;
      engine->submit(std::vector<Operation*>{&late, &in_time});
      collector.wait(2);
      EXPECT_EQ(late.error, ETIMEDOUT);
      EXPECT_TRUE(late.expired);
      EXPECT_EQ(late.transferred, 0u);
      EXPECT_EQ(in_time.error, 0);
      EXPECT_FALSE(in_time.expired);
      std::ifstream file(directory_ + "/f");
      EXPECT_EQ(file.get(), '.') << direct << paged;
    }
}

// A full pipe: the kernel keeps the write until the pipe is read, which is after its deadline.
TEST_F(RootTest, AWriteThatTheKernelHasNotBegunIsCancelledAtItsDeadline) {
  auto engine = make_posix_engine().value();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  char memory[4096] = {};
  std::size_t filled = 0;
  for (ssize_t put = 0; (put = ::write(ends[1], memory, sizeof memory)) > 0;) filled += static_cast<std::size_t>(put);
  ASSERT_EQ(fcntl(ends[1], F_SETFL, 0), 0);
  Collector collector;
  Operation late;
  late.kind = Operation::Kind::kWrite;
  late.file = std::make_shared<BackingFile>(BackingFileKey{.writable = true, .owner = self_},
                                            BackingFile::Descriptors{ends[1]});
  late.memory = {{memory, sizeof memory}};
  late.sink = &collector;
  late.deadline = real_clock().steady() + milliseconds(100);
  Operation later = late;
  later.deadline += milliseconds(50);
  engine->submit(std::vector<Operation*>{&later, &late});
  collector.wait(2);
  for (const Operation* operation : {&late, &later}) {
    EXPECT_TRUE(operation->expired);
    EXPECT_EQ(operation->error, ETIMEDOUT);
    EXPECT_EQ(operation->transferred, 0u);
  }
  std::size_t drained = 0;
  for (ssize_t got = 0; (got = ::read(ends[0], memory, sizeof memory)) > 0;) drained += static_cast<std::size_t>(got);
  EXPECT_EQ(drained, filled) << "nothing was written later";
  close(ends[0]);
}

// More owners than the ring keeps credentials for.
TEST_F(RootTest, WritesOfManyUsersSucceed) {
  TUTTI_NEEDS(geteuid() == 0, "root: it acts for other users");
  constexpr std::size_t kOwners = 1100;
  auto root = Root::open(directory_, {.direct = true, .max_open_files = kOwners}).value();
  put(directory_ + "/f", "");
  ASSERT_EQ(chmod((directory_ + "/f").c_str(), 0666), 0);
  auto engine = make_posix_engine().value();
  static char memory[100];  // not aligned, so written with the buffered descriptor
  Collector collector;
  std::list<Operation> operations;
  std::vector<Operation*> all;
  for (std::uint32_t user = 0; user < kOwners; ++user) {
    Operation& write = operations.emplace_back();
    write.kind = Operation::Kind::kWrite;
    const auto caller = std::make_shared<Credentials>(Credentials{10000 + user, 10000, {}});
    auto file = root->open_file(caller, "f", Direction::kWrite);
    ASSERT_TRUE(file) << file.error().message;
    if ((*file)->direct_descriptor() < 0) GTEST_SKIP() << "no O_DIRECT: the ring is not used";
    write.file = *file;
    write.memory = {{memory, sizeof memory}};
    write.sink = &collector;
    all.push_back(&write);
  }
  // Two parts, so that the limit is not reached where the ring is full and submits its entries anyway.
  engine->submit(std::span(all).first(7));
  engine->submit(std::span(all).subspan(7));
  collector.wait(kOwners);
  for (const Operation& write : operations) ASSERT_EQ(write.error, 0);
}

TEST_F(RootTest, FilesHaveGenerations) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 5; ++i) {  // most file systems give them the same inode number
    const auto made = root_->create(self_, "f", {.exclusive = true});
    ASSERT_TRUE(made);
    if (made->generation == 0) GTEST_SKIP() << "neither handles nor times of creation on this file system";
    EXPECT_TRUE(seen.insert(made->generation).second);
    ASSERT_TRUE(root_->rename(self_, {"f", "g"}));
    EXPECT_EQ(root_->look_up(self_, "g", Root::Links::kFollow, 0)->generation, made->generation);
    EXPECT_EQ(root_->open_file(self_, "g", Direction::kRead).value()->key().generation, made->generation);
    ASSERT_TRUE(root_->unlink(self_, "g"));
  }
  EXPECT_FALSE(may_be_equal(*seen.begin(), *seen.rbegin()));
  EXPECT_TRUE(may_be_equal(*seen.begin(), 0));
}

// Each check is directly before its system call: everything else would allow the change.
TEST_F(RootTest, NamesAreNotChangedAfterTheirDeadline) {
  put(directory_ + "/f", "content");
  fs::create_directory(directory_ + "/d");
  const Root::Access late(self_, real_clock().steady() - milliseconds(1));
  const auto file = root_->open_file(self_, "f", Direction::kWrite);
  ASSERT_TRUE(file);
  const auto refused = [](const auto& result) { return !result && result.error().code == ErrorCode::kTimeout; };
  EXPECT_TRUE(refused(root_->truncate(**file, 0, late.deadline)));
  EXPECT_TRUE(refused(root_->create(late, "new", {})));
  EXPECT_TRUE(refused(root_->create(late, "f", {.truncate = true})));
  EXPECT_TRUE(refused(root_->make_directory(late, "new", 0755)));
  EXPECT_TRUE(refused(root_->rename(late, {"f", "new"})));
  EXPECT_TRUE(refused(root_->link(late, {"f", "new"})));
  EXPECT_TRUE(refused(root_->symlink(late, "new", "f")));
  EXPECT_TRUE(refused(root_->unlink(late, "f")));
  EXPECT_TRUE(refused(root_->remove_directory(late, "d")));
  EXPECT_TRUE(refused(root_->change(late, "f", Root::Links::kFollow, {.mode = 0})));
  EXPECT_TRUE(refused(root_->set_attribute(late, "f", {"user.test", "value", 0})));
  EXPECT_TRUE(refused(root_->remove_attribute(late, "f", "user.test")));
  EXPECT_EQ(fs::file_size(directory_ + "/f"), 7u);
  EXPECT_TRUE(fs::is_directory(directory_ + "/d"));
  EXPECT_FALSE(fs::exists(fs::symlink_status(directory_ + "/new")));
}

TEST_F(RootTest, AProgramCanBeExecutedWhileItIsRead) {
  fs::copy_file("/bin/true", directory_ + "/program");
  const auto reading = root_->open_file(self_, "program", Direction::kRead);
  ASSERT_TRUE(reading);
  EXPECT_EQ(std::system((directory_ + "/program").c_str()), 0);
  EXPECT_FALSE((*reading)->writable());
}

// Another process with a lease on the file does not block the thread that opens it.
TEST_F(RootTest, AFileWithALeaseIsNotWaitedFor) {
  put(directory_ + "/f", "content");
  const int held = open((directory_ + "/f").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(fcntl(held, F_SETSIG, SIGURG), 0);  // ignored by default
  if (fcntl(held, F_SETLEASE, F_RDLCK) != 0) GTEST_SKIP() << "no leases on this file system";
  EXPECT_EQ(error_of(root_->open_file(self_, "f", Direction::kWrite)), EAGAIN);
  ASSERT_EQ(fcntl(held, F_SETLEASE, F_UNLCK), 0);
  const auto opened = root_->open_file(self_, "f", Direction::kWrite);
  ASSERT_TRUE(opened);
  EXPECT_EQ(fcntl((*opened)->descriptor(), F_GETFL) & O_NONBLOCK, 0);
  close(held);
}

TEST(FaultyEngine, InjectsErrorsAndShortTransfers) {
  auto engine = make_faulty_engine(make_null_engine(), [](const Operation& operation) -> std::optional<Fault> {
    if (operation.offset == 1) return Fault{.error = EIO};
    if (operation.offset == 2) return Fault{.at_most = 15};
    return std::nullopt;
  });
  std::string memory(30, ' ');
  Collector collector;
  std::vector<Operation> operations(3);
  for (std::size_t i = 0; i < 3; ++i) {
    operations[i].offset = i;
    operations[i].memory = {{memory.data(), 10}, {memory.data() + 10, 20}};
    operations[i].sink = &collector;
    engine->submit(operations[i]);
  }
  EXPECT_EQ(operations[0].transferred, 30U);
  EXPECT_EQ(operations[1].error, EIO);
  EXPECT_EQ(operations[2].error, 0);
  EXPECT_EQ(operations[2].transferred, 15U);
}

TEST(ModelledEngine, TakesTheTimeOfTheDevice) {
  auto engine =
      make_modelled_engine(live_world(), make_null_engine(), {.figures = FixedFigures{.latency = milliseconds(10)}});
  auto file = std::make_shared<BackingFile>(BackingFileKey{1, 1, true, true, nullptr}, BackingFile::Descriptors{});
  std::string memory(10, ' ');
  Collector collector;
  std::vector<Operation> operations(5);
  const auto start = std::chrono::steady_clock::now();
  for (Operation& operation : operations) {
    operation.file = file;
    operation.memory = {{memory.data(), memory.size()}};
    operation.sink = &collector;
    engine->submit(operation);
  }
  const auto done = collector.wait(5);
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(50)) << "one after another";
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(done[i], &operations[i]);
}

// Four stripes of one target: those of one batch are one request of the device if they adjoin in the target's object.
TEST(ModelledEngine, PartsOfABatchThatAdjoinOnTheDeviceAreOneRequest) {
  auto engine = make_modelled_engine(
      live_world(), make_null_engine(),
      {.figures = FixedFigures{.latency = milliseconds(10)}, .stripe_size = Bytes(4096), .stripe_count = 4});
  auto file = std::make_shared<BackingFile>(BackingFileKey{1, 1, true, true, nullptr}, BackingFile::Descriptors{});
  std::string memory(4096, ' ');
  const int first = 1, second = 2;
  const auto busy_for = [&](const std::vector<const void*>& batches, std::uint64_t stride) {
    const Duration before = engine->busy();
    Collector collector;
    std::vector<Operation> operations(4);
    std::vector<Operation*> pointers;
    for (std::size_t i = 0; i < 4; ++i) {
      operations[i].file = file;
      operations[i].offset = i * stride;
      operations[i].memory = {{memory.data(), memory.size()}};
      operations[i].batch = batches[i];
      operations[i].sink = &collector;
      pointers.push_back(&operations[i]);
    }
    engine->submit(pointers);
    EXPECT_THAT(collector.wait(4), testing::UnorderedElementsAreArray(pointers));
    return (engine->busy() - before) / milliseconds(10);
  };
  EXPECT_EQ(busy_for({&first, &first, &first, &first}, 4 * 4096), 1);
  EXPECT_EQ(busy_for({&first, &first, &second, &second}, 4 * 4096), 2);
  EXPECT_EQ(busy_for({&first, &first, &first, &first}, 8 * 4096), 4) << "they do not adjoin";
  EXPECT_EQ(busy_for({nullptr, nullptr, nullptr, nullptr}, 4 * 4096), 4);
}

TEST(ModelledEngine, TheDiskReordersItsQueue) {
  ModelledOptions options{.figures = HddFigures{}, .stripe_size = Bytes(65536), .stripe_count = 4};
  auto engine = make_modelled_engine(live_world(), make_null_engine(), options);
  auto file = std::make_shared<BackingFile>(BackingFileKey{1, 1, true, true, nullptr}, BackingFile::Descriptors{});
  std::string memory(65536, ' ');
  Collector collector;
  std::vector<Operation> operations(4);
  std::vector<Operation*> pointers;
  // Rows 8000, 4000, 2000, 6000 of this target: the first starts at once, the rest are served in ascending order.
  const std::uint64_t rows[] = {8000, 4000, 2000, 6000};
  for (std::size_t i = 0; i < 4; ++i) {
    operations[i].file = file;
    operations[i].offset = rows[i] * 4 * 65536;
    operations[i].memory = {{memory.data(), memory.size()}};
    operations[i].sink = &collector;
    pointers.push_back(&operations[i]);
  }
  engine->submit(pointers);
  EXPECT_THAT(collector.wait(4), ElementsAre(pointers[0], pointers[2], pointers[1], pointers[3]));
}

}  // namespace
}  // namespace tutti
