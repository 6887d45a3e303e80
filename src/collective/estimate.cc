// SPDX-License-Identifier: Apache-2.0
#include "collective/estimate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace tutti::collective {
namespace {

constexpr std::size_t kSamples = 4096;  // extents of all ranks that are looked at, from the beginning of each list

struct Sample {
  Extent extent{};
  Rank rank = 0;
  std::uint32_t request = 0;  // number of the rank's request, as own_data_plan() makes them
};

// The samples of all ranks by ascending offset, and the share of all bytes that they are.
struct Samples {
  std::vector<Sample> extents;
  double scale = 1;         // all bytes / bytes of the samples
  bool one_request = true;  // of each rank
  // The first requests of all ranks, then the second ones and so on, are in the order of the file.
  bool in_file_order = true;
  bool adjoining = true;  // and each follows the one before it
};

// `gap`: most bytes between requests that adjoin.
void find_order(Samples& samples, std::uint64_t gap) {
  std::vector<Sample>& extents = samples.extents;
  std::sort(extents.begin(), extents.end(), [](const Sample& a, const Sample& b) {
    return std::tuple(a.request, a.extent.offset) < std::tuple(b.request, b.extent.offset);
  });
  std::map<Rank, std::uint32_t> last;  // request of each rank
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const auto [found, first] = last.try_emplace(extents[i].rank, extents[i].request);
    const bool begins = first || std::exchange(found->second, extents[i].request) != extents[i].request;
    if (i == 0) continue;
    const Sample& before = extents[i - 1];
    const bool other = before.rank != extents[i].rank;
    if (extents[i].extent.offset < before.extent.end() || (other && !begins)) samples.in_file_order = false;
    if (other && extents[i].extent.offset > before.extent.end() + gap) samples.adjoining = false;
  }
  samples.adjoining = samples.adjoining && samples.in_file_order;
}

Samples take_samples(const PreparedLists& lists, std::uint64_t row, std::uint64_t gap, std::uint32_t list_io) {
  Samples samples;
  const std::size_t each = std::max<std::size_t>(4, kSamples / lists.ranks());
  double all = 0, taken = 0;
  for (Rank rank = 0; rank < lists.ranks(); ++rank) {
    std::size_t count = 0, listed = 0;
    std::uint32_t request = 0;
    all += static_cast<double>(lists.ranges[rank].bytes);
    for (const ExtentRun& run : lists.lists[rank]) {
      if (count == each) break;
      const bool large = run.length >= row;
      for (std::uint64_t i = 0; i < run.count && count < each; ++i, ++count) {
        if (count > 0 && (large || listed == list_io || listed == 0)) {
          ++request;
          listed = 0;
        }
        listed = large ? 0 : listed + 1;
        samples.extents.push_back({run.at(i), rank, request});
        taken += static_cast<double>(run.length);
      }
    }
    samples.one_request = samples.one_request && request == 0;
  }
  samples.scale = all / taken;
  find_order(samples, gap);
  const auto before = [](const Sample& a, const Sample& b) { return a.extent.offset < b.extent.offset; };
  std::stable_sort(samples.extents.begin(), samples.extents.end(), before);
  return samples;
}

// The load of one target.
struct Load {
  struct Part {
    double bytes = 0;
    std::uint64_t next_offset = 0;  // where the rank's last piece continues
    std::uint32_t request = 0;
  };
  double bytes = 0;
  double pieces = 0;    // ranges that are contiguous on the target, of one rank each
  double regions = 0;   // parts of all data with a gap between them
  double requests = 0;  // of all ranks
  std::map<Rank, Part> by_rank;
  std::uint64_t region_end = 0;

  bool shared() const { return by_rank.size() > 1; }
  double request_size() const { return bytes / requests; }
  double own() const {  // of the rank with most data
    double most = 0;
    for (const auto& [rank, part] : by_rank) most = std::max(most, part.bytes);
    return most;
  }
};

class Loads {
 public:
  Loads(const Stripes& stripes, std::uint64_t gap) : stripes_(stripes), gap_(gap), loads_(stripes.targets().size()) {}

  void add(const Sample& sample) {
    const Extent& extent = sample.extent;
    const double targets = static_cast<double>(loads_.size());
    if (extent.length >= stripes_.row() && loads_.size() > 1) {
      for (Load& load : loads_) add(load, sample, extent, static_cast<double>(extent.length) / targets);
      return;
    }
    for (std::uint64_t from = extent.offset; from < extent.end();) {
      const auto stripe = stripes_.at(from);
      const std::uint64_t to = std::min(extent.end(), stripe.end);
      add(loads_[stripe.target], sample, {from, to - from}, static_cast<double>(to - from));
      from = to;
    }
  }

  const std::vector<Load>& all() const { return loads_; }

 private:
  void add(Load& load, const Sample& sample, const Extent& extent, double bytes) const {
    // The next stripe of this target begins a row after this one.
    const auto [found, first] = load.by_rank.try_emplace(sample.rank);
    Load::Part& part = found->second;
    const bool continues =
        !first && extent.offset >= part.next_offset && extent.offset - part.next_offset < stripes_.row();
    if (!continues || extent.length >= stripes_.row()) ++load.pieces;
    if (first || std::exchange(part.request, sample.request) != sample.request) ++load.requests;
    const auto end = stripes_.at(extent.end() - 1).end;
    part.next_offset = extent.end() == end ? extent.end() : ~std::uint64_t{0};
    part.request = sample.request;
    if (load.bytes == 0 || extent.offset > load.region_end + gap_) ++load.regions;
    load.region_end = std::max(load.region_end, extent.end());
    load.bytes += bytes;
    part.bytes += bytes;
  }

