// SPDX-License-Identifier: Apache-2.0
// What every engine that keeps data must do, and the contract of completion for all of them.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/live_world.h"
#include "base/prng.h"
#include "base/temporary_directory.h"
#include "engine/engine.h"
#include "engine/root.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = kDirectAlignment;

// Memory on a page boundary, so that the direct way is taken where a test does not spoil it.
class Memory {
 public:
  explicit Memory(std::size_t size, char fill = '\0')
      : size_(size), data_(static_cast<char*>(std::aligned_alloc(kBlock, (size / kBlock + 1) * kBlock))) {
    std::memset(data_.get(), fill, size_);
  }
  iovec piece(std::size_t from, std::size_t length) { return {data_.get() + from, length}; }
  iovec all() { return piece(0, size_); }
  std::string text() const { return {data_.get(), size_}; }
  void set(const std::string& text) { std::memcpy(data_.get(), text.data(), std::min(size_, text.size())); }

 private:
  struct Free {
    void operator()(char* data) const { std::free(data); }
  };
  std::size_t size_;
  std::unique_ptr<char, Free> data_;
};

class Waiter : public CompletionSink {
 public:
  void completed(std::span<Operation* const> operations) override {
    std::lock_guard lock(mutex_);
    for (Operation* operation : operations) order_.push_back(operation);
    changed_.notify_all();
  }
  void wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [&] { return order_.size() >= count; }));
  }
  std::vector<Operation*> order() {
    std::lock_guard lock(mutex_);
    return order_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Operation*> order_;
};

struct Kind {
  std::string name;
  bool direct;
  std::unique_ptr<Engine> (*make)();
};

std::unique_ptr<Engine> posix() {
  return std::move(make_posix_engine().value());
}
std::unique_ptr<Engine> modelled() {
  return make_modelled_engine(live_world(), posix(), {.figures = *device_preset("nvme")});
}
std::unique_ptr<Engine> faultless() {
  return make_faulty_engine(posix(), [](const Operation&) { return std::nullopt; });
}

