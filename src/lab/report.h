// SPDX-License-Identifier: Apache-2.0
// Results as one self-contained page: claims, tables, charts and timelines, for a browser or for print.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "lab/experiment.h"

namespace tutti::lab {

struct Report {
  std::string title;
  std::string command;    // that makes this report again
  std::string generated;  // when, for people; empty: not said
  std::vector<ExperimentResult> results;
  std::vector<Experiment> not_yet;  // listed as such
};

// Date and time in UTC, for Report::generated.
std::string today();

// The page carries the document that --json prints, with charts and timelines added, and a script that draws it. It
// loads nothing and forbids itself to. No text of the report, whatever it holds, becomes markup or script.
std::string to_html(const Report& report);

// Replaces `file` once all of it is written. kIo: which file, and why not.
Result<void> replace_file(const std::filesystem::path& file, std::string_view text);

// Replaces `file` once the whole page is written. kIo: which file, and why not.
Result<void> write_html(const Report& report, const std::filesystem::path& file);

// The claims of every experiment as tables for docs/papers.md: paper, goal, ours, bound, holds.
std::string to_markdown(const Report& report);

// Where `file` exists and has the line kMarkdownMarker, what follows it is replaced; else the file is written anew.
inline constexpr std::string_view kMarkdownMarker = "<!-- written by: tutti lab run all --markdown FILE -->";
Result<void> write_markdown(const Report& report, const std::filesystem::path& file);

}  // namespace tutti::lab
