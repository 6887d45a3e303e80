// SPDX-License-Identifier: Apache-2.0
#include "trace/dxt.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <span>
#include <unordered_map>
#include <utility>

#include "trace/dxt_layout.h"

namespace tutti::trace {
namespace {

constexpr std::uint64_t kEndOfOffsets = std::uint64_t{1} << 63;
constexpr double kMostSeconds = 4e9;
constexpr std::size_t kMostPieces = std::size_t{1} << 24;  // of all rows; beyond that rows are not split
constexpr std::size_t kMostMountFacts = 16;

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
  DxtParser(std::string_view text, const std::string& source, Names names, DxtRows rows)
      : text_(text), source_(source), names_(names), whole_rows_(rows == DxtRows::kWhole) {}

  Result<Recording> parse();

 private:
  enum class Layer : std::uint8_t { kPosix, kMpiIo };
  struct Row {
    TraceRequest request;
    Layer layer;
    std::uint32_t record;                         // index into records_
    std::uint32_t first_ost = 0, named_osts = 0;  // in row_osts_; 0: the layout says which
  };
  struct Record {  // one file of the log
    std::uint32_t file;
    std::uint32_t mount = 0;  // index into mounts_
    bool has_posix = false;
    DxtLayout layout{};
  };
  struct Mount {
    std::string path{}, type{};
    bool is_used = false, has_osts = false;
    TargetId first_target = 0;
  };

  void comment(std::string_view line);
  void fact(std::string_view line);
  void begin_record(std::string_view line);
  void read_layout(std::string_view line);
  void read_mount_entry(std::string_view line);
  void read_mount_point(std::string_view line);
  std::uint32_t mount_index(std::string_view path, std::string_view type);
  std::uint32_t mount_of(std::string_view file) const;
  const char* row(std::string_view line);
  const char* read_columns(std::string_view& line, Row& row);
  void read_osts(std::string_view rest, Row& row);
  void problem(std::string_view what) { recording_.problems.add(fmt::format("{}: line {}: {}", source_, line_, what)); }
  void find_pieces(const Row& row);
  void number_targets();
  void keep_rows();
  void keep_row(const Row& row);

  std::string_view text_;
  const std::string& source_;
  const Names names_;
  const bool whole_rows_;
  std::size_t line_ = 0;
  Recording recording_;
  std::unordered_map<std::string, std::uint32_t> record_indexes_, file_indexes_;
  std::vector<Record> records_;
  std::uint32_t record_ = ~0U;     // that the next rows belong to
  bool reading_layout_ = false;    // of this record
  bool has_offsets_ = true;        // the rows of this section
  std::vector<Mount> mounts_{{}};  // the first one: not known
  std::unordered_map<std::string, std::uint32_t> mount_indexes_;
  std::vector<Row> rows_;
  std::vector<std::uint32_t> row_osts_;  // of rows whose layout is not known
  std::vector<DxtPiece> pieces_;         // of the row in work
  bool too_many_ = false;
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
  const bool is_dxt = line.starts_with("DXT,");
  if (is_dxt) line = trimmed(line.substr(4));
  if (line.starts_with("[Component") || (is_dxt && line.starts_with("Lustre"))) return read_layout(line);
  if (line.starts_with("Module ")) {  // the names of the columns
    has_offsets_ = line.find("Offset") != std::string_view::npos;
    return;
  }
  if (!is_dxt) return line.starts_with("mount entry:") ? read_mount_entry(line) : fact(line);
  if (line.starts_with("file_id:")) return begin_record(line);
  if (line.starts_with("mnt_pt:")) return read_mount_point(line);
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
    records_.push_back({.file = file->second, .mount = mount_of(path)});
  }
  record_ = known->second;
  has_offsets_ = true;
  reading_layout_ = !records_[record_].layout.usable();
}

// The lines are repeated for every rank: only those of the first one are used.
void DxtParser::read_layout(std::string_view line) {
  if (record_ == ~0U || !reading_layout_) return;
  if (const char* mistake = records_[record_].layout.read(line)) problem(mistake);
}

// "mount entry: PATH TYPE"
void DxtParser::read_mount_entry(std::string_view line) {
  line.remove_prefix(line.find(':') + 1);
  const std::string_view path = next_word(line);
  if (!path.empty()) mount_index(path, next_word(line));
}

// "mnt_pt: PATH, fs_type: TYPE"
void DxtParser::read_mount_point(std::string_view line) {
  constexpr std::string_view kType = ", fs_type:";
  const std::size_t type = line.find(kType);
  if (record_ == ~0U || type == std::string_view::npos) return;
  records_[record_].mount = mount_index(trimmed(line.substr(7, type - 7)), trimmed(line.substr(type + kType.size())));
}

std::uint32_t DxtParser::mount_index(std::string_view path, std::string_view type) {
  const auto [known, is_new] =
      mount_indexes_.try_emplace(std::string(path), static_cast<std::uint32_t>(mounts_.size()));
  if (!is_new) return known->second;
  if (mounts_.size() == kMostOsts) return 0;
  mounts_.push_back({.path = std::string(path), .type = std::string(type)});
  return known->second;
}

