// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/config.h"
#include "base/prng.h"
#include "base/units.h"
#include "sched/policy.h"
#include "sim/job_trace.h"
#include "sim/variants.h"

namespace tutti::sim {
namespace {

template <typename Value>
using Names = std::vector<std::pair<std::string, Value>>;

const Names<Pattern> kPatternNames = {
    {"contiguous", Pattern::kContiguous}, {"strided", Pattern::kStrided},  {"interleaved", Pattern::kInterleaved},
    {"tiles-2d", Pattern::kTiles2d},      {"tiles-3d", Pattern::kTiles3d}, {"vector", Pattern::kVector},
    {"random", Pattern::kRandom}};
const Names<RankBarrier> kBarriers = {{"phase", RankBarrier::kPhase}, {"operation", RankBarrier::kOperation}};
const Names<Direction> kDirections = {{"read", Direction::kRead}, {"write", Direction::kWrite}};
const Names<PhaseSizes> kSizes = {{"announced", PhaseSizes::kAnnounced},
                                  {"remembered", PhaseSizes::kRemembered},
                                  {"learned", PhaseSizes::kLearned},
                                  {"unknown", PhaseSizes::kUnknown}};
const Names<ScenarioFault::Kind> kFaults = {
    {"slow", ScenarioFault::Kind::kSlow}, {"stop", ScenarioFault::Kind::kStop},
    {"skew", ScenarioFault::Kind::kSkew}, {"delay", ScenarioFault::Kind::kDelay},
    {"kill", ScenarioFault::Kind::kKill}, {"coordinator", ScenarioFault::Kind::kCoordinator}};
const Names<Gate::Kind> kGates = {
    {"none", Gate::Kind::kNone}, {"lock", Gate::Kind::kLock}, {"backoff", Gate::Kind::kBackoff}};

const Names<Trick> kTricks = {{"none", Trick::kNone},
                              {"understate", Trick::kUnderstate},
                              {"overstate", Trick::kOverstate},
                              {"cut", Trick::kCut},
                              {"ids", Trick::kIds},
                              {"clock", Trick::kBehind},
                              {"clock-hour", Trick::kHourBehind},
                              {"clock-ahead", Trick::kAhead},
                              {"clock-hour-ahead", Trick::kHourAhead}};

template <typename Value>
Value choose(Section& section, std::string_view key, std::string_view fallback, const Names<Value>& names) {
  std::vector<std::string> accepted;
  for (const auto& [name, value] : names) accepted.push_back(name);
  const std::string chosen = section.choice(key, fallback, accepted);
  for (const auto& [name, value] : names)
    if (name == chosen) return value;
  return names.front().second;
}

double bandwidth(Section& section, std::string_view key) {
  return static_cast<double>(section.bytes(key, Bytes{}).count());
}

// Reads a value, or draws from a range for each copy of an application: "1MiB..1GiB" is uniform, "1MiB..1GiB
// pareto 1.1" is heavy-tailed within the range.
class Drawer {
 public:
  using Parse = Result<double> (*)(std::string_view);

  Drawer(Section& section, Prng& chance) : section_(section), chance_(chance) {}

  double draw(std::string_view key, double fallback, double lowest, Parse parse) {
    const std::string text = section_.scalar(key, "");
    if (!section_.has(key) || text.empty()) return fallback;
    const auto dots = text.find("..");
    const double low = value(key, text.substr(0, dots), lowest, parse);
    if (dots == std::string::npos) return low;
    std::string rest = text.substr(dots + 2);
    double shape = 0;
    if (const auto word = rest.find(" pareto "); word != std::string::npos) {
      shape = value(key, rest.substr(word + 8), 0.01, number);
      rest.resize(word);
    }
    const double high = value(key, rest, lowest, parse);
    if (high < low) section_.mistake(key, fmt::format("'{}': the end of the range is below its beginning", text));
    return shape > 0 ? bounded_pareto(low, high, shape) : chance_.uniform(low, high);
  }

