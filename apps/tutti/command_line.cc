// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <concepts>
#include <exception>

#include "base/print_error.h"
#include "base/units.h"

namespace tutti::cli {
namespace {

// For every type of value: its name in the help, how a default is shown, and how a word is parsed.
struct Type {
  const char* name;
  std::string shown;
  bool many = false;
};

template <typename Number>
Result<void> read_number(const std::string& word, Number& value, const char* what) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error == std::errc{} && end == word.data() + word.size()) return {};
  return fail(ErrorCode::kInvalid, fmt::format("'{}' is not {}", word, what));
}

constexpr const char* kWholeNumber = "a whole number that fits";

Type type_of(const std::string& value) {
  return {"TEXT", value};
}
Result<void> read(const std::string& word, std::string& value) {
  return value = word, Result<void>{};
}

template <std::unsigned_integral Number>
Type type_of(Number value) {
  return {"UINT", value == 0 ? "" : std::to_string(value)};
}
Result<void> read(const std::string& word, std::uint32_t& value) {
  return read_number(word, value, kWholeNumber);
}
Result<void> read(const std::string& word, std::uint64_t& value) {
  return read_number(word, value, kWholeNumber);
}

Type type_of(const std::optional<std::uint64_t>&) {
  return {"UINT", ""};
}
Result<void> read(const std::string& word, std::optional<std::uint64_t>& value) {
  return read(word, value.emplace());
}

Type type_of(double value) {
  return {"FLOAT", value == 0 ? "" : fmt::format("{}", value)};
}
Result<void> read(const std::string& word, double& value) {
  return read_number(word, value, "a number");
}

Type type_of(Duration value) {
  return {"DURATION", value == Duration{} ? "" : format(value)};
}
Result<void> read(const std::string& word, Duration& value) {
  return parse_duration(word).map([&](Duration read) { value = read; });
}

Type type_of(Bytes value) {
  return {"SIZE", value == Bytes{} ? "" : format(value)};
}
Result<void> read(const std::string& word, Bytes& value) {
  return parse_bytes(word).map([&](Bytes read) { value = read; });
}

using List = std::vector<std::string>;
Type type_of(const List& value) {
  return {"TEXT", fmt::format("{}", fmt::join(value, ",")), true};
}
Result<void> read(const std::string& word, List& value) {
  return value.push_back(word), Result<void>{};
}

using Assignments = std::map<std::string, std::string>;
Type type_of(const Assignments&) {
  return {"NAME=VALUE", "", true};
}
Result<void> read(const std::string& word, Assignments& value) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0)
    return fail(ErrorCode::kInvalid, fmt::format("'{}' is not of the form name=value", word));
  value[word.substr(0, equals)] = word.substr(equals + 1);
  return {};
}

template <typename Value>
CLI::Option* add(CLI::App& app, const std::string& name, Value& value, const std::string& help) {
  const std::string last_name = name.substr(name.rfind(',') + 1);
  const auto read_all = [&value, last_name](const std::vector<std::string>& words) {
    value = {};
    for (const std::string& word : words)
      if (const auto done = read(word, value); !done) throw CLI::ValidationError(last_name, done.error().message);
    return true;
  };
  const Type type = type_of(value);
  CLI::Option* option = app.add_option(name, read_all, help)->type_name(type.name)->default_str(type.shown);
  if (!type.many) return option;
  const bool positional = !name.starts_with('-');
  return option->expected(CLI::detail::expected_max_vector_size)->allow_extra_args(positional);
}

}  // namespace

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::between(double least, double most) {
  option_->type_name(fmt::format("{} in [{} - {}]", option_->get_type_name(), least, most));
  option_->check([=](const std::string& word) {
    double value = 0;
    const bool fits = read(word, value) && value >= least && value <= most;
    return fits ? std::string{} : fmt::format("'{}' is not a number from {} to {}", word, least, most);
  });
  return *this;
}

