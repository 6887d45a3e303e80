// SPDX-License-Identifier: Apache-2.0
#include "trace/dxt.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <span>

#include "sched/prediction/predicted_queues.h"

namespace tutti::trace {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::string_view kLog = R"(# darshan log version: 3.21
# compression method: ZLIB
# exe: /home/u/ior -a MPIIO
# uid: 1000
# jobid: 4233209
# start_time: 1580000000
# start_time_asci: Sun Jan 26 00:53:20 2020
# nprocs: 2
# run time: 12.5
# mount entry:	/scratch	lustre

# DXT, file_id: 11542722479531699073, file_name: /scratch/run17/out.0001
# DXT, rank: 0, hostname: n1
# DXT, write_count: 2, read_count: 1
# DXT, mnt_pt: /scratch, fs_type: lustre
# DXT, Lustre stripe_size: 1048576, Lustre stripe_count: 2
# DXT, Lustre OST obdidx: 3 7
# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)  [OST]
 X_POSIX       0  write        0               0         1048576      0.0100      0.0200  [  3]
 X_POSIX       0  write        1         1048576         2097152      0.0300      0.0500  [  7] [  3]
 X_MPIIO       0  write        0               0         3145728      0.0090      0.0510
 X_POSIX       0   read        0               0            4096      0.0900      0.0910  [  3]  140234567

# DXT, file_id: 11542722479531699073, file_name: /scratch/run17/out.0001
# DXT, rank: 1, hostname: n2
 X_POSIX       1  write        0         8388608         1048576      0.0050      0.0100  [  3]  N/A
 X_MPIIO       1  write        0         8388608         1048576      0.0040      0.0110  -1

# DXT, file_id: 99, file_name: /scratch/run17/only-mpiio
 X_MPIIO       1  write        0               0             512      2.0000      2.5000
 X_MPIIO       1  write        1               0               0      2.0000      2.5000
)";

TEST(Dxt, ReadsRowsOfOneLayerPerFile) {
  const auto recording = parse_dxt(kLog, "log.txt", Names::kPatterns);
  ASSERT_TRUE(recording) << recording.error().message;
  EXPECT_THAT(recording->problems.texts(), IsEmpty());
  EXPECT_THAT(recording->trace.files, ElementsAre("/scratch/run#/out.#", "/scratch/run#/only-mpiio"));
  EXPECT_EQ(recording->facts.at("exe"), "/home/u/ior -a MPIIO");
  EXPECT_EQ(recording->facts.at("nprocs"), "2");
  EXPECT_EQ(recording->start, TimePoint(1580000000s + 5ms));
  const auto& requests = recording->trace.requests;
  ASSERT_THAT(requests, SizeIs(6));
  EXPECT_EQ(requests[0].process, 1u);
  EXPECT_EQ(requests[0].time, 0s);
  EXPECT_EQ(requests[0].completed, 5ms);
  EXPECT_EQ(requests[0].application, 4233209u);
  EXPECT_EQ(requests[0].offset, 8388608u);
  EXPECT_EQ(requests[1].time, 5ms);
  EXPECT_EQ(requests[1].target, 3u);
  EXPECT_EQ(requests[4].direction, Direction::kRead);
  EXPECT_EQ(requests[5].file, 1u);
  EXPECT_EQ(requests[5].length, Bytes(512));
  EXPECT_EQ(recording->facts.at("mount_0"), "/scratch lustre");
}

// Target, offset and length of a request.
std::vector<std::string> pieces(const Recording& recording) {
  std::vector<std::string> texts;
  for (const TraceRequest& request : recording.trace.requests)
    texts.push_back(fmt::format("{}: {}+{}", request.target, request.offset, request.length.count()));
  return texts;
}

std::vector<std::string> pieces_of(const std::string& text, DxtRows rows = DxtRows::kSplit) {
  const auto recording = parse_dxt(text, "x", Names::kPaths, rows);
  return recording ? pieces(*recording) : std::vector<std::string>{recording.error().message};
}

