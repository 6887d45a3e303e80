// SPDX-License-Identifier: Apache-2.0
#include "trace/dxt.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_map>

namespace tutti::trace {
namespace {

constexpr std::uint64_t kEndOfOffsets = std::uint64_t{1} << 63;
constexpr double kMostSeconds = 4e9;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

// The next word of a line; empty at its end.
std::string_view next_word(std::string_view& line) {
  std::size_t begin = 0;
  while (begin < line.size() && (line[begin] == ' ' || line[begin] == '\t' || line[begin] == '\r')) ++begin;
  std::size_t end = begin;
  while (end < line.size() && line[end] != ' ' && line[end] != '\t' && line[end] != '\r') ++end;
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

// False, and nothing changes, if the word is not a number of this kind.
template <typename Number>
bool parse_number(std::string_view word, Number& number) {
  Number parsed{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), parsed);
  if (error != std::errc{} || end != word.data() + word.size()) return false;
  number = parsed;
  return true;
}

Duration from_seconds(double value) {
  return Duration(static_cast<std::int64_t>(value * 1e9 + 0.5));
}

class DxtParser {
 public:
  DxtParser(std::string_view text, const std::string& source, Names names)
      : text_(text), source_(source), names_(names) {}

  Result<Recording> parse();

 private:
  enum class Layer : std::uint8_t { kPosix, kMpiIo };
  struct Row {
    TraceRequest request;
    Layer layer;
    std::uint32_t record;  // index into records_
  };
  struct Record {  // one file of the log
    std::uint32_t file;
    bool has_posix = false;
  };

  void comment(std::string_view line);
  void fact(std::string_view line);
  void begin_record(std::string_view line);
  const char* row(std::string_view line);
  const char* read_columns(std::string_view line, Row& row);
  void read_ost(std::string_view rest, Row& row);
  void problem(std::string_view what) { recording_.problems.add(fmt::format("{}: line {}: {}", source_, line_, what)); }
  void keep_rows();