class EngineConformance : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    root_ = std::move(Root::open(directory_, {.direct = GetParam().direct}).value());
    engine_ = GetParam().make();
  }
  void TearDown() override { engine_.reset(); }

  std::shared_ptr<BackingFile> open(const std::string& path, Direction direction = Direction::kWrite) {
    auto opened = root_->open_file(self_, path, direction);
    EXPECT_TRUE(opened) << opened.error().message;
    return *opened;
  }
  std::shared_ptr<BackingFile> make(const std::string& path, const std::string& content = "") {
    std::ofstream(directory_ + "/" + path) << content;
    return open(path);
  }
  std::string content(const std::string& path) {
    std::ifstream stream(directory_ + "/" + path);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  Operation operation(Operation::Kind kind, std::shared_ptr<BackingFile> file, std::uint64_t offset,
                      std::vector<iovec> memory) {
    Operation made;
    made.kind = kind;
    made.file = std::move(file);
    made.offset = offset;
    made.memory.assign(memory.begin(), memory.end());
    return made;
  }
  void run(Operation& operation) {
    Waiter waiter;
    operation.sink = &waiter;
    engine_->submit(operation);
    waiter.wait(1);
  }
  Operation read(std::shared_ptr<BackingFile> file, std::uint64_t offset, std::vector<iovec> memory) {
    Operation made = operation(Operation::Kind::kRead, std::move(file), offset, std::move(memory));
    run(made);
    return made;
  }
  Operation write(std::shared_ptr<BackingFile> file, std::uint64_t offset, std::vector<iovec> memory) {
    Operation made = operation(Operation::Kind::kWrite, std::move(file), offset, std::move(memory));
    run(made);
    return made;
  }

  struct Range {
    std::uint64_t from = 0, to = 0, length = 0;
  };
  Operation copy(std::shared_ptr<BackingFile> source, std::shared_ptr<BackingFile> file, const Range& range,
                 TimePoint deadline = TimePoint::max()) {
    Operation made = operation(Operation::Kind::kCopy, std::move(file), range.to, {});
    made.source = std::move(source);
    made.source_offset = range.from;
    made.copy_length = range.length;
    made.deadline = deadline;
    run(made);
    return made;
  }

  struct Paged {
    std::size_t from, length;
  };
  // A write with some of its bytes in pages, those before and behind them in memory.
  Operation write_pages(std::shared_ptr<BackingFile> file, std::uint64_t offset, const std::string& text, Paged paged) {
    Memory memory(text.size()), lent(text.size());
    lent.set(text);
    memory.set(text.substr(0, paged.from) + std::string(paged.length, '?') + text.substr(paged.from + paged.length));
    PagePipe pages;
    EXPECT_TRUE(pages.open());
    const iovec lent_part = lent.piece(paged.from, paged.length);
    EXPECT_EQ(pages.take({static_cast<const std::byte*>(lent_part.iov_base), lent_part.iov_len}), paged.length);
    Operation made = operation(Operation::Kind::kWrite, std::move(file), offset, {memory.all()});
    made.pages = &pages;
    made.pages_at = paged.from;
    run(made);
    return made;
  }
  Operation write_pages(std::shared_ptr<BackingFile> file, std::uint64_t offset, const std::string& text) {
    return write_pages(std::move(file), offset, text, {text.size() / 10, text.size() / 2});
  }

  // What a read brings that may leave its bytes in pages.
  std::string read_pages(std::shared_ptr<BackingFile> file, std::uint64_t offset, std::size_t size) {
    Memory memory(size);
    PagePipe pages;
    Operation made = operation(Operation::Kind::kRead, std::move(file), offset, {memory.all()});
    made.pages = &pages;
    run(made);
    EXPECT_EQ(made.error, 0);
    if (pages.size() == 0) return memory.text().substr(0, made.transferred);
    EXPECT_EQ(pages.size(), made.transferred);
    std::string text(pages.size(), '\0');
    EXPECT_TRUE(pages.read(std::as_writable_bytes(std::span(text))));
    return text;
  }

  const TemporaryDirectory temporary_;
  const std::string directory_ = temporary_.path();
  Root::Caller self_ = std::make_shared<Credentials>(own_credentials());
  std::unique_ptr<Root> root_;
  std::unique_ptr<Engine> engine_;
};

TEST_P(EngineConformance, WritesThenReadsTheSame) {
  auto file = make("a");
  Memory out(3 * kBlock, 'x'), in(3 * kBlock);
  EXPECT_EQ(write(file, kBlock, {out.all()}).transferred, 3 * kBlock);
  const Operation done = read(file, kBlock, {in.all()});
  EXPECT_EQ(done.error, 0);
  EXPECT_EQ(done.transferred, 3 * kBlock);
  EXPECT_EQ(in.text(), out.text());
  EXPECT_EQ(fs::file_size(directory_ + "/a"), 4 * kBlock);
}

TEST_P(EngineConformance, AWriteMayBringSomeOfItsBytesInPages) {
  auto file = make("a", std::string(100000, '.'));
  for (const std::size_t size : {std::size_t{64} << 10, std::size_t{300'001}, 100 * kBlock}) {
    std::string text(size, '\0');
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7 + i / kBlock);
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{50'003}, std::uint64_t{kBlock}}) {
      const Operation done = write_pages(file, offset, text);
      EXPECT_EQ(done.error, 0);
      EXPECT_EQ(done.transferred, size);
      EXPECT_TRUE(content("a").substr(offset, size) == text) << size << " at " << offset;
    }
  }
}

TEST_P(EngineConformance, WholePagesGoBothWays) {
  auto file = make("a", std::string(100001, '.'));
  for (const std::size_t size : {std::size_t{64} << 10, (std::size_t{1} << 20) - kBlock, std::size_t{1} << 20}) {
    std::string text(size, '\0');
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 11 + i / kBlock);
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{3 * kBlock}, std::uint64_t{100}}) {
      const Operation done = write_pages(file, offset, text, {0, size});
      EXPECT_EQ(done.error, 0);
      EXPECT_EQ(done.transferred, size);
      EXPECT_TRUE(content("a").substr(offset, size) == text) << size << " at " << offset;
      EXPECT_TRUE(read_pages(file, offset, size) == text) << size << " at " << offset;
    }
  }
}

