// SPDX-License-Identifier: Apache-2.0
#include "trace/dxt.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

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
  ASSERT_THAT(requests, SizeIs(5));
  EXPECT_EQ(requests[0].process, 1u);
  EXPECT_EQ(requests[0].time, 0s);
  EXPECT_EQ(requests[0].completed, 5ms);
  EXPECT_EQ(requests[0].application, 4233209u);
  EXPECT_EQ(requests[0].offset, 8388608u);
  EXPECT_EQ(requests[1].time, 5ms);
  EXPECT_EQ(requests[1].target, 3u);
  EXPECT_EQ(requests[2].target, 7u);
  EXPECT_EQ(requests[2].length, Bytes(2097152));
  EXPECT_EQ(requests[3].direction, Direction::kRead);
  EXPECT_EQ(requests[4].file, 1u);
  EXPECT_EQ(requests[4].length, Bytes(512));
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