TEST(Dxt, SplitsARowIntoOneRequestForEachOst) {
  const auto recording = parse_dxt(kLog, "log.txt", Names::kPaths);
  ASSERT_TRUE(recording);
  const auto& requests = recording->trace.requests;
  EXPECT_EQ(requests[2].target, 7u);
  EXPECT_EQ(requests[2].offset, 1048576u);
  EXPECT_EQ(requests[2].length, Bytes(1048576));
  EXPECT_EQ(requests[3].target, 3u);
  EXPECT_EQ(requests[3].offset, 2097152u);
  EXPECT_EQ(requests[3].length, Bytes(1048576));
  for (const std::size_t piece : {2, 3}) {
    EXPECT_EQ(requests[piece].time, 25ms);
    EXPECT_EQ(requests[piece].completed, 45ms);
    EXPECT_EQ(requests[piece].process, 0u);
  }
}

const std::string kEightOsts =
    "# DXT, file_id: 1, file_name: /a\n"
    "# DXT, Lustre stripe_size: 1000, Lustre stripe_count: 8\n"
    "# DXT, Lustre OST obdidx: 21 3 5 40 7 9 11 13\n";

TEST(Dxt, SplitsRowsOverEightOsts) {
  // From the middle of one stripe to the middle of another one, and once around: the first OST has parts of two
  // stripes.
  EXPECT_THAT(pieces_of(kEightOsts + " X_POSIX 0 write 0 6500 2000 0.1 0.2 [ 11] [ 13] [ 21]\n"),
              ElementsAre("11: 6500+500", "13: 7000+1000", "21: 8000+500"));
  EXPECT_THAT(pieces_of(kEightOsts + " X_POSIX 0 write 0 500 8000 0.1 0.2 [ 21]\n"),
              ElementsAre("21: 500+1000", "3: 1000+1000", "5: 2000+1000", "40: 3000+1000", "7: 4000+1000",
                          "9: 5000+1000", "11: 6000+1000", "13: 7000+1000"));
  EXPECT_THAT(pieces_of(kEightOsts + " X_POSIX 0 write 0 0 80100 0.1 0.2\n"),
              ElementsAre("21: 0+10100", "3: 1000+10000", "5: 2000+10000", "40: 3000+10000", "7: 4000+10000",
                          "9: 5000+10000", "11: 6000+10000", "13: 7000+10000"));
  EXPECT_THAT(pieces_of(kEightOsts + " X_POSIX 0 write 0 6500 2000 0.1 0.2 [ 11] [ 13] [ 21]\n", DxtRows::kWhole),
              ElementsAre("11: 6500+2000"));
}

TEST(Dxt, SplitsRowsByComponents) {
  const std::string components =
      "# DXT, file_id: 1, file_name: /a\n"
      "# DXT, Lustre stripe components:\n"
      "#\t[Component 1] stripe_ext: 0 - 1000, stripe_size: 1000, stripe_count: 1, OSTs: 4\n"
      "#\t[Component 2] stripe_ext: 1000 - EOF, stripe_size: 500, stripe_count: 3, OSTs: 7, 8, 9\n"
      "#\t[Component 3] stripe_ext: 5000 - EOF, stripe_size: 500, stripe_count: 0, OSTs:\n";
  EXPECT_THAT(pieces_of(components + " X_POSIX 0 write 0 400 1700 0.1 0.2 [  4] [  9] [  7] [  8]\n"),
              ElementsAre("4: 400+600", "9: 1000+500", "7: 1500+500", "8: 2000+100"));
  EXPECT_THAT(pieces_of(components + " X_POSIX 0 write 0 6000 100 0.1 0.2\n"), ElementsAre("7: 6000+100"));
}

TEST(Dxt, DividesRowsEquallyIfTheLayoutIsNotKnown) {
  const std::string file = "# DXT, file_id: 1, file_name: /a\n";
  const std::string row = " X_POSIX 0 write 0 6500 2000 0.1 0.2 [ 11] [ 13] [ 21]  140234567\n";
  const auto equally = ElementsAre("11: 6500+667", "13: 7167+667", "21: 7834+666");
  EXPECT_THAT(pieces_of(file + row), equally);
  EXPECT_THAT(pieces_of(file + "# DXT, Lustre stripe_size: 1000, Lustre stripe_count: 8\n" + row), equally);
  EXPECT_THAT(pieces_of(file + "# DXT, Lustre OST obdidx: 11 13 21\n" + row), equally);
  // Two components with the same bytes: mirrors.
  EXPECT_THAT(
      pieces_of(file + "# [Component 1] stripe_size: 9, OSTs: 1\n# [Component 2] stripe_size: 9, OSTs: 2\n" + row),
      equally);
  // Fewer bytes than OSTs, brackets without a number, no OST at all.
  EXPECT_THAT(pieces_of(file + " X_POSIX 0 write 0 5 2 0.1 0.2 [1] [2] [3]\n"), ElementsAre("1: 5+1", "2: 6+1"));
  EXPECT_THAT(pieces_of(file + " X_POSIX 0 write 0 5 2 0.1 0.2 [] [x] [2] [70000] [\n"), ElementsAre("2: 5+2"));
  EXPECT_THAT(pieces_of(file + " X_POSIX 0 write 0 5 2 0.1 0.2 N/A\n"), ElementsAre("0: 5+2"));
  // The row begins on another OST than the layout says.
  EXPECT_THAT(pieces_of(kEightOsts + " X_POSIX 0 write 0 6500 2000 0.1 0.2 [ 99] [ 98]\n"),
              ElementsAre("99: 6500+1000", "98: 7500+1000"));
}

