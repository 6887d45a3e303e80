// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <system_error>

namespace tutti::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// A command line with an option of every kind, in a subcommand, as commands have them.
class CommandLineTest : public testing::Test {
 protected:
  CommandLineTest() {
    CommandLine& work = line_.subcommand("work", "What it does");
    work.flag("--quick", quick_, "Sooner");
    work.json(json_);
    work.option("--name", name_, "Of something");
    work.option("--rows", rows_, "At most").between(1, 64);
    work.option("--seed", seed_, "Of the draw");
    work.option("--seconds", seconds_, "Time");
    work.option("--lease", lease_, "Time");
    work.option("--buffers", buffers_, "Memory");
    work.option("--only", only_, "Some").separated_by_commas().one_of({"read", "write"});
    work.option("-o,--option", options_, "More");
    work.option("file", file_, "Where").required();
    work.action([this] { return runs_++, kDone; });
    CommandLine& turn = line_.subcommand("turn", "Runs another");
    turn.flag("--verbose", quick_, "Says more");
    turn.rest("command", command_, "The other");
    turn.action([] { return kFailed; });
  }

  // The exit status; what was printed is in printed_.
  int run(std::vector<std::string> words) {
    words.insert(words.begin(), "tutti");
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int status = line_.run(static_cast<int>(arguments.size()), arguments.data());
    printed_ = testing::internal::GetCapturedStdout();
    complaint_ = testing::internal::GetCapturedStderr();
    return status;
  }

  CommandLine line_{"tutti", "About it", "1.2.3"};
  bool quick_ = false, json_ = false;
  std::string name_ = "first", file_;
  std::uint32_t rows_ = 40;
  std::optional<std::uint64_t> seed_;
  double seconds_ = 0.5;
  Duration lease_ = std::chrono::milliseconds(250);
  Bytes buffers_{64 << 10};
  std::vector<std::string> only_{"read", "write"}, command_;
  std::map<std::string, std::string> options_;
  int runs_ = 0;
  std::string printed_, complaint_;
};

TEST_F(CommandLineTest, EveryKindOfValueIsRead) {
  EXPECT_EQ(run({"work",  "--quick",   "--json",      "--name",  "second", "--rows",    "64",   "--seed",
                 "0",     "--seconds", "1.5",         "--lease", "2s",     "--buffers", "1MiB", "--only",
                 "write", "-o",        "width=250ms", "here",    "-o",     "a=b=c"}),
            kDone);
  EXPECT_EQ(runs_, 1);
  EXPECT_TRUE(quick_ && json_);
  EXPECT_EQ(name_, "second");
  EXPECT_EQ(rows_, 64u);
  EXPECT_EQ(seed_, 0u);
  EXPECT_EQ(seconds_, 1.5);
  EXPECT_EQ(lease_, std::chrono::seconds(2));
  EXPECT_EQ(buffers_, Bytes(1 << 20));
  EXPECT_THAT(only_, ElementsAre("write"));
  EXPECT_THAT(options_, ElementsAre(Pair("a", "b=c"), Pair("width", "250ms")));
  EXPECT_EQ(file_, "here");
}

TEST_F(CommandLineTest, OmittedOptionsKeepTheirDefaults) {
  EXPECT_EQ(run({"work", "here"}), kDone);
  EXPECT_FALSE(quick_ || json_);
  EXPECT_EQ(name_, "first");
  EXPECT_EQ(rows_, 40u);
  EXPECT_FALSE(seed_);
  EXPECT_EQ(lease_, std::chrono::milliseconds(250));
  EXPECT_THAT(only_, ElementsAre("read", "write"));
}

TEST_F(CommandLineTest, HelpShowsTypesDefaultsAndLimits) {
  EXPECT_EQ(run({"work", "--help"}), kDone);
  EXPECT_EQ(runs_, 0);
  for (const char* text :
       {"Usage: tutti work [OPTIONS] file", "--name TEXT=first", "--rows UINT in [1 - 64]=40", "--seed UINT  ",
        "--seconds FLOAT=0.5", "--lease DURATION=250 ms", "--buffers SIZE=64 KiB",
        "--only TEXT:{read,write}=read,write", "-o,--option NAME=VALUE ...", "file TEXT REQUIRED", "--json"})
    EXPECT_THAT(printed_, HasSubstr(text));
}

TEST_F(CommandLineTest, WrongWordsAreNamedAndNothingRuns) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--rows", "0"}, "--rows: '0' is not a number from 1 to 64"},
      {{"--rows", "65"}, "--rows: '65' is not a number from 1 to 64"},
      {{"--rows", "1.5"}, "--rows: '1.5' is not a whole number"},
      {{"--seed", "-1"}, "--seed: '-1' is not a whole number"},
      {{"--seed", "18446744073709551616"}, "--seed: '18446744073709551616' is not a whole number that fits"},
      {{"--seconds", "soon"}, "--seconds: 'soon' is not a number"},
      {{"--lease", "5x"}, "--lease: '5x' is not a duration; write e.g. 250ms"},
      {{"--buffers", "5x"}, "--buffers: '5x' is not a size; write e.g. 65536"},
      {{"--only", "read,append"}, "--only: append not in {read,write}"},
      {{"-o", "width"}, "--option: 'width' is not of the form name=value"},
      {{"--colour"}, "--colour"},
      {{"second"}, "second"},
  };
  for (const auto& [words, text] : cases) {
    std::vector<std::string> all{"work", "here"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(run(all), kUsage) << text;
    EXPECT_THAT(complaint_, HasSubstr("tutti: "));
    EXPECT_THAT(complaint_, HasSubstr(text));
    EXPECT_THAT(complaint_, HasSubstr("see tutti work --help"));
    EXPECT_EQ(printed_, "");
  }
  EXPECT_EQ(run({"work"}), kUsage);
  EXPECT_THAT(complaint_, HasSubstr("file is required"));
  EXPECT_EQ(runs_, 0);
}

TEST_F(CommandLineTest, TheErrorForAnUnknownCommandListsTheCommands) {
  EXPECT_EQ(run({"wrok"}), kUsage);
  EXPECT_EQ(complaint_, "tutti: unknown command 'tutti wrok'; available: work, turn\n");
  EXPECT_EQ(run({}), kUsage);
  EXPECT_THAT(complaint_, HasSubstr("see tutti --help"));
}

TEST_F(CommandLineTest, RestTakesAllWordsOfAnotherCommand) {
  EXPECT_EQ(run({"turn", "--verbose", "--", "cp", "--help", "-r"}), kFailed);
  EXPECT_TRUE(quick_);
  EXPECT_THAT(command_, ElementsAre("cp", "--help", "-r"));
  EXPECT_EQ(run({"turn", "cp", "--verbose"}), kFailed);
  EXPECT_THAT(command_, ElementsAre("cp", "--verbose"));
}

TEST_F(CommandLineTest, OutputThatCannotBeWrittenIsAnError) {
  line_.subcommand("full", "Prints to a full disk").action([]() -> int {
    throw std::system_error(ENOSPC, std::generic_category(), "cannot write to file");
  });
  EXPECT_EQ(run({"full"}), kFailed);
  EXPECT_THAT(complaint_, HasSubstr("No space left on device"));
}

TEST_F(CommandLineTest, VersionIsPrinted) {
  EXPECT_EQ(run({"--version"}), kDone);
  EXPECT_THAT(printed_, HasSubstr("1.2.3"));
}

}  // namespace
}  // namespace tutti::cli
