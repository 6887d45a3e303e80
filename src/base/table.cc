// SPDX-License-Identifier: Apache-2.0
#include "base/table.h"

#include <algorithm>
#include <cassert>

namespace tutti {
namespace {

// Columns on the screen: UTF-8 continuation bytes take none.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

bool starts_like_a_number(const std::string& cell) {
  if (cell.empty() || cell == "-") return true;
  const std::size_t first = (cell[0] == '-' || cell[0] == '+') && cell.size() > 1 ? 1 : 0;
  return cell[first] >= '0' && cell[first] <= '9';
}

void pad(std::string& line, const std::string& cell, std::size_t to, bool right) {
  const std::string space(to - width(cell), ' ');
  line += right ? space + cell : cell + space;
}

}  // namespace

std::string printable(std::string text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(at < text.size() ? text[at] : 0); };
    const bool two_bytes = byte(i) == 0xc2 && byte(i + 1) >= 0x80 && byte(i + 1) < 0xa0;
    if (two_bytes) text.erase(i + 1, 1);
    if (two_bytes || byte(i) < 0x20 || byte(i) == 0x7f) text[i] = '?';
  }
  return text;
}

Table::Table(std::vector<std::string> columns) : columns_(std::move(columns)) {}

void Table::add(std::vector<std::string> row) {
  assert(row.size() == columns_.size());
  for (std::string& cell : row) cell = printable(std::move(cell));
  rows_.push_back(std::move(row));
}

std::string Table::text() const {
  std::string out, rule;
  std::vector<std::size_t> widths;
  std::vector<bool> right;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    widths.push_back(width(columns_[c]));
    right.push_back(!rows_.empty());
    for (const auto& row : rows_) {
      widths[c] = std::max(widths[c], width(row[c]));
      if (!starts_like_a_number(row[c])) right[c] = false;
    }
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      if (c) text += "  ";
      pad(text, cells[c], widths[c], right[c]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + '\n';
  };
  line(columns_);
  for (std::size_t c = 0; c < columns_.size(); ++c)
    rule += std::string(widths[c], '-') + (c + 1 < columns_.size() ? "  " : "");
  out += rule + '\n';
  for (const auto& row : rows_) line(row);
  return out;
}

}  // namespace tutti
