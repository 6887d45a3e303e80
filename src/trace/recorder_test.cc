// SPDX-License-Identifier: Apache-2.0
#include "trace/recorder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/live_world.h"
#include "base/temporary_directory.h"
#include "trace/live_files.h"

namespace tutti::trace {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A world whose time and workers the test controls.
class ManualWorld final : public World, public Workers {
 public:
  Clock& clock() override { return clock_; }
  std::unique_ptr<Timer> make_timer(Task task) override {
    return std::make_unique<ManualTimer>(*this, std::move(task));
  }
  std::uint64_t random() override { return 4; }
  std::shared_ptr<Strand> make_strand(Owner /*owner*/) override { return std::make_shared<Strand>(); }
  void post(const std::shared_ptr<Strand>&, Task task) override { tasks_.push_back(std::move(task)); }
  void stop() override { run(); }

  void run() {
    for (auto tasks = std::exchange(tasks_, {}); Task & task : tasks) task();
  }
  void advance(Duration by) {
    clock_.advance(by);
    if (timer_at_ > clock_.now()) return;
    timer_at_ = TimePoint::max();
    timer_task_();
  }
  std::size_t waiting_tasks() const { return tasks_.size(); }

 private:
  struct ManualTimer final : Timer {
    ManualTimer(ManualWorld& world, Task task) : owner(world) { owner.timer_task_ = std::move(task); }
    void set(TimePoint when) override { owner.timer_at_ = when; }
    ManualWorld& owner;
  };
  ManualClock clock_{TimePoint(1000s)};
  std::vector<Task> tasks_;
  Task timer_task_;
  TimePoint timer_at_ = TimePoint::max();
};

struct MemoryOutput final : TraceOutput {
  Result<void> write(const FileHeader& header, std::span<const std::byte> block) override {
    if (fails) return fail(ErrorCode::kIo, "no space");
    if (bytes.empty()) bytes = encode_header(header);
    bytes.insert(bytes.end(), block.begin(), block.end());
    return {};
  }
  Recording decode() const {
    const auto header = decode_header(bytes, "memory");
    EXPECT_TRUE(header);
    Decoder decoder(*header, Names::kPaths);
    decoder.add(bytes, "memory");
    return decoder.take();
  }
  std::vector<std::byte> bytes;
  bool fails = false;
};

class RecorderTest : public ::testing::Test {
 protected:
  void start(Recorder::Options options = {.facts = {{"node", "n"}}}) {
    auto output = std::make_unique<MemoryOutput>();
    output_ = output.get();
    recorder_ = std::make_unique<Recorder>(world_, world_, std::move(output), std::move(options));
    auto made = Scheduler::create({.policy = "fifo", .clock = &world_.clock(), .observer = recorder_.get()});
    ASSERT_TRUE(made);
    scheduler_ = std::move(*made);
  }
  void add(RequestId id, FileId file = 1, Direction direction = Direction::kRead) {
    ASSERT_TRUE(scheduler_->add({.id = id,
                                 .file = file,
                                 .offset = id * 10,
                                 .length = Bytes(10),
                                 .target = 2,
                                 .direction = direction,
                                 .stamp = {.application = 7, .operation = 5ULL << 32 | id}}));
  }
  bool serve(Duration duration = 1ms) {
    Scheduler::Dispatched batch;
    if (scheduler_->try_next(std::span(&batch, 1)) == 0) return false;
    world_.advance(duration);
    scheduler_->complete(batch);
    return true;
  }

