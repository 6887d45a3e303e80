// SPDX-License-Identifier: Apache-2.0
// Results as one self-contained HTML page: claims, tables, charts and timelines.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "lab/experiment.h"

namespace tutti::lab {

struct Report {
  std::string title;
  std::string command;    // that creates this report
  std::string generated;  // date and time as text; empty: not shown
  std::vector<ExperimentResult> results;
  Answer answer{};  // without a sentence: the answer of the only result
};

// A word of a shell command, for Report::command: in quotes if it needs them.
std::string shell_word(const std::string& word);

// Date and time in UTC, for Report::generated.
std::string today();

// The page contains the document that --json prints, with charts and timelines, and a script that draws it. It loads
// nothing else; a content security policy forbids that. Text in the report never becomes markup or script.
std::string to_html(const Report& report);

// Writes the page with replace_file() of base.
Result<void> write_html(const Report& report, const std::filesystem::path& file);

// The claims of every experiment as tables for docs/papers.md: paper, goal, ours, bound, holds.
std::string to_markdown(const Report& report);

// If `file` has the line kMarkdownMarker, replaces the text after it; else writes a new file.
inline constexpr std::string_view kMarkdownMarker = "<!-- written by: tutti lab run all --markdown FILE -->";
Result<void> write_markdown(const Report& report, const std::filesystem::path& file);

}  // namespace tutti::lab
