// SPDX-License-Identifier: Apache-2.0
#include "configuration.h"

#include <fmt/format.h>
#include <libconfig.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "sched/policy.h"

namespace tutti::agios {
namespace {

constexpr const char* kDefaultFile = "/etc/agios.conf";
constexpr const char* kGroup = "library_options";
constexpr const char* kOwnGroup = "tutti_options";

// The values of a file, with AGIOS's defaults.
struct Settings {
  std::string default_algorithm = "SJF";
  std::string starting_algorithm;
  std::int64_t waiting_time = 900'000;  // ns
  std::int64_t aioli_quantum = 65536;   // bytes
  std::int64_t mlf_quantum = 8192;      // bytes
  std::int64_t sw_window = 1000;        // ms
  std::int64_t twins_window = 2000;     // us
  std::string wfq_conf;
  bool trace = false;
  std::string trace_file_prefix = "/tmp/agios_tracefile";
  PolicyOptions own;  // options with Tutti's own names
};

struct IntegerKey {
  std::string_view name;
  std::int64_t Settings::*where;
  std::int64_t low;
};
constexpr std::array kIntegers = {
    IntegerKey{"waiting_time", &Settings::waiting_time, 0}, IntegerKey{"aioli_quantum", &Settings::aioli_quantum, 1},
    IntegerKey{"mlf_quantum", &Settings::mlf_quantum, 1},   IntegerKey{"SW_window", &Settings::sw_window, 1},
    IntegerKey{"twins_window", &Settings::twins_window, 1},
};

struct TextKey {
  std::string_view name;
  std::string Settings::*where;
};
constexpr std::array kTexts = {
    TextKey{"default_algorithm", &Settings::default_algorithm},
    TextKey{"starting_algorithm", &Settings::starting_algorithm},
    TextKey{"wfq_conf", &Settings::wfq_conf},
    TextKey{"trace_file_prefix", &Settings::trace_file_prefix},
};

struct UnsupportedKey {
  std::string_view name;
  std::string_view reason;
};
constexpr std::string_view kNoSelection = "algorithms are not selected automatically";
constexpr std::array kUnsupported = {
    UnsupportedKey{"select_algorithm_period", kNoSelection},
    UnsupportedKey{"select_algorithm_min_reqnumber", kNoSelection},
    UnsupportedKey{"performance_values", kNoSelection},
    UnsupportedKey{"enable_SW", kNoSelection},
    UnsupportedKey{"trace_file_sufix", "the names of trace files end in .NUMBER.trace"},
    UnsupportedKey{"max_trace_buffer_size", "the memory for traces is limited to a few blocks"},
};

// The policies for AGIOS's algorithms.
struct Algorithm {
  std::string_view name;
  std::string_view policy;
  PolicyOptions (*options)(const Settings&, std::int32_t max_queue_id);
};
PolicyOptions feedback_options(std::int64_t quantum, std::int64_t wait) {
  return {{"quantum", std::to_string(quantum)}, {"wait", fmt::format("{}ns", wait)}};
}
constexpr auto kNoOptions = [](const Settings&, std::int32_t) { return PolicyOptions{}; };
constexpr std::array kAlgorithms = {
    Algorithm{"NOOP", "fifo", kNoOptions},
    Algorithm{"TO", "to",
              [](const Settings&, std::int32_t) {
                return PolicyOptions{{"max_requests", "1"}};
              }},
    Algorithm{"TO-agg", "to", kNoOptions},
    Algorithm{"SJF", "sjf", kNoOptions},
    Algorithm{"MLF", "mlf",
              [](const Settings& s, std::int32_t) { return feedback_options(s.mlf_quantum, s.waiting_time); }},
    Algorithm{"aIOLi", "aioli",
              [](const Settings& s, std::int32_t) { return feedback_options(s.aioli_quantum, s.waiting_time); }},
    Algorithm{"SW", "window",
              [](const Settings& s, std::int32_t) {
                return PolicyOptions{{"width", fmt::format("{}ms", s.sw_window)}};
              }},
    Algorithm{
        "TWINS", "twins",
        [](const Settings& s, std::int32_t queues) {
          return PolicyOptions{{"width", fmt::format("{}us", s.twins_window)}, {"targets", std::to_string(queues)}};
        }},
    Algorithm{"WFQ", "fair", kNoOptions},
};

template <typename Table>
auto find(const Table& table, std::string_view name) {
  return std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.name == name; });
}