  std::string_view text_;
  const std::string& source_;
  const Names names_;
  std::size_t line_ = 0;
  Recording recording_;
  std::unordered_map<std::string, std::uint32_t> record_indexes_, file_indexes_;
  std::vector<Record> records_;
  std::uint32_t record_ = ~0U;  // that the next rows belong to
  std::vector<Row> rows_;
  std::uint64_t job_ = 0;
  double start_ = 0;
};

Result<Recording> DxtParser::parse() {
  while (!text_.empty()) {
    const std::size_t end = std::min(text_.find('\n'), text_.size());
    const std::string_view line = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    ++line_;
    if (trimmed(line).empty()) continue;
    if (line.front() == '#') {
      comment(trimmed(line.substr(1)));
    } else if (const char* mistake = row(line)) {
      problem(mistake);
    }
  }
  if (rows_.empty())
    return fail(
        ErrorCode::kInvalid,
        fmt::format("{}: line {}: no rows X_POSIX or X_MPIIO that can be used; is this the output of "
                    "darshan-dxt-parser?{}",
                    source_, line_,
                    recording_.problems.count() > 0 ? " First problem: " + recording_.problems.texts()[0] : ""));
  keep_rows();
  return std::move(recording_);
}

void DxtParser::comment(std::string_view line) {
  if (!line.starts_with("DXT,")) return fact(line);
  line = trimmed(line.substr(4));
  if (line.starts_with("file_id:")) return begin_record(line);
}

// Lines such as "jobid: 123" before the first file.
void DxtParser::fact(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string_view name = trimmed(line.substr(0, colon)), value = trimmed(line.substr(colon + 1));
  if (name == "jobid") parse_number(value, job_);
  double start = 0;
  if (name == "start_time" && parse_number(value, start) && start >= 0 && start <= kMostSeconds) start_ = start;
  for (const char* known : {"exe", "jobid", "nprocs", "run time", "start_time"})
    if (name == known) recording_.facts.emplace(name == "run time" ? "run_time" : name, value);
}

// "file_id: N, file_name: P"
void DxtParser::begin_record(std::string_view line) {
  record_ = ~0U;
  constexpr std::string_view kName = "file_name:";
  const std::size_t comma = line.find(','), name = line.find(kName);
  if (comma == std::string_view::npos || name == std::string_view::npos || comma > name)
    return problem("a file without file_id and file_name; its rows are left out");
  const std::string id(trimmed(line.substr(8, comma - 8)));
  const std::string path(trimmed(line.substr(name + kName.size())).substr(0, kMaxPathLength));
  const auto [known, is_new] = record_indexes_.try_emplace(id, static_cast<std::uint32_t>(records_.size()));
  if (is_new) {
    std::string shown = names_ == Names::kPatterns ? name_pattern(path) : path;
    auto& files = recording_.trace.files;
    const auto [file, new_file] = file_indexes_.try_emplace(shown, static_cast<std::uint32_t>(files.size()));
    if (new_file) files.push_back(std::move(shown));
    records_.push_back({.file = file->second});
  }
  record_ = known->second;
}

const char* DxtParser::row(std::string_view line) {
  const std::string_view module = next_word(line);
  Row next{};
  if (module == "X_POSIX")
    next.layer = Layer::kPosix;
  else if (module == "X_MPIIO")
    next.layer = Layer::kMpiIo;
  else
    return module.starts_with("X_") ? nullptr : "neither a comment nor a row that begins with X_POSIX or X_MPIIO";
  if (const char* mistake = read_columns(line, next)) return mistake;
  if (next.request.length == Bytes()) return nullptr;  // an operation that moved nothing
  if (record_ == ~0U) return "a row before the first file";
  next.record = record_;
  next.request.file = records_[record_].file;
  if (next.layer == Layer::kPosix) records_[record_].has_posix = true;
  rows_.push_back(next);
  return nullptr;
}

const char* DxtParser::read_columns(std::string_view line, Row& row) {
  const std::string_view rank = next_word(line), direction = next_word(line), segment = next_word(line);
  const std::string_view offset = next_word(line), length = next_word(line);
  const std::string_view begin = next_word(line), end = next_word(line);
  if (end.empty()) return "a row with missing columns; it has rank, write|read, segment, offset, length, start, end";
  TraceRequest& request = row.request;
  std::uint64_t bytes = 0, number = 0;
  if (!parse_number(rank, request.process)) return "column 2, the rank, is not a number";
  if (direction != "write" && direction != "read") return "column 3 is neither write nor read";
  request.direction = direction == "write" ? Direction::kWrite : Direction::kRead;
  if (!parse_number(segment, number)) return "column 4, the segment, is not a number";
  if (!parse_number(offset, request.offset)) return "column 5, the offset, is not a number";
  if (!parse_number(length, bytes)) return "column 6, the length, is not a number";
  if (request.offset > kEndOfOffsets || bytes > kEndOfOffsets - request.offset) return "the row reaches past 2^63";
  request.length = Bytes(bytes);
  double from = 0, to = 0;
  if (!parse_number(begin, from) || !(from >= 0 && from <= kMostSeconds)) return "column 7, the start, is not a time";
  if (!parse_number(end, to) || !(to >= 0 && to <= kMostSeconds)) return "column 8, the end, is not a time";
  request.time = from_seconds(from);
  request.completed = std::max(from_seconds(to), request.time);
  if (to < from) problem("the clock went back: the row ends before it starts; it counts as ended at once");
  request.application = static_cast<ApplicationId>(job_);
  read_ost(line, row);
  return nullptr;
}

// OSTs are in brackets, "[  3] [  4]"; another word is a thread.
void DxtParser::read_ost(std::string_view rest, Row& row) {
  const std::size_t open = rest.find('['), close = rest.find(']');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return;
  parse_number(trimmed(rest.substr(open + 1, close - open - 1)), row.request.target);
}

void DxtParser::keep_rows() {
  std::erase_if(rows_, [&](const Row& row) { return row.layer == Layer::kMpiIo && records_[row.record].has_posix; });
  std::ranges::stable_sort(rows_, {}, [](const Row& row) { return row.request.time; });
  const Duration first = rows_.front().request.time;
  recording_.start = TimePoint(from_seconds(start_)) + first;
  recording_.trace.requests.reserve(rows_.size());
  for (Row& row : rows_) {
    row.request.time -= first;
    row.request.completed -= first;
    recording_.trace.requests.push_back(row.request);
  }
}

}  // namespace

Result<Recording> parse_dxt(std::string_view text, const std::string& source, Names names) {
  return DxtParser(text, source, names).parse();
}

}  // namespace tutti::trace