TEST(Dxt, TellsMountsApart) {
  const auto recording = parse_dxt(
      "# mount entry:\t/home\tnfs\n# mount entry:\t/scratch\tlustre\n# mount entry:\t/\text4\n"
      "# DXT, file_id: 1, file_name: /home/a\n"
      " X_POSIX 0 write 0 0 1 0.1 0.2\n"
      "# DXT, file_id: 2, file_name: /scratch/a\n"
      " X_POSIX 0 write 0 0 1 0.2 0.3 [  3]\n"
      "# DXT, file_id: 3, file_name: /work/a\n"
      "# DXT, mnt_pt: /work, fs_type: lustre\n"
      " X_POSIX 0 write 0 0 1 0.3 0.4 [  3]\n"
      "# DXT, file_id: 4, file_name: /scratch2/a\n"
      " X_POSIX 0 write 0 0 1 0.4 0.5\n",
      "x", Names::kPaths);
  ASSERT_TRUE(recording);
  EXPECT_THAT(pieces(*recording), ElementsAre("131072: 0+1", "3: 0+1", "65539: 0+1", "196608: 0+1"));
  EXPECT_EQ(recording->facts.at("mount_0"), "/scratch lustre");
  EXPECT_EQ(recording->facts.at("mount_65536"), "/work lustre");
  EXPECT_EQ(recording->facts.at("mount_131072"), "/home nfs");
  EXPECT_EQ(recording->facts.at("mount_196608"), "/ ext4");
}

// Darshan 3.1 did not record the offsets of MPI-IO rows. They do not matter if the file has POSIX rows.
TEST(Dxt, LeavesOutRowsWithoutOffsets) {
  const std::string posix = "# DXT, file_id: 1, file_name: /a\n X_POSIX 0 write 0 5 10 0.1 0.2\n";
  const std::string old =
      "# DXT, file_id: 1, file_name: /a\n"
      "# Module    Rank  Wt/Rd  Segment       Length    Start(s)      End(s)\n"
      " X_MPIIO     117  write        1     51876480      8.0497      8.9264\n";
  const std::string converted =
      "# DXT, file_id: 1, file_name: /a\n"
      "# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)\n"
      " X_MPIIO     117  write        1     -1     51876480      8.0497      8.9264\n";
  const auto both = parse_dxt(posix + old + converted, "x", Names::kPaths);
  ASSERT_TRUE(both);
  EXPECT_THAT(both->problems.texts(), IsEmpty());
  EXPECT_THAT(pieces(*both), ElementsAre("0: 5+10"));
  EXPECT_THAT(pieces_of(old), ElementsAre(HasSubstr("line 3: a row without offset")));
  EXPECT_THAT(pieces_of(converted), ElementsAre(HasSubstr("line 3: column 5, the offset, is -1")));
}

// Each OST expects its own piece.
TEST(Dxt, PiecesArePredictedOnTheirOst) {
  const auto recording =
      parse_dxt(kEightOsts + " X_POSIX 0 write 0 6500 2000 0.1 0.2 [ 11] [ 13] [ 21]\n", "x", Names::kPatterns);
  ASSERT_TRUE(recording);
  const auto queues = PredictedQueues::combine(std::span(&recording->trace, 1));
  const auto expected = [&](TargetId target, std::uint64_t offset, Bytes length) {
    const PredictedQueue* queue = queues->find({queues->find_file("/a"), target, Direction::kWrite});
    return queue != nullptr && queue->find(offset, length) != PredictedQueue::kNone;
  };
  EXPECT_TRUE(expected(11, 6500, Bytes(500)));
  EXPECT_TRUE(expected(13, 7000, Bytes(1000)));
  EXPECT_TRUE(expected(21, 8000, Bytes(500)));
  EXPECT_FALSE(expected(11, 6500, Bytes(2000)));
}