  static Result<double> number(std::string_view text) {
    try {
      std::size_t used = 0;
      const double value = std::stod(std::string(text), &used);
      if (text.find_first_not_of(' ', used) == std::string_view::npos) return value;
    } catch (const std::exception&) {
    }
    return fail(ErrorCode::kInvalid, fmt::format("'{}' is neither a number nor a range such as 2..8", text));
  }
  static Result<double> bytes(std::string_view text) {
    return parse_bytes(text).map([](Bytes value) { return static_cast<double>(value.count()); });
  }
  static Result<double> time(std::string_view text) {
    return parse_duration(text).map([](Duration value) { return static_cast<double>(value.count()); });
  }

 private:
  double value(std::string_view key, const std::string& text, double lowest, Parse parse) {
    const auto parsed = parse(text);
    if (!parsed) return section_.mistake(key, parsed.error().message), lowest;
    if (*parsed < lowest) section_.mistake(key, fmt::format("'{}' is too small; it must be at least {}", text, lowest));
    return *parsed;
  }

  double bounded_pareto(double low, double high, double shape) {
    const double ratio = std::pow(low / high, shape);
    return low / std::pow(1 - chance_.uniform() * (1 - ratio), 1 / shape);
  }

  Section& section_;
  Prng& chance_;
};

unsigned count_of(double value) {
  return static_cast<unsigned>(std::llround(std::min(value, 4e9)));
}
Duration duration_of(double value) {
  return Duration(static_cast<std::int64_t>(value));
}

PolicyOptions read_options(Section section) {
  PolicyOptions options;
  for (const std::string& key : section.keys()) options[key] = section.scalar(key, "");
  return options;
}

// One size for each server instead of `size`.
void read_server_bytes(Section& section, Application& application) {
  if (section.has("size")) section.mistake("size", "is the sum of server_bytes; remove one of the two");
  application.size = Bytes{};
  for (const std::string& text : section.scalars("server_bytes")) {
    const auto bytes = parse_bytes(text);
    if (!bytes) return section.mistake("server_bytes", bytes.error().message);
    application.server_bytes.push_back(*bytes);
    application.size += *bytes;
  }
  if (application.size == Bytes{}) section.mistake("server_bytes", "adds up to 0; some server needs at least 1 byte");
}

// One copy of an [[applications]] table. Each call draws new values from its ranges.
Application read_application(Section section, Prng& chance, const Scenario& scenario) {
  Drawer drawer(section, chance);
  Application result;
  result.start = duration_of(drawer.draw("start", 0, 0, Drawer::time));
  result.rank_spread = duration_of(drawer.draw("rank_spread", 0, 0, Drawer::time));
  result.ranks = count_of(drawer.draw("ranks", 1, 1, Drawer::number));
  result.ranks_per_node = static_cast<unsigned>(section.integer("ranks_per_node", 1, {1, 1 << 20}));
  result.iterations = count_of(drawer.draw("iterations", 1, 1, Drawer::number));
  result.compute = duration_of(drawer.draw("compute", 0, 0, Drawer::time));
  result.operations = count_of(drawer.draw("operations", 1, 1, Drawer::number));
  result.size = Bytes(static_cast<std::uint64_t>(drawer.draw("size", 1 << 20, 1, Drawer::bytes)));
  if (section.has("server_bytes")) read_server_bytes(section, result);
  result.block = section.bytes("block", Bytes{});
  if (result.block > Bytes{})
    result.size = std::max(result.block, result.size / result.block.count() * result.block.count());
  result.largest_request = section.bytes("largest_request", Bytes{});
  result.separate_requests = section.boolean("separate_requests", false);
  result.flow = section.bytes("flow", Bytes{});
  result.gap = section.bytes("gap", Bytes{});
  result.think = duration_of(drawer.draw("think", 0, 0, Drawer::time));
  result.outstanding = static_cast<unsigned>(section.integer("outstanding", 1, {1, 1 << 20}));
  result.variation = section.number("variation", 0, {0, 1});
  result.direction = choose(section, "direction", "read", kDirections);
  result.pattern = choose(section, "pattern", "contiguous", kPatternNames);
  result.barrier = choose(section, "barrier", "phase", kBarriers);
  result.sync = section.boolean("sync", false);
  result.file_per_process = section.boolean("file_per_process", false);
  result.stripe_size = section.bytes("stripe_size", result.stripe_size);
  if (result.stripe_size == Bytes{}) section.mistake("stripe_size", "is 0; it must be at least 1 byte");
  const auto servers = static_cast<std::int64_t>(scenario.servers.count);
  result.stripe_count = static_cast<unsigned>(section.integer("stripe_count", 0, {0, INT32_MAX}));
  if (result.stripe_count > scenario.servers.count)
    section.mistake("stripe_count",
                    fmt::format("{} must not exceed the number of servers, {}", result.stripe_count, servers));
  if (section.has("first_server"))
    result.first_server = static_cast<unsigned>(section.integer("first_server", 0, {0, servers - 1}));
  if (section.has("id")) result.id = static_cast<ApplicationId>(section.integer("id", 0, {0, INT32_MAX}));
  result.sizes = choose(section, "sizes", "learned", kSizes);
  result.size_error = section.number("size_error", 1, {0, 1000});
  result.trick = choose(section, "trick", "none", kTricks);
  result.job_proven = section.boolean("job_proven", true);
  result.coordinated = section.boolean("coordinated", true);
  result.user = static_cast<UserId>(section.integer("user", 0, {0, INT32_MAX}));
  return result;
}

// A file named by `key`, relative to the scenario file.
std::optional<JobTrace> load_trace(Section& section, std::string_view key, const std::string& source) {
  const std::filesystem::path path = section.text(key, "");
  auto trace = load_jobs((path.is_absolute() ? path : std::filesystem::path(source).parent_path() / path).string());
  if (!trace) return section.mistake(key, trace.error().message), std::nullopt;
  return std::move(*trace);
}

void refuse(Section& section, std::initializer_list<const char*> keys, std::string_view from) {
  for (const char* key : keys)
    if (section.has(key)) section.mistake(key, fmt::format("comes from `{}`; remove it", from));
}

// All applications of a trace. What the trace does not say is as in the table.
void read_trace(Section& section, Prng& chance, const std::string& source, Scenario& scenario) {
  refuse(section,
         {"name", "count", "arrivals", "start", "ranks", "iterations", "operations", "size", "server_bytes", "id"},
         "trace");
  const Application table = read_application(section, chance, scenario);
  auto trace = load_trace(section, "trace", source);
  if (!trace) return;
  const bool coflows = trace->kind == JobTrace::Kind::kCoflows;
  if (trace->servers > scenario.servers.count)
    section.mistake("trace", fmt::format("has {} ports and there are {} servers; set servers.count = {}",
                                         trace->servers, scenario.servers.count, trace->servers));
  if (!coflows) refuse(section, {"compute", "direction", "pattern", "file_per_process"}, "trace");
  for (Application& job : trace->jobs) {
    Application application = coflows ? table : std::move(job);
    if (coflows) {
      application.name = job.name;
      application.start = job.start;
      application.ranks = job.ranks;
      application.size = job.size;
      application.server_bytes = std::move(job.server_bytes);
      application.server_bytes.resize(scenario.servers.count);
    } else {
      application.sizes = table.sizes;
      application.size_error = table.size_error;
      application.flow = table.flow;
      application.stripe_count = table.stripe_count;
      application.ranks_per_node = table.ranks_per_node;
      application.outstanding = table.outstanding;
      if (section.has("stripe_size")) application.stripe_size = table.stripe_size;
    }
    scenario.applications.push_back(std::move(application));
  }
}

void read_copies(Section& section, const std::string& name, Prng& chance, const std::string& source,
                 Scenario& scenario) {
  std::optional<JobTrace> arrivals;
  if (section.has("arrivals")) {
    refuse(section, {"count", "start"}, "arrivals");
    arrivals = load_trace(section, "arrivals", source);
  }
  const std::int64_t copies =
      arrivals ? static_cast<std::int64_t>(arrivals->jobs.size()) : section.integer("count", 1, {1, 1 << 20});
  for (std::int64_t copy = 0; copy < copies; ++copy) {
    Application application = read_application(section, chance, scenario);
    application.name = copies == 1 ? name : fmt::format("{}{}", name, copy);
    if (arrivals) application.start = arrivals->jobs[static_cast<std::size_t>(copy)].start;
    if (application.id) *application.id += static_cast<ApplicationId>(copy);
    scenario.applications.push_back(std::move(application));
  }
}

void read_applications(Config& config, const std::string& source, Scenario& scenario) {
  Prng chance(scenario.seed ^ 0x6d6978);
  std::vector<Section> sections = config.root().sections("applications");
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const std::string name = sections[i].text("name", fmt::format("application{}", i));
    sections[i].has("trace") ? read_trace(sections[i], chance, source, scenario)
                             : read_copies(sections[i], name, chance, source, scenario);
  }
  if (sections.empty()) config.root().mistake("applications", "a scenario needs at least one [[applications]]");
}

std::optional<unsigned> find_application(Section& section, const Scenario& scenario) {
  if (!section.has("application")) return std::nullopt;
  const std::string name = section.scalar("application", "");
  std::vector<std::string> names;
  for (unsigned i = 0; i < scenario.applications.size(); ++i) {
    if (scenario.applications[i].name == name) return i;
    if (names.size() < 20) names.push_back(scenario.applications[i].name);
  }
  section.mistake("application",
                  fmt::format("there is no application '{}'; there are: {}", name, fmt::join(names, ", ")));
  return std::nullopt;
}

ScenarioFault read_fault(Section section, const Scenario& scenario) {
  ScenarioFault fault;
  fault.kind = choose(section, "kind", "slow", kFaults);
  if (section.has("server"))
    fault.server =
        static_cast<unsigned>(section.integer("server", 0, {0, static_cast<std::int64_t>(scenario.servers.count) - 1}));
  fault.application = find_application(section, scenario);
  if (fault.kind == ScenarioFault::Kind::kKill && !section.has("application"))
    section.mistake("application", "is missing; set the application that dies");
  fault.at = section.duration("at", Duration{});
  if (section.has("until")) fault.until = section.duration("until", Duration{});
  if (fault.until && *fault.until <= fault.at) section.mistake("until", "must be after `at`");
  fault.factor = section.number("factor", 1, {0, 1e6});
  fault.skew = section.duration("ahead", Duration{}) - section.duration("behind", Duration{});
  fault.probability = section.number("probability", 1, {0, 1});
  fault.delay = section.duration("delay", Duration{});
  return fault;
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const PolicyInfo& policy : policies()) names.push_back(policy.name);
  return names;
}