  ManualWorld world_;
  MemoryOutput* output_ = nullptr;
  std::unique_ptr<Recorder> recorder_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(RecorderTest, RecordsArrivalsAndCompletionsOfAScheduler) {
  start();
  scheduler_->name_file(1, "/a/one");
  scheduler_->name_file(2, "/a/two");
  add(1);
  world_.advance(5ms);
  add(2, 2, Direction::kWrite);
  add(3, 3);
  while (serve()) continue;
  EXPECT_THAT(output_->bytes, IsEmpty());  // nothing is written on the scheduler's threads
  world_.advance(1s);
  world_.run();
  const Recording recording = output_->decode();
  EXPECT_EQ(recording.facts.at("node"), "n");
  EXPECT_EQ(recording.start, TimePoint(1000s));
  EXPECT_THAT(recording.trace.files, ElementsAre("/a/one", "/a/two", "unnamed-aaaaaaaaaaaaaaad"));
  ASSERT_THAT(recording.trace.requests, SizeIs(3));
  const TraceRequest& second = recording.trace.requests[1];
  EXPECT_EQ(second.time, 5ms);
  EXPECT_EQ(second.completed, 7ms);
  EXPECT_EQ(second.file, 1u);
  EXPECT_EQ(second.direction, Direction::kWrite);
  EXPECT_EQ(second.application, 7u);
  EXPECT_EQ(second.target, 2u);
  EXPECT_EQ(second.process, 5u);
  EXPECT_EQ(second.offset, 20u);
  EXPECT_EQ(recorder_->recorded(), 3u);
}

TEST_F(RecorderTest, RequestsAfterAPauseAreWrittenWithinTheInterval) {
  start();
  for (RequestId id = 1; id <= 3; ++id) {
    add(id);
    while (serve()) continue;
    for (int i = 0; i < 2; ++i) world_.advance(1s), world_.run();
    EXPECT_THAT(output_->decode().trace.requests, SizeIs(id));
    for (int i = 0; i < 5; ++i) world_.advance(1s), world_.run();
  }
}

TEST_F(RecorderTest, RequestsKeepTheNameThatTheFileHadWhenTheyArrived) {
  start();
  scheduler_->name_file(1, "/a/one");
  add(1);
  while (serve()) continue;
  recorder_->flush();
  scheduler_->name_file(1, "/a/two");
  add(2);
  while (serve()) continue;
  recorder_->flush();
  world_.run();
  EXPECT_THAT(output_->decode().trace.files, ElementsAre("/a/one", "/a/two"));
}

TEST(EventRing, AnotherThreadFindsEveryEventInOrder) {
  constexpr RequestId kEvents = 200'000;
  EventRing ring;
  Mutex draining;
  RequestId expected = 0;
  const auto drain = [&] {
    Lock lock(draining);
    ring.drain([&](const RecordedEvent& event) { EXPECT_EQ(event.id, expected++); });
  };
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) drain();
  });
  for (RequestId id = 0; id < kEvents; ++id) {
    ring.next().id = id;
    if (ring.push()) drain();
  }
  done = true;
  other.join();
  drain();
  EXPECT_EQ(expected, kEvents);
}

TEST_F(RecorderTest, ArrivalTimesAreThoseOfAddNotOfTheDispatcher) {
  start();
  add(1);
  Scheduler::Dispatched batch;
  ASSERT_EQ(scheduler_->try_next(std::span(&batch, 1)), 1u);
  world_.advance(1ms);
  add(2);  // the dispatcher collects it after the completion of the first
  world_.advance(3ms);
  scheduler_->complete(batch);
  ASSERT_TRUE(serve());
  recorder_->flush();
  world_.run();
  const Recording recording = output_->decode();
  EXPECT_EQ(recording.trace.requests[0].completed, 4ms);
  EXPECT_EQ(recording.trace.requests[1].time, 1ms);
}

TEST_F(RecorderTest, CancelledRequestsHaveNoCompletion) {
  start();
  add(1);
  ASSERT_TRUE(scheduler_->cancel(1));
  add(2);
  scheduler_->stop(Scheduler::Stop::kDrop);
  while (serve()) continue;
  recorder_->flush();
  world_.run();
  const Recording recording = output_->decode();
  ASSERT_THAT(recording.trace.requests, SizeIs(2));
  EXPECT_FALSE(recording.trace.requests[0].has_completed());
  EXPECT_FALSE(recording.trace.requests[1].has_completed());
}

