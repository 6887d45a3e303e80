// SPDX-License-Identifier: Apache-2.0
#include "sim/random_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/prng.h"

namespace tutti::sim {
namespace {

constexpr double kRequests = 60'000;  // of all applications together

struct DeviceChoice {
  std::string_view preset;
  double bandwidth;  // bytes per second that jobs of this generator get from it, roughly
};
constexpr std::array kDevices = {DeviceChoice{"hdd-7200", 30e6}, DeviceChoice{"ssd-sata-2011", 300e6},
                                 DeviceChoice{"nvme", 3000e6}};

constexpr std::array<std::string_view, 7> kPatterns = {"contiguous", "strided", "interleaved", "tiles-2d",
                                                       "tiles-3d",   "vector",  "random"};

enum class Knowledge { kAnnounced, kRemembered, kLearned, kUnknown, kWrong, kMixed };

class Generator {
 public:
  Generator(std::uint64_t seed, std::uint64_t number)
      : seed_(seed), number_(number), chance_(seed * 0x9e3779b97f4a7c15 + number) {}

  std::string scenario() {
    const DeviceChoice& device = kDevices[chance_.below(kDevices.size())];
    bandwidth_ = device.bandwidth;
    servers_ = 1u << chance_.below(7);
    jobs_ = static_cast<unsigned>(std::lround(log_uniform(2, 24)));
    open_loop_ = chance_.chance(0.4);
    knowledge_ = static_cast<Knowledge>(chance_.below(6));
    partial_ = chance_.chance(0.5);
    directions_ = chance_.uniform();
    load_ = chance_.uniform(0.3, 1.5);
    text_ = fmt::format(
        "about = \"random scenario {} of seed {}\"\nseed = {}\n\n[servers]\ncount = {}\ndevice = {{ preset = \"{}\" "
        "}}\n\n[network]\nlatency = \"{}us\"\njitter = \"{}us\"\nserver_bandwidth = \"1250MB\"\n",
        number_, seed_, chance_.below(1u << 30), servers_, device.preset, 20 + chance_.below(80),
        5 + chance_.below(95));
    write_applications();
    if (chance_.chance(0.3)) write_clock_errors();
    return std::move(text_);
  }

 private:
  double log_uniform(double low, double high) { return std::exp(chance_.uniform(std::log(low), std::log(high))); }
  // A power of two between 1 << low and 1 << high.
  std::uint64_t power_of_two(unsigned low, unsigned high) {
    return std::uint64_t{1} << (low + chance_.below(high - low + 1));
  }

  // The share of each job in the bytes of the scenario: equal, uniform or heavy-tailed.
  std::vector<double> weights() {
    std::vector<double> result(jobs_, 1);
    const double kind = chance_.uniform();
    for (double& weight : result) {
      if (kind > 0.75) weight = chance_.uniform(0.2, 1);
      if (kind < 0.5) weight = std::min(chance_.pareto(1, 0.9), 1000.0);
    }
    double sum = 0;
    for (const double weight : result) sum += weight;
    for (double& weight : result) weight /= sum;
    return result;
  }

  void write_applications() {
    const std::uint64_t stripe = power_of_two(16, 20);
    const double bytes = kRequests * static_cast<double>(stripe) / 2;
    const double all = bytes / (servers_ * bandwidth_);  // seconds that the servers need for everything
    double arrival = 0;
    const double spread = log_uniform(1e-4, 0.3) * all;  // of the starts of jobs in closed loops
    const std::vector<double> shares = weights();
    for (unsigned i = 0; i < jobs_; ++i) {
      if (open_loop_) arrival += chance_.exponential(all / jobs_ / load_);
      write_application(i, bytes * shares[i], stripe, open_loop_ ? arrival : chance_.uniform(0, spread));
    }
  }

