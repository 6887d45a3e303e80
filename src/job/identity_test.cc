// SPDX-License-Identifier: Apache-2.0
#include "job/identity.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

namespace tutti::job {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class IdentityTest : public testing::Test {
 protected:
  Result<Identity> identify() { return job::identify(environment_, options_); }
  Identity known() { return identify().value(); }
  std::string complaint() { return identify().error().message; }

  std::map<std::string, std::string> variables_;
  const Environment environment_ = [this](const char* name) {
    const auto found = variables_.find(name);
    return found == variables_.end() ? nullptr : found->second.c_str();
  };
  IdentityOptions options_{.session = 99, .program = "a.out"};
};

TEST_F(IdentityTest, TheNumberComesFromTheBatchSystem) {
  EXPECT_EQ(known().number, 99u);
  variables_["PBS_JOBID"] = "4711.server";
  EXPECT_EQ(known().number, 4711u);
  variables_["SLURM_JOB_ID"] = "12";
  EXPECT_EQ(known().application, 12u);
  variables_["TUTTI_APP"] = "climate";
  EXPECT_LT(known().application, 32768u);
  EXPECT_EQ(known().application, known().application);
  variables_["TUTTI_APP"] = "";
  EXPECT_EQ(known().number, 12u) << "an empty variable is not set";
}

TEST_F(IdentityTest, LargeNumbersStayDifferent) {
  std::set<ApplicationId> seen;
  for (const char* number : {"5", "4294967295", "4294967296", "4294967301", "18446744073709551615"}) {
    variables_["FLUX_JOB_ID"] = number;
    EXPECT_EQ(std::to_string(known().number), number);
    EXPECT_TRUE(seen.insert(known().application).second) << number;
  }
  variables_["FLUX_JOB_ID"] = "18446744073709551616";  // more than 64 bits: handled as text
  EXPECT_LT(known().number, 32768u);
}

TEST_F(IdentityTest, TheOrderIdIsDrawnFromTheRange) {
  std::set<OrderId> seen;
  for (int number = 0; number < 1000; ++number) {
    variables_["TUTTI_APP"] = std::to_string(number);
    EXPECT_EQ(known().order, known().order);
    EXPECT_LE(known().order, 32767u);
    seen.insert(known().order);
  }
  EXPECT_GT(seen.size(), 950u) << "spread over the range";
  options_.order_ids = {100, 103};
  seen.clear();
  for (int number = 0; number < 100; ++number) {
    variables_["TUTTI_APP"] = std::to_string(number);
    seen.insert(known().order);
  }
  EXPECT_THAT(seen, testing::ElementsAre(100, 101, 102, 103));
  options_.order_ids = {0, 4294967295};
  EXPECT_TRUE(identify());
  options_.order_ids = {7, 7};
  EXPECT_EQ(known().order, 7u);
  variables_["TUTTI_ORDER"] = "3";
  EXPECT_EQ(known().order, 3u);
  options_.order_ids = {7, 6};
  EXPECT_EQ(identify().error().code, ErrorCode::kInvalid);
}

TEST_F(IdentityTest, TheNumberOfProcessesIsReadFromTheLauncher) {
  EXPECT_EQ(known().processes, 1u);
  variables_["PMI_SIZE"] = "8";
  EXPECT_EQ(known().processes, 8u);
  variables_["SLURM_STEP_NUM_TASKS"] = "64";
  EXPECT_EQ(known().processes, 64u);
  variables_["TUTTI_PROCESSES"] = "2";
  EXPECT_EQ(known().processes, 2u);
}

TEST_F(IdentityTest, AWrongVariableIsAnErrorThatNamesIt) {
  for (const char* wrong : {"many", "0", "-1", "12x", " 4", "99999999999"}) {
    variables_["TUTTI_PROCESSES"] = wrong;
    ASSERT_FALSE(identify()) << wrong;
    EXPECT_EQ(identify().error().code, ErrorCode::kInvalid);
    EXPECT_THAT(complaint(), AllOf(HasSubstr("TUTTI_PROCESSES"), HasSubstr(wrong), HasSubstr("from 1 to")));
  }
  variables_.clear();
  variables_["TUTTI_ORDER"] = "x";
  EXPECT_THAT(complaint(), AllOf(HasSubstr("TUTTI_ORDER"), HasSubstr("'x'"), HasSubstr("from 0 to 4294967295")));
  variables_.clear();
  variables_["OMPI_COMM_WORLD_SIZE"] = "two";
  EXPECT_THAT(complaint(), HasSubstr("OMPI_COMM_WORLD_SIZE"));
  variables_.clear();
  options_.processes = 0;
  EXPECT_THAT(complaint(), HasSubstr("processes is 0"));
}

TEST_F(IdentityTest, WithANumberFromTheProgramTheEnvironmentIsNotUsed) {
  variables_ = {{"TUTTI_APP", "5"}, {"TUTTI_ORDER", "1"}, {"TUTTI_PROCESSES", "many"}};
  options_.application = 17;
  const OrderId drawn = known().order;
  EXPECT_EQ(known().number, 17u);
  EXPECT_EQ(known().processes, 1u);
  options_.order = 9;
  EXPECT_EQ(known().order, 9u);
  EXPECT_NE(drawn, 1u);
}

TEST_F(IdentityTest, Names) {
  EXPECT_EQ(known().name, "a.out");
  variables_["TUTTI_APP"] = "4711";
  EXPECT_EQ(known().name, "a.out") << "a number is different in every run";
  variables_["TUTTI_APP"] = "climate";
  EXPECT_EQ(known().name, "climate");
  variables_["JOB_NAME"] = "ocean";
  EXPECT_EQ(known().name, "ocean");
  variables_["TUTTI_JOB"] = std::string(300, 'x');
  EXPECT_EQ(known().name.size(), 200u);
  options_.name = "given";
  EXPECT_EQ(known().name, "given");
}

TEST(OrderRange, IsTwoNumbersOrOne) {
  EXPECT_EQ(parse_order_range("0-32767")->high, 32767u);
  EXPECT_EQ(parse_order_range("5")->low, 5u);
  EXPECT_EQ(parse_order_range("5")->high, 5u);
  for (const char* wrong : {"", "-", "5-", "-5", "7-6", "a-b", "1-2-3", "0-4294967296"})
    EXPECT_THAT(parse_order_range(wrong).error().message, HasSubstr("LOW-HIGH")) << wrong;
}

}  // namespace
}  // namespace tutti::job
