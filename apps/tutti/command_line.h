// SPDX-License-Identifier: Apache-2.0
// Options and arguments of commands. Only command_line.cc includes the parser library, because it adds seconds of
// compile time to every file that includes it.
#pragma once

#include <tutti/base.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tutti::cli {

// Exit statuses.
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;  // the command failed
inline constexpr int kUsage = 2;   // wrong usage

// One option or positional argument. The members add constraints.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option& required();
  Option& between(double least, double most);  // a number, both ends included
  Option& at_least(Duration least);
  Option& at_least(Bytes least);
  Option& one_of(std::vector<std::string> words);  // each value
  Option& separated_by_commas();                   // "a,b" are two values

 private:
  CLI::Option* option_;
};

// The options, arguments and subcommands of one command. Not thread-safe.
//
// An option is named "--rows" or "-o,--option"; a name without dashes makes a positional argument. The initial value of
// the variable is the default; the help shows it unless it is empty or zero. The caller owns the variables, which must
// exist until run() returns.
class CommandLine {
 public:
  CommandLine(const std::string& program, const std::string& summary, const std::string& version);
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  void flag(const std::string& name, bool& value, const std::string& help);
  void json(bool& value);  // --json, with the usual help text

  // Value is std::string, std::uint32_t, std::uint64_t, std::optional<std::uint64_t>, double, Duration ("250ms") or
  // Bytes ("64KiB"). std::vector<std::string> and std::map<std::string, std::string> ("name=value") accept several
  // values: the option may be repeated, a positional argument is one word or more.
  template <typename Value>
  Option option(const std::string& name, Value& value, const std::string& help);
  // All words from the first one that is not an option, at least one: a command line of another program.
  void rest(const std::string& name, std::vector<std::string>& value, const std::string& help);

  // A command has an action or subcommands or both. Without an action, a subcommand is required. The returned reference
  // stays valid.
  void action(std::function<int()> action);
  CommandLine& subcommand(const std::string& name, const std::string& summary);

  // Parses the words and runs the action of the chosen command. Returns the exit status.
  int run(int argc, char** argv);

 private:
  explicit CommandLine(std::shared_ptr<CLI::App> app);
  const CommandLine& chosen() const;
  std::string error_message(const std::string& error) const;

  std::shared_ptr<CLI::App> app_;
  std::function<int()> action_;
  std::vector<std::unique_ptr<CommandLine>> subcommands_;
};

}  // namespace tutti::cli