  void write_application(unsigned number, double bytes, std::uint64_t stripe, double start) {
    const unsigned iterations = open_loop_ ? 1 : 1 + static_cast<unsigned>(chance_.below(4));
    const double phase = std::max(bytes / iterations, static_cast<double>(stripe));
    const unsigned ranks = static_cast<unsigned>(std::clamp(
        std::floor(log_uniform(1, 64)), 1.0, std::max(1.0, std::floor(phase / static_cast<double>(stripe)))));
    const double per_rank = phase / ranks;
    const std::string_view pattern = kPatterns[chance_.below(kPatterns.size())];
    const bool blocks = pattern != "contiguous" && pattern != "random";
    const std::uint64_t block = blocks ? stripe >> chance_.below(2) : 0;
    // The size of an operation: between a stripe and 32 MB, a multiple of the block.
    double size = std::min(log_uniform(static_cast<double>(stripe), 32e6), per_rank);
    if (block > 0) size = std::max(1.0, std::floor(size / static_cast<double>(block))) * static_cast<double>(block);
    const unsigned operations = std::max(1u, static_cast<unsigned>(std::lround(per_rank / size)));
    const unsigned stripes = partial_ ? 1 + static_cast<unsigned>(chance_.below(servers_)) : servers_;
    const double alone = phase / (stripes * bandwidth_);
    const double direction = chance_.uniform();
    const bool writes = directions_ < 0.5 || (directions_ > 0.7 && direction < 0.5);
    text_ += fmt::format(
        "\n[[applications]]\nname = \"job{}\"\nstart = \"{:.0f}us\"\nrank_spread = \"{:.0f}us\"\nranks = {}\n"
        "iterations = {}\ncompute = \"{:.0f}us\"\noperations = {}\nsize = \"{}\"\nstripe_size = \"{}\"\nstripe_count = "
        "{}\n"
        "pattern = \"{}\"\ndirection = \"{}\"\noutstanding = {}\nbarrier = \"{}\"\nfile_per_process = {}\n",
        number, start * 1e6, log_uniform(10, 5000), ranks, iterations,
        open_loop_ ? 0 : alone * chance_.uniform(0, 3 * jobs_ / load_ / 4) * 1e6, operations,
        static_cast<std::uint64_t>(size), stripe, stripes, pattern, writes ? "write" : "read",
        chance_.chance(0.7) ? 1 : 2 + chance_.below(7), chance_.chance(0.7) ? "phase" : "operation",
        chance_.chance(0.3));
    if (block > 0) text_ += fmt::format("block = \"{}\"\n", block);
    if (pattern == "vector") text_ += fmt::format("gap = \"{}\"\n", block);
    write_knowledge();
  }

  void write_knowledge() {
    Knowledge its = knowledge_;
    if (its == Knowledge::kMixed) its = static_cast<Knowledge>(chance_.below(5));
    constexpr std::array<std::string_view, 5> names = {"announced", "remembered", "learned", "unknown", "announced"};
    text_ += fmt::format("sizes = \"{}\"\n", names[static_cast<std::size_t>(its)]);
    if (its == Knowledge::kWrong) text_ += fmt::format("size_error = {:.3f}\n", log_uniform(0.1, 10));
  }

  void write_clock_errors() {
    for (unsigned i = 0; i < jobs_; ++i) {
      const double error = chance_.uniform(-50, 50);  // milliseconds
      text_ += fmt::format("\n[[faults]]\nkind = \"skew\"\napplication = \"job{}\"\n{} = \"{:.3f}ms\"\n", i,
                           error < 0 ? "behind" : "ahead", std::abs(error));
    }
  }

  const std::uint64_t seed_, number_;
  Prng chance_;
  double bandwidth_ = 0;
  unsigned servers_ = 1, jobs_ = 1;
  bool open_loop_ = false, partial_ = false;
  Knowledge knowledge_ = Knowledge::kAnnounced;
  double directions_ = 0, load_ = 1;
  std::string text_;
};

}  // namespace

std::string random_scenario(std::uint64_t seed, std::uint64_t number) {
  return Generator(seed, number).scenario();
}

}  // namespace tutti::sim