// `policy` and `options` of a table. [policies.NAME] has options for the policy that is finally chosen.
PolicyChoice read_policy(Section& section, Section& shared, const std::optional<std::string>& override) {
  PolicyChoice choice;
  const std::string written = section.choice("policy", "fifo", policy_names());
  const PolicyOptions options = read_options(section.section("options"));
  choice.name = override.value_or(written);
  for (const std::string& name : shared.keys()) {
    const PolicyOptions for_name = read_options(shared.section(name));
    if (!find_policy(name))
      shared.mistake(name,
                     fmt::format("there is no policy '{}'; there are: {}", name, fmt::join(policy_names(), ", ")));
    if (name == choice.name) choice.options = for_name;
  }
  if (choice.name == written)
    for (const auto& [name, value] : options) choice.options[name] = value;
  return choice;
}

void read_servers(Config& config, Scenario& scenario, const Overrides& overrides) {
  Section root = config.root();
  Section shared = root.section("policies");
  Section forwarding = root.section("forwarding");
  scenario.forwarding.count = static_cast<unsigned>(forwarding.integer("count", 0, {0, 1 << 20}));
  scenario.forwarding.depth = static_cast<unsigned>(forwarding.integer("depth", 16, {1, 1 << 20}));
  const bool forwards = scenario.forwarding.count > 0;
  scenario.forwarding.policy = read_policy(forwarding, shared, forwards ? overrides.policy : std::nullopt);

  Section servers = root.section("servers");
  scenario.servers.count = static_cast<unsigned>(servers.integer("count", 4, {1, 1 << 20}));
  scenario.servers.depth = static_cast<unsigned>(servers.integer("depth", 16, {1, 1 << 20}));
  scenario.servers.spread = servers.bytes("spread", Bytes{});
  scenario.servers.request_cost = servers.duration("request_cost", Duration{});
  scenario.servers.write_cost = servers.duration("write_cost", Duration{});
  scenario.servers.thread_bandwidth = bandwidth(servers, "thread_bandwidth");
  scenario.servers.read_ahead = servers.bytes("read_ahead", Bytes{});
  scenario.servers.write_back = servers.boolean("write_back", false);
  scenario.servers.write_cache = servers.bytes("write_cache", Bytes{});
  scenario.servers.write_buffers = servers.bytes("write_buffers", scenario.servers.write_buffers);
  scenario.servers.read_buffers = servers.bytes("read_buffers", scenario.servers.read_buffers);
  scenario.servers.max_waiting =
      static_cast<std::size_t>(servers.integer("max_waiting", scenario.servers.max_waiting, {1, 1 << 30}));
  wire::Limits& limits = scenario.servers.limits;
  limits.requests = static_cast<std::uint32_t>(servers.integer("connection_requests", limits.requests, {1, 1 << 20}));
  limits.bytes = servers.bytes("connection_bytes", Bytes(limits.bytes)).count();
  scenario.servers.policy = read_policy(servers, shared, forwards ? std::nullopt : overrides.policy);
  scenario.servers.device = read_device(servers.section("device"));
}

