// SPDX-License-Identifier: Apache-2.0
#include "base/config.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/units.h"

namespace tutti {
namespace detail {

struct ConfigState {
  std::string source;
  toml::table root;
  std::optional<Error> mistake;
  std::vector<std::shared_ptr<SectionState>> sections;
};

struct SectionState {
  ConfigState* config;  // outlives the section
  const toml::table* table;
  std::string path;                 // "jobs[2].io", empty at the root
  std::vector<std::string> wanted;  // keys that some reader asked for
};

}  // namespace detail

namespace {

const toml::table kNothing;

std::string location(const detail::ConfigState& config, const toml::node* node) {
  const auto line = node ? node->source().begin.line : 0;
  return line ? fmt::format("{}:{}", config.source, line) : config.source;
}

std::string join(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

std::string_view type_name(const toml::node& node) {
  if (node.is_string()) return "a text";
  if (node.is_integer()) return "an integer";
  if (node.is_floating_point()) return "a number";
  if (node.is_boolean()) return "true or false";
  if (node.is_array()) return "an array";
  if (node.is_table()) return "a table";
  return "a date or time";
}

std::shared_ptr<detail::SectionState> open(detail::ConfigState& config, const toml::table* table, std::string path) {
  for (auto& section : config.sections)
    if (section->table == table && section->path == path) return section;
  auto state = std::make_shared<detail::SectionState>(
      detail::SectionState{&config, table ? table : &kNothing, std::move(path), {}});
  config.sections.push_back(state);
  return state;
}

const toml::node* look_up(detail::SectionState& section, std::string_view key) {
  if (std::find(section.wanted.begin(), section.wanted.end(), key) == section.wanted.end())
    section.wanted.emplace_back(key);
  return section.table->get(key);
}

void record(detail::SectionState& section, std::string_view key, const toml::node* node, std::string_view what) {
  if (section.config->mistake) return;
  section.config->mistake = Error{
      ErrorCode::kInvalid,
      fmt::format("{}: {}: {}", location(*section.config, node ? node : section.table), join(section.path, key), what),
      0};
}

void wrong_type(detail::SectionState& section, std::string_view key, const toml::node& node,
                std::string_view expected) {
  record(section, key, &node, fmt::format("expected {}, found {}", expected, type_name(node)));
}

}  // namespace

bool Section::has(std::string_view key) const {
  return state_->table->contains(key);
}

std::vector<std::string> Section::keys() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : *state_->table) names.emplace_back(key.str());
  return names;
}

std::string Section::text(std::string_view key, std::string_view fallback) {
  const toml::node* node = look_up(*state_, key);
  if (!node) return std::string(fallback);
  if (const auto* value = node->as_string()) return value->get();
  wrong_type(*state_, key, *node, "a text");
  return std::string(fallback);
}

std::string Section::choice(std::string_view key, std::string_view fallback, const std::vector<std::string>& accepted) {
  std::string value = text(key, fallback);
  if (std::find(accepted.begin(), accepted.end(), value) != accepted.end()) return value;
  mistake(key, fmt::format("'{}' is not accepted; one of: {}", value, fmt::join(accepted, ", ")));
  return std::string(fallback);
}

std::int64_t Section::integer(std::string_view key, std::int64_t fallback, IntegerRange range) {
  const toml::node* node = look_up(*state_, key);
  if (!node) return fallback;
  const auto* value = node->as_integer();
  if (!value) return wrong_type(*state_, key, *node, "an integer"), fallback;
  if (value->get() < range.low || value->get() > range.high) {
    record(*state_, key, node,
           fmt::format("{} is out of range; accepted: {} to {}", value->get(), range.low, range.high));
    return fallback;
  }
  return value->get();
}

double Section::number(std::string_view key, double fallback, NumberRange range) {
  const toml::node* node = look_up(*state_, key);
  if (!node) return fallback;
  const auto value = node->is_number() ? node->value<double>() : std::nullopt;
  if (!value) return wrong_type(*state_, key, *node, "a number"), fallback;
  if (!(*value >= range.low && *value <= range.high)) {
    record(*state_, key, node, fmt::format("{} is out of range; accepted: {} to {}", *value, range.low, range.high));
    return fallback;
  }
  return *value;
}