TEST(Dxt, ReportsLayoutsThatCannotBeUsed) {
  const auto recording = parse_dxt(
      "# DXT, file_id: 1, file_name: /a\n"
      "# DXT, Lustre stripe_size: 0, Lustre stripe_count: 2\n"
      "# DXT, Lustre OST obdidx: 1 -1\n"
      "#\t[Component 1] stripe_ext: 9 - 4, stripe_size: 5, stripe_count: 3, OSTs: 7\n"
      "#\t[Component 2] stripe_ext: 0 - EOF, stripe_size: 5, stripe_count: 3, OSTs: 7\n"
      " X_POSIX 0 write 0 0 10 0.1 0.2\n",
      "x", Names::kPaths);
  ASSERT_TRUE(recording);
  EXPECT_THAT(recording->problems.texts(),
              ElementsAre(HasSubstr("x: line 2: stripe_size is not"), HasSubstr("line 3: an OST is not"),
                          HasSubstr("line 4: stripe_ext is not"), HasSubstr("line 5: stripe_count is not")));
  EXPECT_THAT(pieces(*recording), ElementsAre("7: 0+10"));
}

TEST(Dxt, AcceptsLinesOfComponentsAndWindowsLineEnds) {
  const auto recording = parse_dxt(
      "# DXT, file_id: 1, file_name: /a b/c\r\n"
      "# DXT, [Component 1] Lustre stripe_size: 1048576, Lustre stripe_count: 1\r\n"
      "# DXT, [Component 1] Lustre OST obdidx: 5\r\n"
      " X_POSIX 0 write 0 0 10 0.1 0.2\r\n",
      "x", Names::kPaths);
  ASSERT_TRUE(recording);
  EXPECT_THAT(recording->problems.texts(), IsEmpty());
  EXPECT_THAT(recording->trace.files, ElementsAre("/a b/c"));
  EXPECT_THAT(recording->trace.requests, SizeIs(1));
}

TEST(Dxt, ReportsRowsThatCannotBeReadWithTheirLine) {
  const auto recording = parse_dxt(
      " X_POSIX 0 write 0 0 10 0.1 0.2\n"
      "# DXT, file_id: 1, file_name: /a\n"
      " X_POSIX 0 write 0 0 10 0.1\n"
      " X_POSIX 0 write 0 0 ten 0.1 0.2\n"
      " X_POSIX 0 erase 0 0 10 0.1 0.2\n"
      " X_POSIX 0 write 0 18446744073709551615 10 0.1 0.2\n"
      " X_POSIX 0 write 0 0 10 nan 0.2\n"
      "what is this\n"
      " X_STDIO 0 write 0 0 10 0.1 0.2\n"
      " X_POSIX 0 write 0 0 10 0.5 0.2\n"
      "# DXT, file_id: 2\n"
      " X_POSIX 0 write 0 0 10 0.1 0.2\n",
      "bad.txt", Names::kPatterns);
  ASSERT_TRUE(recording) << recording.error().message;
  EXPECT_THAT(recording->trace.requests, SizeIs(1));
  EXPECT_EQ(recording->trace.requests[0].completed, recording->trace.requests[0].time);
  EXPECT_THAT(recording->problems.texts(),
              ElementsAre(HasSubstr("bad.txt: line 1: a row before the first file"),
                          HasSubstr("line 3: a row with missing columns"), HasSubstr("line 4: column 6"),
                          HasSubstr("line 5: column 3"), HasSubstr("line 6: the row reaches past"),
                          HasSubstr("line 7: column 7"), HasSubstr("line 8: neither a comment"),
                          HasSubstr("line 10: the clock went back"), HasSubstr("line 11: a file without file_id"),
                          HasSubstr("line 12: a row before the first file")));
}

TEST(Dxt, RefusesTextWithoutRows) {
  EXPECT_THAT(parse_dxt("", "x", Names::kPaths).error().message, HasSubstr("x: line 0: no rows"));
  EXPECT_THAT(parse_dxt("hello\n", "x", Names::kPaths).error().message, HasSubstr("x: line 1: neither a comment"));
}

}  // namespace
}  // namespace tutti::trace