TEST_F(RecorderTest, LeavesOutRequestsInsteadOfGrowing) {
  start({.most_waiting = 2});
  for (RequestId id = 1; id <= 100'000; ++id) {
    add(id);
    (void)serve(1us);
  }
  EXPECT_EQ(world_.waiting_tasks(), 1u);  // the workers are busy
  recorder_->flush();
  world_.run();
  add(1'000'000);
  ASSERT_TRUE(serve());
  recorder_->flush();
  world_.run();
  const Recording recording = output_->decode();
  EXPECT_LE(output_->bytes.size(), 3 * kUsualBlock);
  EXPECT_GT(output_->bytes.size(), 2 * kUsualBlock);
  EXPECT_GT(recorder_->lost(), 1000u);
  EXPECT_EQ(recording.missing, recorder_->lost());
  EXPECT_EQ(recording.trace.requests.size() + recording.missing, 100'001u);
  EXPECT_THAT(recording.problems.texts(), IsEmpty());
  EXPECT_TRUE(recording.trace.requests.back().has_completed());
  EXPECT_TRUE(recording.trace.requests.front().has_completed());
}

// The first event after requests that were left out is a completion.
TEST_F(RecorderTest, CompletionsBelongToTheirRequestsAfterOthersWereLeftOut) {
  start({.most_waiting = 1});
  std::vector<WaitingRequest> requests;
  for (RequestId id = 0; id <= 15; ++id)
    requests.push_back({{.id = id, .file = 1, .offset = id * 10, .length = Bytes(10)}, world_.clock().now()});
  const auto arrive = [&](std::size_t first, std::size_t last) {
    recorder_->arrived(std::span(requests).subspan(first, last - first + 1));
  };
  const auto end = [&](std::size_t number) {
    recorder_->ended(std::span(&requests[number].request, 1), world_.clock().now() + number * 1ms, true);
  };
  arrive(1, 10);
  recorder_->flush();
  arrive(11, 13);
  recorder_->flush();  // they are left out: a block waits for the workers
  world_.run();
  end(1);
  arrive(14, 14);
  end(8);
  arrive(15, 15);
  end(14);
  recorder_->flush();
  world_.run();
  const Recording recording = output_->decode();
  EXPECT_EQ(recording.missing, 3u);
  ASSERT_THAT(recording.trace.requests, SizeIs(12));
  for (const TraceRequest& request : recording.trace.requests) {
    const std::uint64_t number = request.offset / 10;
    EXPECT_EQ(request.has_completed(), number == 1 || number == 8 || number == 14) << number;
    if (!request.has_completed()) continue;
    EXPECT_EQ(request.completed, number * 1ms) << number;
  }
}

TEST_F(RecorderTest, GoesOnAfterAFailedWrite) {
  start();
  add(1);
  output_->fails = true;
  (void)serve();
  recorder_->flush();
  world_.run();
  EXPECT_EQ(recorder_->lost(), 1u);
  output_->fails = false;
  add(2);
  (void)serve();
  recorder_->flush();
  world_.run();
  EXPECT_THAT(output_->decode().trace.requests, SizeIs(1));
}

TEST_F(RecorderTest, ForgetsNamesBeyondTheLimit) {
  start({.most_names = 10});
  for (FileId file = 1; file <= 1000; ++file) scheduler_->name_file(file, fmt::format("f{}", file));
  scheduler_->name_file(5000, "last");
  add(1, 5000);
  (void)serve();
  recorder_->flush();
  world_.run();
  EXPECT_THAT(output_->decode().trace.files, ElementsAre("last"));
}

// ---- files ----

std::vector<std::byte> block_of(BlockEncoder& encoder, std::size_t requests) {
  for (std::size_t i = 0; i < requests; ++i)
    encoder.add({.time = Duration(i), .file = 1, .offset = i * 7919 % 1000003, .length = Bytes(1)}, "/x/out.001");
  return encoder.take();
}

std::uint64_t used(const std::string& directory) {
  std::uint64_t sum = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) sum += entry.file_size();
  return sum;
}