void read_gate(Section section, Gate& gate) {
  gate.kind = choose(section, "kind", "none", kGates);
  gate.discipline = section.text("discipline", "fifo");
  gate.discipline_options = read_options(section.section("options"));
  gate.latency = section.duration("latency", gate.latency);
  gate.patience = section.duration("patience", gate.patience);
  gate.answer_bound = section.duration("answer_bound", gate.answer_bound);
  gate.probe = section.boolean("probe", false);
  gate.own_data = section.boolean("own_data", false);
  Section backoff = section.section("backoff");
  const PolicyOptions options = read_options(backoff);
  const auto values = OptionValues::check("backoff", gate::BackoffOptions::table(), options);
  if (!values) return section.mistake("backoff", values.error().message);
  gate.backoff = gate::BackoffOptions::from(*values);
}

Result<Scenario> read(Config config, const std::string& source, const Overrides& overrides) {
  for (const std::string& assignment : overrides.assignments)
    if (auto set = config.set(assignment); !set) return Failure(set.error());
  Section root = config.root();
  Scenario scenario;
  scenario.name = root.text("name", std::filesystem::path(source).stem().string());
  root.text("about", "");
  scenario.seed = static_cast<std::uint64_t>(root.integer("seed", 1, {0, INT64_MAX}));
  if (overrides.seed) scenario.seed = *overrides.seed;
  scenario.timeout = root.duration("timeout", Duration{});
  scenario.limit = root.duration("limit", scenario.limit);
  read_servers(config, scenario, overrides);
  Section network = root.section("network");
  scenario.network.latency = network.duration("latency", scenario.network.latency);
  scenario.network.jitter = network.duration("jitter", Duration{});
  scenario.network.client_bandwidth = bandwidth(network, "client_bandwidth");
  scenario.network.server_bandwidth = bandwidth(network, "server_bandwidth");
  scenario.network.core_bandwidth = bandwidth(network, "core_bandwidth");
  read_gate(root.section("gate"), scenario.gate);
  read_sweep(root.section("sweep"));
  read_applications(config, source, scenario);
  for (Section& section : root.sections("faults")) scenario.faults.push_back(read_fault(section, scenario));
  if (auto done = config.finish(); !done) return Failure(done.error());
  if (auto valid = check(scenario); !valid)
    return fail(valid.error().code, fmt::format("{}: {}", source, valid.error().message));
  return scenario;
}

}  // namespace

Result<Scenario> load_scenario(const std::string& path, const Overrides& overrides) {
  auto config = Config::load(path);
  if (!config) return Failure(config.error());
  return read(std::move(*config), path, overrides);
}

Result<Scenario> parse_scenario(std::string_view text, const std::string& source, const Overrides& overrides) {
  auto config = Config::parse(text, source);
  if (!config) return Failure(config.error());
  return read(std::move(*config), source, overrides);
}

}  // namespace tutti::sim
