// SPDX-License-Identifier: Apache-2.0
// TOML configuration whose errors name file, line, key and what would be accepted.
//
//   auto config = Config::load("cluster.toml");
//   Section node = config->section("node");
//   options.depth = node.integer("depth", 16, {1, 4096});
//   options.policy = node.choice("policy", "concert", {"fifo", "concert"});
//   if (auto done = config->finish(); !done) return Failure(done.error());
//
// After a mistake a reader records it and returns the default. finish() reports the first mistake, or else the first
// key that was never read, so a misspelt key is not silently ignored.
#pragma once

#include <tutti/base.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

struct IntegerRange {
  std::int64_t low = INT64_MIN;
  std::int64_t high = INT64_MAX;
};

struct NumberRange {
  double low = -1e300;
  double high = 1e300;
};

namespace detail {
struct ConfigState;
struct SectionState;
}  // namespace detail

// One table of a configuration. Cheap to copy; valid while its Config exists. Not thread-safe.
class Section {
 public:
  bool has(std::string_view key) const;
  std::vector<std::string> keys() const;  // as written in the file

  std::string text(std::string_view key, std::string_view fallback);
  std::string choice(std::string_view key, std::string_view fallback, const std::vector<std::string>& accepted);
  std::int64_t integer(std::string_view key, std::int64_t fallback, IntegerRange range = {});
  double number(std::string_view key, double fallback, NumberRange range = {});
  bool boolean(std::string_view key, bool fallback);
  Duration duration(std::string_view key, Duration fallback);  // "250ms"; never negative
  Bytes bytes(std::string_view key, Bytes fallback);           // "64KiB" or a bare integer

  // A scalar of any type as text, for values that another module checks (policy options).
  std::string scalar(std::string_view key, std::string_view fallback);

  // Arrays of text; a single text counts as an array of one.
  std::vector<std::string> texts(std::string_view key);

  // Arrays of scalars of any type, as text; a single one counts as an array of one.
  std::vector<std::string> scalars(std::string_view key);

  // Whether the value of `key` is a table.
  bool is_section(std::string_view key) const;
  // An inline or [table]; empty (all defaults) if absent.
  Section section(std::string_view key);
  // An array of tables, [[key]]; empty if absent.
  std::vector<Section> sections(std::string_view key);

  // Records a mistake found by the caller in the value of `key` ("must not exceed the number of servers, 8").
  void mistake(std::string_view key, std::string_view what);

  // "line 12" of `key`, for messages about a table as a whole.
  std::string where(std::string_view key = {}) const;

 private:
  friend class Config;
  explicit Section(std::shared_ptr<detail::SectionState> state) : state_(std::move(state)) {}
  std::shared_ptr<detail::SectionState> state_;
};

class Config {
 public:
  static Result<Config> load(const std::string& path);
  // `source` stands for the file name in messages.
  static Result<Config> parse(std::string_view text, std::string source);

  Section root();
  Section section(std::string_view key) { return root().section(key); }

  // Replaces or adds one value, given as "jobs.0.size=4MiB"; the value is TOML, or else taken as text.
  Result<void> set(std::string_view assignment);

  // The first mistake that a reader recorded, or else the first key that was never read.
  Result<void> finish() const;

 private:
  explicit Config(std::shared_ptr<detail::ConfigState> state) : state_(std::move(state)) {}
  std::shared_ptr<detail::ConfigState> state_;
};

}  // namespace tutti