// The mount with the longest path that the file is below. 0: not known.
std::uint32_t DxtParser::mount_of(std::string_view file) const {
  for (std::string_view path = file; !path.empty(); path = path.substr(0, path.rfind('/'))) {
    const auto found = mount_indexes_.find(std::string(path));
    if (found != mount_indexes_.end()) return found->second;
    if (path.find('/') == std::string_view::npos) break;
  }
  const auto root = mount_indexes_.find("/");
  return root != mount_indexes_.end() ? root->second : 0;
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
  if (next.layer == Layer::kMpiIo && record_ != ~0U && records_[record_].has_posix) return nullptr;
  if (!has_offsets_) return "a row without offset, as MPI-IO rows of Darshan 3.1 have; it cannot be used";
  if (const char* mistake = read_columns(line, next)) return mistake;
  if (next.request.length == Bytes()) return nullptr;  // an operation that moved nothing
  if (record_ == ~0U) return "a row before the first file";
  next.record = record_;
  next.request.file = records_[record_].file;
  read_osts(line, next);
  if (next.layer == Layer::kPosix) records_[record_].has_posix = true;
  rows_.push_back(next);
  return nullptr;
}

// Leaves what follows the columns in `line`.
const char* DxtParser::read_columns(std::string_view& line, Row& row) {
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
  if (offset == "-1") return "column 5, the offset, is -1, as in converted logs of Darshan 3.1; the row cannot be used";
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
  return nullptr;
}

// OSTs are in brackets, "[  3] [  4]"; another word is a thread.
void DxtParser::read_osts(std::string_view rest, Row& row) {
  const std::size_t before = row_osts_.size();
  while (true) {
    const std::size_t open = rest.find('['), close = rest.find(']', open);
    if (open == std::string_view::npos || close == std::string_view::npos) break;
    std::uint32_t ost = kMostOsts;
    parse_number(trimmed(rest.substr(open + 1, close - open - 1)), ost);
    if (ost < kMostOsts) row_osts_.push_back(ost);
    rest.remove_prefix(close + 1);
  }
  if (row_osts_.size() == before) return;
  const auto by_layout = records_[row.record].layout.ost_of(row.request.offset);
  if (by_layout == row_osts_[before]) return row_osts_.resize(before);
  row.first_ost = static_cast<std::uint32_t>(before);
  row.named_osts = static_cast<std::uint32_t>(row_osts_.size() - before);
}

// Fills pieces_; empty: no OST is known.
void DxtParser::find_pieces(const Row& row) {
  pieces_.clear();
  const std::uint64_t offset = row.request.offset, length = row.request.length.count();
  if (row.named_osts == 0) {
    records_[row.record].layout.split(offset, length, pieces_);
    return;
  }
  const auto osts = std::span(row_osts_).subspan(row.first_ost, row.named_osts);
  const std::uint64_t parts = std::min<std::uint64_t>(osts.size(), length);
  for (std::uint64_t i = 0, at = 0; i < parts; ++i) {
    const std::uint64_t part = length / parts + (i < length % parts ? 1 : 0);
    pieces_.push_back({.ost = osts[i], .offset = offset + at, .length = part});
    at += part;
  }
}

void DxtParser::number_targets() {
  std::vector<std::uint32_t> order;  // mounts, in order of appearance
  for (const Row& row : rows_) {
    Record& record = records_[row.record];
    Mount& mount = mounts_[record.mount];
    if (!std::exchange(mount.is_used, true)) order.push_back(record.mount);
    mount.has_osts = mount.has_osts || row.named_osts > 0 || record.layout.usable();
  }
  std::ranges::stable_sort(order, std::greater(), [&](std::uint32_t mount) { return mounts_[mount].has_osts; });
  for (std::size_t i = 0; i < order.size(); ++i) {
    Mount& mount = mounts_[order[i]];
    mount.first_target = static_cast<TargetId>(i) * kMostOsts;
    if (i < kMostMountFacts && !mount.path.empty())
      recording_.facts.emplace(fmt::format("mount_{}", mount.first_target), mount.path + " " + mount.type);
  }
}

void DxtParser::keep_rows() {
  std::erase_if(rows_, [&](const Row& row) { return row.layer == Layer::kMpiIo && records_[row.record].has_posix; });
  std::ranges::stable_sort(rows_, {}, [](const Row& row) { return row.request.time; });
  number_targets();
  const Duration first = rows_.front().request.time;
  recording_.start = TimePoint(from_seconds(start_)) + first;
  recording_.trace.requests.reserve(rows_.size());
  for (Row& row : rows_) {
    row.request.time -= first;
    row.request.completed -= first;
    keep_row(row);
  }
  if (too_many_)
    recording_.problems.add(
        fmt::format("{}: more than {} requests: some rows over several OSTs became one request", source_, kMostPieces));
}

void DxtParser::keep_row(const Row& row) {
  auto& requests = recording_.trace.requests;
  find_pieces(row);
  TraceRequest request = row.request;
  request.target = mounts_[records_[row.record].mount].first_target;
  const bool fits = requests.size() + pieces_.size() <= kMostPieces;
  if (pieces_.size() > 1 && !whole_rows_ && !fits) too_many_ = true;
  if (pieces_.size() < 2 || whole_rows_ || !fits) {
    if (!pieces_.empty()) request.target += pieces_.front().ost;
    requests.push_back(request);
    return;
  }
  const TargetId first_target = request.target;
  for (const DxtPiece& piece : pieces_) {
    request.target = first_target + piece.ost;
    request.offset = piece.offset;
    request.length = Bytes(piece.length);
    requests.push_back(request);
  }
}

}  // namespace

Result<Recording> parse_dxt(std::string_view text, const std::string& source, Names names, DxtRows rows) {
  return DxtParser(text, source, names, rows).parse();
}

}  // namespace tutti::trace
