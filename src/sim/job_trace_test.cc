// SPDX-License-Identifier: Apache-2.0
#include "sim/job_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/temporary_directory.h"
#include "sim/metrics.h"
#include "sim/scenario_file.h"
#include "trace/dxt.h"
#include "trace/live_files.h"

namespace tutti::sim {
namespace {

using namespace literals;
using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string mistake_in(std::string_view coflows) {
  const auto trace = parse_coflows(coflows, "c.txt");
  return trace ? "" : trace.error().message;
}

TEST(JobTrace, CoflowsBecomeJobsWithBytesOfEachServer) {
  const auto trace = parse_coflows("4 2\n1 0 1 3 1 2:1.0\r\n\n7 1500 2 0 1 2 0:3.0 3:0.5\n", "c.txt");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->servers, 4u);
  ASSERT_EQ(trace->jobs.size(), 2u);
  EXPECT_EQ(trace->jobs[1].name, "coflow-7");
  EXPECT_EQ(trace->jobs[1].start, 1500ms);
  EXPECT_EQ(trace->jobs[1].ranks, 2u);
  EXPECT_THAT(trace->jobs[1].server_bytes, ElementsAre(1536_KiB, 0_B, 0_B, 256_KiB));  // of each mapper
  EXPECT_EQ(trace->jobs[1].size, 1792_KiB);
}

TEST(JobTrace, MistakesInCoflowsNameTheLineAndWhatIsExpected) {
  EXPECT_THAT(mistake_in("hello\n"), AllOf(HasSubstr("c.txt:1: 'hello' is not the number of ports")));
  EXPECT_THAT(mistake_in("4 2 1\n"), HasSubstr("c.txt:1: the first line of a coflow file is 'PORTS COFLOWS'"));
  EXPECT_THAT(mistake_in("4 1\n1 0 1 4 1 2:1.0\n"),
              HasSubstr("c.txt:2: '4' is not a mapper's port, a number from 0 to 3"));
  EXPECT_THAT(mistake_in("4 1\n1 0 1 3 2 2:1.0\n"), HasSubstr("c.txt:2: ends where a reducer as PORT:MB should be"));
  EXPECT_THAT(mistake_in("4 1\n1 0 1 3 1 2\n"), HasSubstr("c.txt:2: '' is not a reducer's size in MB"));
  EXPECT_THAT(mistake_in("4 1\n1 0 1 3 1 2:-1\n"), HasSubstr("c.txt:2: '-1' is not a reducer's size in MB"));
  EXPECT_THAT(mistake_in("4 1\n1 0 1 3 1 2:nan\n"), HasSubstr("'nan' is not"));
  EXPECT_THAT(mistake_in("4 1\n1 0 0 1 2:1\n"), HasSubstr("c.txt:2: a coflow needs at least one mapper"));
  EXPECT_THAT(mistake_in("4 1\n1 0 1 3 2 2:6e7 2:6e7\n"), HasSubstr("'6e7' is not a reducer's size in MB"));
  EXPECT_THAT(mistake_in("4 1\n1 0 1 3 1 2:1.0 3:1.0\n"), HasSubstr("c.txt:2: has more words"));
  EXPECT_THAT(mistake_in("4 2\n1 0 1 3 1 2:1.0\n"), HasSubstr("c.txt: has 1 coflows, its first line says 2"));
  EXPECT_THAT(mistake_in(""), HasSubstr("c.txt: has 0 coflows"));
}

class JobTraceFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, std::string_view text) {
    const std::string path = directory_.path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  const TemporaryDirectory directory_;
};

constexpr std::string_view kServers = R"([servers]
count = 4
device = { kind = "fixed", latency = "0s", bandwidth = "1MiB" }
[network]
latency = "0s"
)";