bool Section::boolean(std::string_view key, bool fallback) {
  const toml::node* node = look_up(*state_, key);
  if (!node) return fallback;
  if (const auto* value = node->as_boolean()) return value->get();
  wrong_type(*state_, key, *node, "true or false");
  return fallback;
}

Duration Section::duration(std::string_view key, Duration fallback) {
  const toml::node* node = look_up(*state_, key);
  if (!node) return fallback;
  const auto* value = node->as_string();
  if (!value) return wrong_type(*state_, key, *node, "a duration in quotes, e.g. \"250ms\""), fallback;
  auto parsed = parse_duration(value->get());
  if (!parsed) return record(*state_, key, node, parsed.error().message), fallback;
  return *parsed;
}

Bytes Section::bytes(std::string_view key, Bytes fallback) {
  const toml::node* node = look_up(*state_, key);
  if (!node) return fallback;
  if (const auto* value = node->as_integer()) {
    if (value->get() >= 0) return Bytes(static_cast<std::uint64_t>(value->get()));
    return record(*state_, key, node, fmt::format("{} is negative; a size is at least 0", value->get())), fallback;
  }
  const auto* value = node->as_string();
  if (!value) return wrong_type(*state_, key, *node, "a size, e.g. 65536 or \"64KiB\""), fallback;
  auto parsed = parse_bytes(value->get());
  if (!parsed) return record(*state_, key, node, parsed.error().message), fallback;
  return *parsed;
}

namespace {

std::optional<std::string> scalar_text(const toml::node& node) {
  if (const auto* value = node.as_string()) return value->get();
  if (const auto* value = node.as_integer()) return fmt::format("{}", value->get());
  if (const auto* value = node.as_floating_point()) return fmt::format("{}", value->get());
  if (const auto* value = node.as_boolean()) return value->get() ? "true" : "false";
  return std::nullopt;
}

}  // namespace

std::string Section::scalar(std::string_view key, std::string_view fallback) {
  const toml::node* node = look_up(*state_, key);
  if (!node) return std::string(fallback);
  if (auto text = scalar_text(*node)) return *text;
  wrong_type(*state_, key, *node, "a text, a number, or true or false");
  return std::string(fallback);
}

std::vector<std::string> Section::scalars(std::string_view key) {
  const toml::node* node = look_up(*state_, key);
  if (!node) return {};
  if (auto text = scalar_text(*node)) return {*text};
  std::vector<std::string> values;
  const auto* array = node->as_array();
  if (!array) return wrong_type(*state_, key, *node, "an array of texts or numbers"), values;
  for (const toml::node& element : *array) {
    if (auto text = scalar_text(element))
      values.push_back(*text);
    else
      wrong_type(*state_, key, element, "a text, a number, or true or false");
  }
  return values;
}

bool Section::is_section(std::string_view key) const {
  const toml::node* node = state_->table->get(key);
  return node && node->is_table();
}

std::vector<std::string> Section::texts(std::string_view key) {
  const toml::node* node = look_up(*state_, key);
  if (!node) return {};
  if (const auto* value = node->as_string()) return {value->get()};
  std::vector<std::string> values;
  const auto* array = node->as_array();
  if (!array) return wrong_type(*state_, key, *node, "an array of texts"), values;
  for (const toml::node& element : *array) {
    if (const auto* value = element.as_string())
      values.push_back(value->get());
    else
      wrong_type(*state_, key, element, "a text");
  }
  return values;
}

Section Section::section(std::string_view key) {
  const toml::node* node = look_up(*state_, key);
  const toml::table* table = node ? node->as_table() : nullptr;
  if (node && !table) wrong_type(*state_, key, *node, "a table");
  return Section(open(*state_->config, table, join(state_->path, key)));
}

