// SPDX-License-Identifier: Apache-2.0
// Translation of AGIOS's configuration keys to policies and options of Tutti.
#include "configuration.h"

#include <gmock/gmock.h>

#include "agios_testing.h"

namespace tutti::agios {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<Configuration> read(const std::string& text, std::int32_t queues = 0) {
  TemporaryFile file(text);
  return read_configuration(file.path(), queues);
}

TEST(AgiosConfiguration, MapsAlgorithmsToPolicies) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"NOOP", "fifo"},   {"TO", "to"},     {"TO-agg", "to"},   {"SJF", "sjf"}, {"MLF", "mlf"},
      {"aIOLi", "aioli"}, {"SW", "window"}, {"TWINS", "twins"}, {"WFQ", "fair"}};
  for (const auto& [name, policy] : table) {
    const auto configuration = read(algorithm(name), 8);
    ASSERT_TRUE(configuration) << configuration.error().message;
    EXPECT_EQ(configuration->policy, policy) << name;
    EXPECT_THAT(configuration->remarks, IsEmpty());
  }
}

TEST(AgiosConfiguration, KeepsTheUnitsOfEachKey) {
  const std::string keys =
      "waiting_time = 700000\naioli_quantum = 32768\nmlf_quantum = 4096\nSW_window = 250\ntwins_window = 500\n";
  const auto with = [&](const std::string& name) {
    return read(options(keys + "default_algorithm = \"" + name + "\" ;"), 8).value().options;
  };
  EXPECT_EQ(with("MLF"), (PolicyOptions{{"quantum", "4096"}, {"wait", "700000ns"}}));
  EXPECT_EQ(with("aIOLi"), (PolicyOptions{{"quantum", "32768"}, {"wait", "700000ns"}}));
  EXPECT_EQ(with("SW"), (PolicyOptions{{"width", "250ms"}}));
  EXPECT_EQ(with("TWINS"), (PolicyOptions{{"width", "500us"}, {"targets", "8"}}));
  EXPECT_EQ(with("TO"), (PolicyOptions{{"max_requests", "1"}}));
  EXPECT_EQ(with("TO-agg"), PolicyOptions{});
}

TEST(AgiosConfiguration, ReportsEveryKeyThatHasNoEffect) {
  const auto configuration = read(options("trace = false ;\n"
                                          "trace_file_sufix = \"out\"\n"
                                          "performance_values = 5\n"
                                          "enable_SW = false\n"
                                          "SW_windows = 1\n") +
                                  "other: { };\n");
  ASSERT_TRUE(configuration) << configuration.error().message;
  EXPECT_THAT(configuration->remarks,
              ElementsAre(AllOf(HasSubstr(":4: 'trace_file_sufix'"), HasSubstr("end in .NUMBER.trace")),
                          HasSubstr("'performance_values'"), HasSubstr("'enable_SW'"),
                          AllOf(HasSubstr(":7: 'SW_windows'"), HasSubstr("no such key")), HasSubstr("'other'")));
}

TEST(AgiosConfiguration, TracesAreOffUnlessAskedFor) {
  EXPECT_EQ(read(options("trace_file_prefix = \"/tmp/x\""))->trace, "");
  EXPECT_EQ(read(options("trace = true"))->trace, "/tmp/agios_tracefile");
  EXPECT_EQ(read(options("trace = true ; trace_file_prefix = \"/tmp/x\""))->trace, "/tmp/x");
  EXPECT_FALSE(read(options("trace = 1")));
  const auto predicted = read(algorithm("MLF") + "tutti_options: { predict = \"/tmp/x\"; };\n");
  EXPECT_EQ(predicted->predict, "/tmp/x");
  EXPECT_FALSE(predicted->options.contains("predict"));
}

TEST(AgiosConfiguration, SaysWhereAValueIsWrong) {
  const auto message = [](const std::string& text) {
    const auto configuration = read(text);
    EXPECT_FALSE(configuration) << text;
    return configuration ? "" : configuration.error().message;
  };
  EXPECT_THAT(message(options("SW_window = \"wide\"")), AllOf(HasSubstr(":3: 'SW_window'"), HasSubstr("whole number")));
  EXPECT_THAT(message(options("twins_window = 0")), HasSubstr("at least 1"));
  EXPECT_THAT(message(options("waiting_time = -1")), HasSubstr("at least 0"));
  EXPECT_THAT(message(options("default_algorithm = 3")), HasSubstr("a text in quotes"));
  EXPECT_THAT(message(algorithm("elevator")), AllOf(HasSubstr("'elevator'"), HasSubstr("aIOLi"), HasSubstr("concert")));
  EXPECT_THAT(message("library_options: {"), HasSubstr("syntax error"));
  EXPECT_THAT(message("library_options = 3;"), HasSubstr("a group"));
  EXPECT_FALSE(read_configuration("/nonexistent/agios.conf", 0));
}

TEST(AgiosConfiguration, FallsBackToTheStartingAlgorithm) {
  const auto configuration = read(options("default_algorithm = \"DYN_TREE\"\nstarting_algorithm = \"SW\""));
  ASSERT_TRUE(configuration);
  EXPECT_EQ(configuration->policy, "window");
  EXPECT_THAT(configuration->remarks, ElementsAre(HasSubstr("'DYN_TREE'")));
}

TEST(AgiosConfiguration, TakesTuttisOwnPoliciesAndOptions) {
  const auto configuration = read(algorithm("concert") + "tutti_options: { gather = \"3ms\"; };");
  ASSERT_TRUE(configuration);
  EXPECT_EQ(configuration->policy, "concert");
  EXPECT_EQ(configuration->options, (PolicyOptions{{"gather", "3ms"}}));

  AgiosServer server;
  EXPECT_FALSE(server.start(algorithm("NOOP") + "tutti_options: { nonsense = \"1\"; };"));
}

TEST(AgiosConfiguration, ReadsTheWeightsOfWfq) {
  TemporaryFile weights("10 1\n\n2.5\n");
  const std::string lines = "default_algorithm = \"WFQ\"\nwfq_conf = \"" + std::string(weights.path()) + "\"";
  const auto configuration = read(options(lines));
  ASSERT_TRUE(configuration) << configuration.error().message;
  EXPECT_EQ(configuration->options, (PolicyOptions{{"weights", "0=10, 1=1, 2=2.5"}}));

  for (const char* wrong : {"0", "-1", "one", "1x", "inf", "# 1"}) {
    TemporaryFile file(std::string("7 1\n") + wrong + "\n");
    const auto read = read_weights(file.path());
    ASSERT_FALSE(read) << wrong;
    EXPECT_THAT(read.error().message, HasSubstr("queue 2 is '"));
  }
  EXPECT_FALSE(read_weights("/nonexistent/weights"));
}

TEST(AgiosConfiguration, HasDefaultsWithoutAFile) {
  if (access("/etc/agios.conf", F_OK) == 0) GTEST_SKIP() << "this machine has a configuration of its own";
  const auto configuration = read_configuration(nullptr, 0);
  ASSERT_TRUE(configuration);
  EXPECT_EQ(configuration->policy, "sjf");
}

}  // namespace
}  // namespace tutti::agios
