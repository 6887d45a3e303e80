// SPDX-License-Identifier: Apache-2.0
// What a command takes on the command line. Commands describe themselves with this alone: the library that parses costs
// every file that includes it seconds of compilation, and is included by command_line.cc only.
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
inline constexpr int kFailed = 1;  // the thing failed
inline constexpr int kUsage = 2;   // wrong usage

// One option or positional argument, to say more about it.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option& required();
  Option& between(double least, double most);      // a number, both ends included
  Option& one_of(std::vector<std::string> words);  // each value
  Option& separated_by_commas();                   // "a,b" are two values

 private:
  CLI::Option* option_;
};

// The options, arguments and subcommands of one command. Not thread-safe.
//
// An option is named "--rows" or "-o,--option"; a name without dashes makes a positional argument. What the variable
// holds is the default, which the help shows unless it is empty or zero. Variables outlive the parsing.
class CommandLine {
 public:
  CommandLine(const std::string& program, const std::string& summary, const std::string& version);
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  void flag(const std::string& name, bool& value, const std::string& help);
  void json(bool& value);  // --json, as most commands have it

  // Value is std::string, std::uint32_t, std::uint64_t, std::optional<std::uint64_t>, double, Duration ("250ms") or
  // Bytes
  // ("64KiB"). std::vector<std::string> and, of "name=value", std::map<std::string, std::string> take several: the
  // option is repeated, the argument is one word or more.
  template <typename Value>
  Option option(const std::string& name, Value& value, const std::string& help);
  // Every word from the first that is not an option, at least one: the words of another command.
  void rest(const std::string& name, std::vector<std::string>& value, const std::string& help);

  // A command has an action, or subcommands one of which must be given, or both. References stay valid.
  void action(std::function<int()> action);
  CommandLine& subcommand(const std::string& name, const std::string& summary);

  // Parses, and runs the action of the command that was asked for. Returns the exit status.
  int run(int argc, char** argv);

 private:
  explicit CommandLine(std::shared_ptr<CLI::App> app);
  const CommandLine& chosen() const;
  std::string complaint(const std::string& error) const;

  std::shared_ptr<CLI::App> app_;
  std::function<int()> action_;
  std::vector<std::unique_ptr<CommandLine>> subcommands_;
};

}  // namespace tutti::cli