  const Stripes& stripes_;
  std::uint64_t gap_;
  std::vector<Load> loads_;
};

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Times of the slowest target.
struct Times {
  double alone = 0;     // every rank its own bytes, ranks do not wait for each other
  double together = 0;  // the same, all ranks begin together
  double two_phase = 0;
  double resonant = 0;
};

class Calculation {
 public:
  Calculation(const EstimateInput& input, const Samples& samples)
      : input_(input),
        samples_(samples),
        device_(input.options.device),
        read_(input.direction == Direction::kRead),
        positioning_(seconds(read_ ? device_.read_positioning : device_.write_positioning)),
        ranks_(static_cast<double>(input.lists.ranks())) {}

  Times times(const std::vector<Load>& loads) const {
    Times slowest;
    const bool ordered = stays_in_order(loads);
    const double agents = agents_per_target(input_.options, input_.lists.ranks(), loads.size());
    const double duties = std::ceil(static_cast<double>(loads.size()) / ranks_) / agents;  // targets of a rank
    const auto raise = [](double& value, double other) { value = std::max(value, other); };
    double exchange = 0, all = 0;
    for (const Load& load : loads) {
      const double scale = samples_.scale;
      const double transfer = load.bytes * scale / device_.bandwidth;
      const double regions = load.regions > ranks_ ? load.regions * scale : load.regions;
      const double changes = std::max(load.pieces, load.bytes / interleave()) * scale;
      const double apart = load.shared() ? changes : 0;
      raise(slowest.alone, transfer + (regions + (ordered ? 0 : apart)) * positioning_);
      raise(slowest.together, transfer + (regions + std::min(apart, together(load, regions))) * positioning_);
      raise(slowest.two_phase,
            transfer + (2 * regions + std::max(ranks_, load.bytes * scale / interleave())) * positioning_);
      const double network = load.bytes * scale * duties / device_.network_bandwidth;
      raise(slowest.two_phase, network);
      slowest.resonant = std::max({slowest.resonant, transfer + 2 * regions * positioning_, network});
      raise(exchange, (load.bytes - load.own()) * scale * duties / device_.network_bandwidth);
      all += load.bytes * scale;
    }
    for (const PreparedLists::Range& range : input_.lists.ranges) {
      raise(slowest.alone, static_cast<double>(range.bytes) / device_.network_bandwidth);
      raise(slowest.together, static_cast<double>(range.bytes) / device_.network_bandwidth);
    }
    const double gather = (1 + std::log2(ranks_)) * seconds(device_.message);
    slowest.together += gather;
    slowest.two_phase += 2 * gather + all / ranks_ * (1 - 1 / ranks_) / device_.network_bandwidth;
    slowest.resonant += exchange + gather;
    return slowest;
  }

 private:
  double interleave() const { return static_cast<double>(device_.interleave.count()); }

  // Ranks that begin in the order of the file stay in it if the time that a request takes at a target is longer than
  // the two messages between a rank's requests vary, which is about their own time. A target that reads ahead serves
  // smaller reads out of order.
  bool stays_in_order(const std::vector<Load>& loads) const {
    const double least = read_ ? static_cast<double>(device_.read_ahead.count()) : 0;
    const double stable = 2 * seconds(device_.message) * device_.bandwidth;
    bool any = false;
    for (const Load& load : loads) {
      if (!load.shared()) continue;
      any = true;
      if (load.request_size() < std::max(least, stable)) return false;
    }
    return any && samples_.adjoining;
  }

  // Positionings of a target if all ranks begin together. Reads that are shorter than the read-ahead and adjoin are
  // served in any order, if all goes well: only a caller that also measures may count on it.
  double together(const Load& load, double regions) const {
    if (!input_.options.free_running || !read_ || !samples_.one_request || !samples_.adjoining)
      return std::numeric_limits<double>::max();
    const double ahead = static_cast<double>(device_.read_ahead.count());
    return std::max(regions, load.bytes * samples_.scale / std::max(ahead, load.request_size()));
  }

  const EstimateInput& input_;
  const Samples& samples_;
  const DeviceProfile& device_;
  bool read_;
  double positioning_;
  double ranks_;
};

}  // namespace

std::vector<Candidate> candidates(const EstimateInput& input) {
  const Stripes stripes(input.layout);
  const std::uint64_t read_ahead = input.options.device.read_ahead.count();
  const std::uint64_t gap = std::max(stripes.row(), std::min(read_ahead, stripes.row()) * stripes.targets().size());
  const Samples samples = take_samples(input.lists, stripes.row(), gap, input.options.list_io);
  Loads loads(stripes, gap);
  for (const Sample& sample : samples.extents) loads.add(sample);
  const Times times = Calculation(input, samples).times(loads.all());
  const ReadForm form = input.direction == Direction::kRead ? input.options.read_form : ReadForm::kExchange;
  const bool alone = input.options.free_running;
  std::vector<Candidate> result = {
      {{PlanKind::kIndependent, ReadForm::kExchange, alone && samples.adjoining}, alone ? times.alone : times.together},
      {{PlanKind::kResonant, form}, times.resonant}};
  if (input.interleaved || alone)
    result.push_back({{PlanKind::kTwoPhase}, input.interleaved ? times.two_phase : times.together});
  std::stable_sort(result.begin(), result.end(),
                   [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
  return result;
}

}  // namespace tutti::collective