TEST(TraceFiles, StayBelowTheLimitAndKeepTheNewest) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/traces";
  std::ofstream(directory.path() + "/other");
  BlockEncoder encoder;
  const FileHeader header{.start = TimePoint(1s)};
  auto output = make_files({.directory = path, .name = "node1", .limit = kLeastLimit});
  ASSERT_TRUE(output) << output.error().message;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE((*output)->write(header, block_of(encoder, 5000)));
    ASSERT_LE(used(path), kLeastLimit.count());
  }
  // Another run of the same node goes on with the next number, within the same limit.
  auto again = make_files({.directory = path, .name = "node1", .limit = kLeastLimit});
  ASSERT_TRUE(again);
  ASSERT_TRUE((*again)->write({.start = TimePoint(2s)}, block_of(encoder, 5000)));
  EXPECT_LE(used(path), kLeastLimit.count());
  EXPECT_GT(used(path), kLeastLimit.count() / 2);
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    ASSERT_EQ(stat(entry.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
  }
  const auto read = read_files({path}, Names::kPatterns);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_THAT(*read, SizeIs(2));
  EXPECT_THAT((*read)[0].problems.texts(), IsEmpty());
  EXPECT_EQ((*read)[0].trace.requests.size() % 5000, 0u);
  EXPECT_EQ((*read)[1].trace.requests.size(), 5000u);
  EXPECT_THAT((*read)[1].trace.files, ElementsAre("/x/out.#"));
}

TEST(TraceFiles, AFullDiskLeavesNoFilesBehind) {
  const TemporaryDirectory directory;
  auto output = make_files({.directory = directory.path(), .name = "n", .limit = kLeastLimit});
  ASSERT_TRUE(output);
  const FileHeader header{.start = TimePoint(1s)};
  BlockEncoder encoder;
  ASSERT_TRUE((*output)->write(header, block_of(encoder, 1000)));
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = used(directory.path()) + 100;  // files cannot grow beyond this
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::size_t failed = 0;
  for (int i = 0; i < 10; ++i) failed += (*output)->write(header, block_of(encoder, 5000)) ? 0 : 1;
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, ignored);
  EXPECT_EQ(failed, 10u);
  const auto files = std::filesystem::directory_iterator(directory.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
  ASSERT_TRUE((*output)->write(header, block_of(encoder, 1000)));
  const auto read = read_files({directory.path()}, Names::kPatterns);
  ASSERT_TRUE(read);
  EXPECT_THAT((*read)[0].problems.texts(), IsEmpty());
  EXPECT_EQ((*read)[0].trace.requests.size(), 2000u);
  EXPECT_EQ((*read)[0].missing, 50'000u);
}

TEST(TraceFiles, RefusesWrongOptions) {
  const TemporaryDirectory directory;
  EXPECT_THAT(make_files({.directory = directory.path(), .name = "a/b"}).error().message, HasSubstr("a/b"));
  EXPECT_THAT(make_files({.directory = directory.path(), .name = "n", .limit = Bytes(5)}).error().message,
              HasSubstr("at least 1"));
  EXPECT_THAT(make_files({.directory = directory.path() + "/no/such", .name = "n"}).error().message,
              HasSubstr("/no/such: No such file"));
}

TEST(TraceFiles, UnreadableFilesAreReportedBesideTheOthers) {
  const TemporaryDirectory directory;
  std::ofstream(directory.path() + "/a.trace");
  EXPECT_THAT(read_files({directory.path()}, Names::kPaths).error().message, HasSubstr("a.trace: byte 0: the file is"));
  Recording one{.start = TimePoint(5s), .facts = {{"node", "b"}}};
  one.trace.files = {"/f"};
  one.trace.requests = {{.length = Bytes(1), .process = 3, .completed = 2s},
                        {.time = 1s, .length = Bytes(1)},
                        {.time = 1s, .length = Bytes(4), .direction = Direction::kWrite, .completed = 1s}};
  ASSERT_TRUE(write_file(one, directory.path() + "/b.trace"));
  const auto read = read_files({directory.path()}, Names::kPaths);
  ASSERT_TRUE(read);
  ASSERT_THAT(*read, SizeIs(1));
  const Recording& got = read->front();
  EXPECT_THAT(got.problems.texts(), ElementsAre(HasSubstr("a.trace: byte 0")));
  EXPECT_EQ(got.start, one.start);
  ASSERT_THAT(got.trace.requests, SizeIs(3));
  EXPECT_EQ(got.trace.requests[0].completed, 2s);
  EXPECT_EQ(got.trace.requests[0].process, 3u);
  EXPECT_FALSE(got.trace.requests[1].has_completed());
  EXPECT_EQ(got.trace.requests[2].completed, 1s);
}

}  // namespace
}  // namespace tutti::trace