TEST_P(EngineConformance, ReadsIntoPagesEndWithTheFile) {
  std::string text(300'001, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 5 + i / kBlock);
  auto file = make("a", text);
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{10 * kBlock}, std::uint64_t{73 * kBlock}})
    EXPECT_TRUE(read_pages(file, offset, std::size_t{1} << 20) == text.substr(offset)) << "at " << offset;
  EXPECT_EQ(read_pages(file, 100 * kBlock, std::size_t{1} << 20), "");
}

TEST_P(EngineConformance, ReadsAreShortOnlyAtTheEnd) {
  auto file = make("a", std::string(kBlock + 100, 'e'));
  for (const std::uint64_t offset : {0UL, 50UL, kBlock, kBlock + 99}) {
    Memory in(4 * kBlock);
    const Operation done = read(file, offset, {in.all()});
    EXPECT_EQ(done.error, 0);
    EXPECT_EQ(done.transferred, kBlock + 100 - offset);
    EXPECT_EQ(in.text().substr(0, done.transferred), std::string(done.transferred, 'e'));
  }
  Memory in(kBlock);
  EXPECT_EQ(read(file, 10 * kBlock, {in.all()}).transferred, 0U);
}

TEST_P(EngineConformance, UnalignedTailsAndHeads) {
  auto file = make("a");
  Memory out(5 * kBlock, 'u');
  EXPECT_EQ(write(file, 0, {out.piece(0, 2 * kBlock + 17)}).transferred, 2 * kBlock + 17);
  EXPECT_EQ(write(file, 2 * kBlock + 17, {out.piece(3, 11), out.piece(kBlock, kBlock)}).transferred, kBlock + 11);
  EXPECT_EQ(content("a"), std::string(3 * kBlock + 28, 'u'));
  Memory in(4 * kBlock);
  EXPECT_EQ(read(file, 0, {in.all()}).transferred, 3 * kBlock + 28);
  EXPECT_EQ(in.text().substr(0, 3 * kBlock + 28), content("a"));
}

TEST_P(EngineConformance, HolesReadAsZeroes) {
  auto file = make("sparse");
  Memory one(kBlock, '1'), in(3 * kBlock, '#');
  const std::uint64_t far = std::uint64_t{1} << 33;
  EXPECT_EQ(write(file, far, {one.all()}).error, 0);
  const Operation done = read(file, far - 2 * kBlock, {in.all()});
  EXPECT_EQ(done.transferred, 3 * kBlock);
  EXPECT_EQ(in.text(), std::string(2 * kBlock, '\0') + std::string(kBlock, '1'));
  EXPECT_LT(root_->stat(*file)->st_blocks * 512, 1 << 20) << "the hole took space";
}

TEST_P(EngineConformance, AdjoiningPiecesAreOneOperation) {
  auto file = make("list");
  constexpr std::size_t kPieces = 1500;  // more than one system call takes
  Memory out(kPieces * 64), in(kPieces * 64);
  std::string text;
  for (std::size_t i = 0; i < kPieces * 64; ++i) text += static_cast<char>('a' + i % 23);
  out.set(text);
  std::vector<iovec> from, to;
  for (std::size_t i = 0; i < kPieces; ++i) from.push_back(out.piece(i * 64, 64));
  for (std::size_t i = 0; i < kPieces; ++i) to.push_back(in.piece(i * 64, 64));
  EXPECT_EQ(write(file, 5, from).transferred, text.size());
  EXPECT_EQ(content("list"), std::string(5, '\0') + text);
  EXPECT_EQ(read(file, 5, to).transferred, text.size());
  EXPECT_EQ(in.text(), text);
}