template <typename Value>
void refuse_less(CLI::Option& option, Value least) {
  option.check([=](const std::string& word) {
    Value value{};
    const bool fits = !read(word, value) || value >= least;  // a word of another kind gets an error of its own
    return fits ? std::string{} : fmt::format("'{}' is less than {}", word, format(least));
  });
}

Option& Option::at_least(Duration least) {
  refuse_less(*option_, least);
  return *this;
}

Option& Option::at_least(Bytes least) {
  refuse_less(*option_, least);
  return *this;
}

Option& Option::one_of(std::vector<std::string> words) {
  option_->check(CLI::IsMember(std::move(words)));
  return *this;
}

Option& Option::separated_by_commas() {
  option_->delimiter(',');
  return *this;
}

CommandLine::CommandLine(const std::string& program, const std::string& summary, const std::string& version)
    : app_(std::make_shared<CLI::App>(summary, program)) {
  app_->set_version_flag("--version", version);
}

CommandLine::CommandLine(std::shared_ptr<CLI::App> app) : app_(std::move(app)) {}

void CommandLine::flag(const std::string& name, bool& value, const std::string& help) {
  app_->add_flag(name, value, help);
}

void CommandLine::json(bool& value) {
  flag("--json", value, "Print one JSON document instead of tables");
}

template <typename Value>
Option CommandLine::option(const std::string& name, Value& value, const std::string& help) {
  return Option(add(*app_, name, value, help));
}

template Option CommandLine::option(const std::string&, std::string&, const std::string&);
template Option CommandLine::option(const std::string&, std::uint32_t&, const std::string&);
template Option CommandLine::option(const std::string&, std::uint64_t&, const std::string&);
template Option CommandLine::option(const std::string&, std::optional<std::uint64_t>&, const std::string&);
template Option CommandLine::option(const std::string&, double&, const std::string&);
template Option CommandLine::option(const std::string&, Duration&, const std::string&);
template Option CommandLine::option(const std::string&, Bytes&, const std::string&);
template Option CommandLine::option(const std::string&, List&, const std::string&);
template Option CommandLine::option(const std::string&, Assignments&, const std::string&);

void CommandLine::rest(const std::string& name, List& value, const std::string& help) {
  option(name, value, help).required();
  app_->positionals_at_end();
}

void CommandLine::action(std::function<int()> action) {
  action_ = std::move(action);
  app_->require_subcommand(0);
}

CommandLine& CommandLine::subcommand(const std::string& name, const std::string& summary) {
  if (!action_) app_->require_subcommand(1);
  auto app = std::make_shared<CLI::App>(summary, name);
  app_->add_subcommand(app);
  subcommands_.push_back(std::unique_ptr<CommandLine>(new CommandLine(std::move(app))));
  return *subcommands_.back();
}

const CommandLine& CommandLine::chosen() const {
  for (const auto& subcommand : subcommands_)
    if (subcommand->app_->parsed()) return subcommand->chosen();
  return *this;
}

// The error, and which command prints the help or which subcommands exist.
std::string CommandLine::error_message(const std::string& error) const {
  std::string path = app_->get_name();
  for (const CLI::App* above = app_->get_parent(); above != nullptr; above = above->get_parent())
    path = above->get_name() + " " + path;
  const List unknown = app_->remaining();
  if (subcommands_.empty() || unknown.empty()) return fmt::format("{}; see {} --help", error, path);
  List names;
  for (const auto& subcommand : subcommands_) names.push_back(subcommand->app_->get_name());
  return fmt::format("unknown command '{} {}'; available: {}", path, unknown.front(), fmt::join(names, ", "));
}

int CommandLine::run(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app_->exit(help);
  } catch (const CLI::ParseError& error) {
    print_error("tutti: {}\n", chosen().error_message(error.what()));
    return kUsage;
  }
  try {
    return chosen().action_();
  } catch (const std::exception& problem) {  // standard output cannot be written, or there is no memory
    print_error("tutti: {}\n", problem.what());
    return kFailed;
  }
}

}  // namespace tutti::cli
