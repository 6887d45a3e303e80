// SPDX-License-Identifier: Apache-2.0
// A text table with aligned columns for terminal output.
#pragma once

#include <string>
#include <vector>

namespace tutti {

// Text of users or peers for logs and terminals. Control characters, which a terminal would carry out, and ends of
// lines become question marks: those of ASCII, and U+0080 to U+009F.
std::string printable(std::string text);

class Table {
 public:
  explicit Table(std::vector<std::string> columns);

  // As many cells as columns. Users choose the names of files and jobs: control characters, which a terminal would
  // carry out, become question marks.
  void add(std::vector<std::string> row);
  bool empty() const { return rows_.empty(); }
  const std::vector<std::string>& columns() const { return columns_; }
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

  // A header line, a rule, one line per row. A column whose cells all start like numbers is right-aligned.
  std::string text() const;

 private:
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tutti