TEST_P(EngineConformance, CopiesBetweenFilesEndWithTheSource) {
  std::string text(300'001, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 5 + i / kBlock);
  make("a", text);
  const auto source = open("a", Direction::kRead);
  const auto file = make("b", "before");
  Operation done = copy(source, file, {.from = 1000, .to = 3, .length = 200'000});
  EXPECT_EQ(done.error, 0);
  EXPECT_EQ(done.transferred, 200'000u);
  EXPECT_TRUE(content("b") == "bef" + text.substr(1000, 200'000));
  done = copy(source, file, {.from = 300'000, .to = 0, .length = 10});
  EXPECT_EQ(done.transferred, 1u);
  EXPECT_EQ(copy(source, file, {.from = 400'000, .to = 0, .length = 10}).transferred, 0u);
  done = copy(source, file, {.length = 10}, TimePoint(Duration(1)));
  EXPECT_TRUE(done.expired);
  EXPECT_EQ(done.error, ETIMEDOUT);
}

// The kernel does not copy between file systems.
TEST_P(EngineConformance, CopiesBetweenFileSystemsGoThroughMemory) {
  std::string pattern = "/dev/shm/tutti-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) GTEST_SKIP() << "no /dev/shm";
  const std::string text(3'000'001, 's');
  { std::ofstream(pattern + "/s") << text; }
  auto other = std::move(Root::open(pattern, {}).value());
  const auto source = other->open_file(self_, "s", Direction::kRead);
  ASSERT_TRUE(source);
  const Operation done = copy(*source, make("b"), {.length = 4'000'000});
  fs::remove_all(pattern);
  EXPECT_EQ(done.error, 0);
  EXPECT_EQ(done.transferred, text.size());
  EXPECT_TRUE(content("b") == text);
}

TEST_P(EngineConformance, UnlinkedWhileOpenKeepsItsContent) {
  auto file = make("gone", std::string(kBlock, 'g'));
  fs::remove(directory_ + "/gone");
  Memory out(kBlock, 'h'), in(2 * kBlock);
  EXPECT_EQ(write(file, kBlock, {out.all()}).error, 0);
  EXPECT_EQ(read(file, 0, {in.all()}).transferred, 2 * kBlock);
  EXPECT_EQ(in.text(), std::string(kBlock, 'g') + std::string(kBlock, 'h'));
}

TEST_P(EngineConformance, TheWrongDirectionIsAnError) {
  make("readonly", "text");
  auto reading = open("readonly", Direction::kRead);
  if (reading->writable()) {  // root may do everything: take a descriptor that really cannot
    const int descriptor = ::open((directory_ + "/readonly").c_str(), O_RDONLY | O_CLOEXEC);
    reading = std::make_shared<BackingFile>(BackingFileKey{1, 1, true, false, self_},
                                            BackingFile::Descriptors{descriptor, -1});
  }
  Memory out(4, 'w');
  EXPECT_EQ(write(reading, 0, {out.all()}).error, EBADF);
  EXPECT_EQ(content("readonly"), "text");
}

TEST_P(EngineConformance, AFullDiskIsReported) {
  const std::string small = directory_ + "/small";
  fs::create_directory(small);
  if (mount("tmpfs", small.c_str(), "tmpfs", 0, "size=64k") != 0) GTEST_SKIP() << "needs the right to mount";
  {
    auto full = Root::open(small, {}).value();
    std::ofstream(small + "/a") << "";
    auto file = full->open_file(self_, "a", Direction::kWrite).value();
    Memory out(1 << 20, 'f');
    const Operation done = write(file, 0, {out.all()});
    EXPECT_EQ(done.error, ENOSPC);
    EXPECT_LT(done.transferred, std::uint64_t{1} << 20);
    EXPECT_EQ(write(file, 0, {out.piece(0, 100)}).error, 0) << "what fits still goes in";
    const Operation pages = write_pages(file, 0, std::string(1 << 20, 'p'));
    EXPECT_EQ(pages.error, ENOSPC);
    EXPECT_LT(pages.transferred, std::uint64_t{1} << 20);
    EXPECT_EQ(content("small/a").substr(0, pages.transferred), std::string(pages.transferred, 'p'));
  }
  umount2(small.c_str(), MNT_DETACH);
}

TEST_P(EngineConformance, SyncsAllComeBack) {
  auto file = make("synced");
  constexpr std::size_t kSyncs = 64;
  std::vector<Operation> syncs(kSyncs);
  Waiter waiter;
  for (Operation& sync : syncs) {
    sync = operation(Operation::Kind::kSync, file, 0, {});
    sync.sink = &waiter;
  }
  for (Operation& sync : syncs) engine_->submit(sync);
  waiter.wait(kSyncs);
  for (const Operation& sync : syncs) EXPECT_EQ(sync.error, 0);
}

TEST_P(EngineConformance, ManyThreadsAgainstAModel) {
  auto file = make("model");
  constexpr std::size_t kThreads = 4, kRegion = 256 << 10;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      Prng prng(t + 1);
      std::string model(kRegion, '\0');
      for (int i = 0; i < 150; ++i) {
        const std::uint64_t offset = prng.below(kRegion), length = 1 + prng.below(kRegion - offset);
        Memory memory(length, static_cast<char>('A' + prng.below(26)));
        std::vector<iovec> pieces{memory.piece(0, length / 3 + 1)};
        if (length / 3 + 1 < length) pieces.push_back(memory.piece(length / 3 + 1, length - length / 3 - 1));
        if (prng.chance(0.5)) {
          model.replace(offset, length, memory.text());
          EXPECT_EQ(write(file, t * kRegion + offset, pieces).transferred, length);
        } else {
          const auto got = read(file, t * kRegion + offset, pieces).transferred;
          EXPECT_EQ(memory.text().substr(0, got), model.substr(offset, got));
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_P(EngineConformance, WhatEndedThreadsSubmittedStillHappens) {
  auto file = make("orphans");
  constexpr std::size_t kCount = 32;
  Memory out(kCount * kBlock, 'o');
  std::vector<Operation> writes(kCount);
  Waiter waiter;
  for (std::size_t i = 0; i < kCount; ++i) {
    writes[i] = operation(Operation::Kind::kWrite, file, i * kBlock, {out.piece(i * kBlock, kBlock)});
    writes[i].sink = &waiter;
    std::thread([&, i] { engine_->submit(writes[i]); }).join();
  }
  waiter.wait(kCount);
  for (const Operation& done : writes) EXPECT_EQ(done.error, 0);
  EXPECT_EQ(content("orphans"), out.text());
}

INSTANTIATE_TEST_SUITE_P(Engines, EngineConformance,
                         testing::Values(Kind{"posix", false, posix}, Kind{"direct", true, posix},
                                         Kind{"modelled", false, modelled}, Kind{"faultless", false, faultless}),
                         [](const auto& kind) { return kind.param.name; });

TEST(NullEngine, CompletesEverythingInTheCall) {
  const auto engine = make_null_engine();
  Waiter waiter;
  Memory memory(100, 'n');
  std::vector<Operation> operations(3);
  std::vector<Operation*> pointers;
  for (Operation& operation : operations) {
    operation.memory = {memory.piece(0, 60), memory.piece(60, 40)};
    operation.sink = &waiter;
    pointers.push_back(&operation);
  }
  engine->submit(pointers);
  EXPECT_THAT(waiter.order(), testing::ElementsAreArray(pointers));
  EXPECT_EQ(operations[0].transferred, 100U);
}

}  // namespace
}  // namespace tutti