// Reads one file. Errors and remarks contain file and line.
class Reader {
 public:
  Reader() { config_init(&config_); }
  ~Reader() { config_destroy(&config_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  Result<void> read(const std::string& file, Settings& settings);
  std::vector<std::string> remarks;

 private:
  Result<void> read_root(Settings& settings);
  Result<void> read_key(const config_setting_t* setting, Settings& settings);
  Result<void> read_integer(const config_setting_t* setting, const IntegerKey& key, Settings& settings);
  Result<void> read_own(const config_setting_t* group, Settings& settings);
  void remark_on(const config_setting_t* setting, std::string_view what) {
    remarks.push_back(fmt::format("{}: '{}' has no effect: {}", position(setting), config_setting_name(setting), what));
  }
  Failure wrong(const config_setting_t* setting, std::string_view expected) const {
    return fail(ErrorCode::kInvalid,
                fmt::format("{}: '{}' must be {}", position(setting), config_setting_name(setting), expected));
  }
  std::string position(const config_setting_t* setting) const {
    return fmt::format("{}:{}", file_, config_setting_source_line(setting));
  }

  config_t config_;
  std::string file_;
};

Result<void> Reader::read(const std::string& file, Settings& settings) {
  file_ = file;
  if (config_read_file(&config_, file.c_str()) == CONFIG_TRUE) return read_root(settings);
  if (config_error_type(&config_) == CONFIG_ERR_FILE_IO)
    return fail(ErrorCode::kIo, fmt::format("{}: {}", file, std::strerror(errno)), errno);
  return fail(ErrorCode::kInvalid,
              fmt::format("{}:{}: {}", file, config_error_line(&config_), config_error_text(&config_)));
}

Result<void> Reader::read_root(Settings& settings) {
  const config_setting_t* root = config_root_setting(&config_);
  for (int i = 0; i < config_setting_length(root); ++i) {
    const config_setting_t* setting = config_setting_get_elem(root, static_cast<unsigned>(i));
    const std::string_view name = config_setting_name(setting);
    if (name != kGroup && name != kOwnGroup) {
      remark_on(setting, fmt::format("only the groups '{}' and '{}' are read", kGroup, kOwnGroup));
      continue;
    }
    if (!config_setting_is_group(setting)) return wrong(setting, "a group: { ... }");
    if (name == kOwnGroup) {
      if (auto own = read_own(setting, settings); !own) return own;
      continue;
    }
    for (int k = 0; k < config_setting_length(setting); ++k) {
      auto read = read_key(config_setting_get_elem(setting, static_cast<unsigned>(k)), settings);
      if (!read) return read;
    }
  }
  return {};
}

Result<void> Reader::read_key(const config_setting_t* setting, Settings& settings) {
  const std::string_view name = config_setting_name(setting);
  if (const auto key = find(kIntegers, name); key != kIntegers.end()) return read_integer(setting, *key, settings);
  if (const auto key = find(kTexts, name); key != kTexts.end()) {
    const char* text = config_setting_get_string(setting);
    if (!text) return wrong(setting, "a text in quotes");
    settings.*(key->where) = text;
    return {};
  }
  if (name == "trace") {
    if (config_setting_type(setting) != CONFIG_TYPE_BOOL) return wrong(setting, "true or false");
    settings.trace = config_setting_get_bool(setting) != CONFIG_FALSE;
    return {};
  }
  const auto unsupported = find(kUnsupported, name);
  remark_on(setting, unsupported != kUnsupported.end() ? unsupported->reason : "there is no such key");
  return {};
}

Result<void> Reader::read_integer(const config_setting_t* setting, const IntegerKey& key, Settings& settings) {
  const int type = config_setting_type(setting);
  const std::int64_t value = config_setting_get_int64(setting);
  if ((type != CONFIG_TYPE_INT && type != CONFIG_TYPE_INT64) || value < key.low)
    return wrong(setting, fmt::format("a whole number, at least {}", key.low));
  settings.*(key.where) = value;
  return {};
}

Result<void> Reader::read_own(const config_setting_t* group, Settings& settings) {
  for (int i = 0; i < config_setting_length(group); ++i) {
    const config_setting_t* setting = config_setting_get_elem(group, static_cast<unsigned>(i));
    const char* text = config_setting_get_string(setting);
    if (!text) return wrong(setting, "a text in quotes, as `tutti policies` shows it");
    settings.own[config_setting_name(setting)] = text;
  }
  return {};
}

// Finds a policy by AGIOS's or Tutti's name.
std::optional<Configuration> choose(const std::string& name, const Settings& settings, std::int32_t max_queue_id) {
  if (const auto algorithm = find(kAlgorithms, name); algorithm != kAlgorithms.end())
    return Configuration{std::string(algorithm->policy), algorithm->options(settings, max_queue_id)};
  if (find_policy(name)) return Configuration{.policy = name};
  return std::nullopt;
}

Result<Configuration> choose(const Settings& settings, std::int32_t max_queue_id) {
  if (auto chosen = choose(settings.default_algorithm, settings, max_queue_id)) return *chosen;
  std::vector<std::string_view> names;
  for (const Algorithm& algorithm : kAlgorithms) names.push_back(algorithm.name);
  for (const PolicyInfo& policy : policies()) names.push_back(policy.name);
  const std::string unknown = fmt::format("default_algorithm: there is no '{}'; there are: {}",
                                          settings.default_algorithm, fmt::join(names, ", "));
  // AGIOS uses this algorithm until an automatic one has decided. This library has no automatic algorithms.
  auto start = choose(settings.starting_algorithm, settings, max_queue_id);
  if (!start) return fail(ErrorCode::kInvalid, unknown);
  start->remarks.push_back(fmt::format("{}; starting_algorithm '{}' it is", unknown, settings.starting_algorithm));
  return *start;
}

}  // namespace

Result<Configuration> read_configuration(const char* file, std::int32_t max_queue_id) {
  Settings settings;
  Reader reader;
  if (file || access(kDefaultFile, F_OK) == 0) {
    if (auto read = reader.read(file ? file : kDefaultFile, settings); !read) return Failure(read.error());
  }
  auto chosen = choose(settings, max_queue_id);
  if (!chosen) return chosen;
  if (chosen->policy == "fair" && !settings.wfq_conf.empty()) {
    auto weights = read_weights(settings.wfq_conf);
    if (!weights) return Failure(weights.error());
    chosen->options["weights"] = *weights;
  }
  if (settings.trace) chosen->trace = settings.trace_file_prefix;
  if (const auto predict = settings.own.extract("predict")) chosen->predict = predict.mapped();
  for (const auto& [name, text] : settings.own) chosen->options[name] = text;
  chosen->remarks.insert(chosen->remarks.begin(), reader.remarks.begin(), reader.remarks.end());
  return chosen;
}

}  // namespace tutti::agios