std::vector<Section> Section::sections(std::string_view key) {
  const toml::node* node = look_up(*state_, key);
  std::vector<Section> tables;
  if (!node) return tables;
  const toml::array* array = node->as_array();
  if (!array) return wrong_type(*state_, key, *node, "an array of tables"), tables;
  for (std::size_t i = 0; i < array->size(); ++i) {
    const toml::table* table = array->get(i)->as_table();
    if (!table) return wrong_type(*state_, key, *array->get(i), "a table"), tables;
    tables.push_back(Section(open(*state_->config, table, fmt::format("{}[{}]", join(state_->path, key), i))));
  }
  return tables;
}

void Section::mistake(std::string_view key, std::string_view what) {
  record(*state_, key, state_->table->get(key), what);
}

std::string Section::where(std::string_view key) const {
  const toml::node* node = key.empty() ? state_->table : state_->table->get(key);
  return location(*state_->config, node);
}

Result<Config> Config::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorCode::kNotFound, fmt::format("{}: {}", path, std::strerror(errno)), errno);
  std::ostringstream text;
  text << file.rdbuf();
  return parse(text.str(), path);
}

Result<Config> Config::parse(std::string_view text, std::string source) {
  auto state = std::make_shared<detail::ConfigState>();
  try {
    state->root = toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    return fail(ErrorCode::kInvalid,
                fmt::format("{}:{}: not valid TOML: {}", source, error.source().begin.line, error.description()));
  }
  state->source = std::move(source);
  return Config(std::move(state));
}

Section Config::root() {
  return Section(open(*state_, &state_->root, ""));
}

namespace {

// The value of an assignment: TOML if it parses as such, else text.
toml::table parse_value(std::string_view value) {
  try {
    return toml::parse(fmt::format("value = {}", value), std::string_view("--set"));
  } catch (const toml::parse_error&) {
    return toml::table{{"value", std::string(value)}};
  }
}

// Steps into `step` of `node`, which is a table (a missing key becomes a table) or an array (an index).
toml::node* descend(toml::node* node, const std::string& step) {
  if (auto* table = node->as_table()) {
    if (!table->contains(step)) table->insert(step, toml::table{});
    return table->get(step);
  }
  if (auto* array = node->as_array()) {
    const bool index =
        !step.empty() && std::all_of(step.begin(), step.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (index && step.size() < 9) return array->get(std::stoul(step));
  }
  return nullptr;
}

}  // namespace

Result<void> Config::set(std::string_view assignment) {
  const auto equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0)
    return fail(ErrorCode::kInvalid,
                fmt::format("'{}' is not an assignment; write key=value or table.key=value", assignment));
  std::istringstream path{std::string(assignment.substr(0, equals))};
  std::vector<std::string> steps;
  for (std::string step; std::getline(path, step, '.');) steps.push_back(step);
  const std::string last = steps.back();
  steps.pop_back();

  toml::node* node = &state_->root;
  for (const std::string& step : steps)
    if (node) node = descend(node, step);
  toml::table* table = node ? node->as_table() : nullptr;
  if (!table)
    return fail(ErrorCode::kInvalid,
                fmt::format("{}: no such table or array element in {}", assignment.substr(0, equals), state_->source));
  toml::table value = parse_value(assignment.substr(equals + 1));
  table->insert_or_assign(last, *value.get("value"));
  return {};
}

Result<void> Config::finish() const {
  if (state_->mistake) return Failure(*state_->mistake);
  for (const auto& section : state_->sections) {
    for (const auto& [key, node] : *section->table) {
      const auto& wanted = section->wanted;
      if (std::find(wanted.begin(), wanted.end(), key.str()) != wanted.end()) continue;
      return fail(ErrorCode::kInvalid, fmt::format("{}: {}: unknown key; accepted here: {}", location(*state_, &node),
                                                   join(section->path, key.str()), fmt::join(wanted, ", ")));
    }
  }
  return {};
}

}  // namespace tutti