TEST_F(JobTraceFiles, AScenarioRunsTheCoflowsOfAFileBesideIt) {
  write("two.txt", "4 2\n1 0 1 3 1 2:2.0\n2 1000 2 0 1 2 0:4.0 2:1.0\n");
  const std::string file = write("s.toml", std::string(kServers) + "[[applications]]\ntrace = \"two.txt\"\n");
  const auto scenario = load_scenario(file);
  ASSERT_TRUE(scenario) << scenario.error().message;
  const auto measured = measure(*scenario);
  ASSERT_TRUE(measured) << measured.error().message;
  // 1 MiB/s: the first needs 2 s on server 2; the second starts at 1 s, needs 4 s on server 0 and waits on server 2.
  ASSERT_EQ(measured->metrics.applications.size(), 2u);
  EXPECT_NEAR(measured->metrics.applications[0].end, 2, 0.01);
  EXPECT_NEAR(measured->metrics.applications[1].end, 5, 0.01);
  EXPECT_EQ(measured->metrics.applications[1].name, "coflow-2");
  EXPECT_NEAR(measured->metrics.applications[1].mebibytes, 5, 1e-9);
}

TEST_F(JobTraceFiles, ArrivalsOfATraceStartCopiesOfAJob) {
  write("two.txt", "4 2\n1 250 1 3 1 2:2.0\n2 1000 2 0 1 1 0:4.0\n");
  const auto scenario = load_scenario(
      write("s.toml", std::string(kServers) + "[[applications]]\nname = \"job\"\narrivals = \"two.txt\"\nranks = 3\n"));
  ASSERT_TRUE(scenario) << scenario.error().message;
  ASSERT_EQ(scenario->applications.size(), 2u);
  EXPECT_EQ(scenario->applications[0].start, 250ms);
  EXPECT_EQ(scenario->applications[1].start, 1s);
  EXPECT_EQ(scenario->applications[1].name, "job1");
  EXPECT_EQ(scenario->applications[1].ranks, 3u);
}

constexpr std::string_view kDxt = R"(# jobid: 42
# start_time: 1580000000
# nprocs: 2

# DXT, file_id: 11542722479531699073, file_name: /scratch/out
# DXT, rank: 0, hostname: n1
 X_POSIX       0  write        0               0         1048576      0.0100      0.0200  [  3]
 X_POSIX       0  write        1         1048576         1048576      0.0300      0.0500  [  7]
)";

TEST_F(JobTraceFiles, TracesOfRequestsBecomeTheApplicationsOfTheExport) {
  const std::string dxt = write("log.txt", kDxt), recorded = directory_.path() + "/log.trace";
  const auto recording = trace::parse_dxt(kDxt, dxt, trace::Names::kPaths);
  ASSERT_TRUE(recording);
  ASSERT_TRUE(trace::write_file(*recording, recorded));
  for (const char* name : {"log.txt", "log.trace", "."}) {
    const auto scenario = load_scenario(
        write("s.toml", std::string(kServers) + "[[applications]]\nsizes = \"announced\"\ntrace = \"" + name + "\"\n"));
    ASSERT_TRUE(scenario) << scenario.error().message;
    ASSERT_EQ(scenario->applications.size(), 1u) << name;
    EXPECT_EQ(scenario->applications[0].name, "42-write");
    EXPECT_EQ(scenario->applications[0].operations, 2u);
    EXPECT_EQ(scenario->applications[0].size, 1_MiB);
    EXPECT_EQ(scenario->applications[0].sizes, PhaseSizes::kAnnounced);
  }
}

TEST_F(JobTraceFiles, MistakesNameFileLineAndKey) {
  write("two.txt", "6 1\n1 0 1 3 1 5:2.0\n");
  write("bad.txt", "4 1\n1 0 x\n");
  const auto message = [&](const std::string& rest) {
    const auto scenario = load_scenario(write("s.toml", std::string(kServers) + "[[applications]]\n" + rest));
    return scenario ? "" : scenario.error().message;
  };
  EXPECT_THAT(message("trace = \"two.txt\"\n"),
              AllOf(HasSubstr("s.toml:7"), HasSubstr("applications[0].trace"), HasSubstr("set servers.count = 6")));
  EXPECT_THAT(message("trace = \"bad.txt\"\n"), AllOf(HasSubstr("s.toml:7"), HasSubstr("bad.txt:2: 'x' is not")));
  EXPECT_THAT(message("trace = \"none.txt\"\n"), HasSubstr("none.txt"));
  EXPECT_THAT(message("trace = \"two.txt\"\nranks = 2\n"), AllOf(HasSubstr("ranks"), HasSubstr("comes from `trace`")));
  EXPECT_THAT(message("arrivals = \"two.txt\"\nstart = \"1s\"\n"), HasSubstr("comes from `arrivals`"));
}

}  // namespace
}  // namespace tutti::sim
