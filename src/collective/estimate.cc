// SPDX-License-Identifier: Apache-2.0
#include "collective/estimate.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tutti::collective {
namespace {

constexpr std::size_t kSamples = 4096;  // extents of all ranks that are looked at, from the beginning of each list

struct Sample {
  Extent extent{};
  Rank rank = 0;
};

// The samples of all ranks by ascending offset, and the share of all bytes that they are.
struct Samples {
  std::vector<Sample> extents;
  double scale = 1;  // all bytes / bytes of the samples
};

Samples take_samples(const PreparedLists& lists) {
  Samples samples;
  const std::size_t each = std::max<std::size_t>(4, kSamples / lists.ranks());
  double all = 0, taken = 0;
  for (Rank rank = 0; rank < lists.ranks(); ++rank) {
    std::size_t count = 0;
    all += static_cast<double>(lists.ranges[rank].bytes);
    for (const Run& run : lists.lists[rank]) {
      if (count == each) break;
      for (std::uint64_t i = 0; i < run.count && count < each; ++i, ++count) {
        samples.extents.push_back({run.at(i), rank});
        taken += static_cast<double>(run.length);
      }
    }
  }
  const auto before = [](const Sample& a, const Sample& b) { return a.extent.offset < b.extent.offset; };
  std::stable_sort(samples.extents.begin(), samples.extents.end(), before);
  samples.scale = all / taken;
  return samples;
}

// The load of one target.
struct Load {
  double bytes = 0;
  double pieces = 0;                          // ranges that are contiguous on the target, of one rank each
  double regions = 0;                         // parts of all data with a gap between them
  std::map<Rank, double> by_rank;             // bytes
  std::map<Rank, std::uint64_t> next_offset;  // where a rank's last piece on this target continues
  std::uint64_t region_end = 0;

  double own() const {  // of the rank with most data
    double most = 0;
    for (const auto& [rank, count] : by_rank) most = std::max(most, count);
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
      for (Load& load : loads_) add(load, sample.rank, extent, static_cast<double>(extent.length) / targets);
      return;
    }
    for (std::uint64_t from = extent.offset; from < extent.end();) {
      const auto stripe = stripes_.at(from);
      const std::uint64_t to = std::min(extent.end(), stripe.end);
      add(loads_[stripe.target], sample.rank, {from, to - from}, static_cast<double>(to - from));
      from = to;
    }
  }

  const std::vector<Load>& all() const { return loads_; }

 private:
  void add(Load& load, Rank rank, const Extent& extent, double bytes) const {
    // The next stripe of this target begins a row after this one.
    const auto [next, first] = load.next_offset.try_emplace(rank, 0);
    const bool continues = !first && extent.offset >= next->second && extent.offset - next->second < stripes_.row();
    if (!continues || extent.length >= stripes_.row()) ++load.pieces;
    const auto end = stripes_.at(extent.end() - 1).end;
    next->second = extent.end() == end ? extent.end() : ~std::uint64_t{0};
    if (load.bytes == 0 || extent.offset > load.region_end + gap_) ++load.regions;
    load.region_end = std::max(load.region_end, extent.end());
    load.bytes += bytes;
    load.by_rank[rank] += bytes;
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
  double independent = 0;
  double resonant = 0;
};

Times times_of(const std::vector<Load>& loads, const EstimateInput& input, double scale) {
  const DeviceProfile& device = input.options.device;
  const double positioning =
      seconds(input.direction == Direction::kRead ? device.read_positioning : device.write_positioning);
  const auto ranks = static_cast<double>(input.lists.ranks());
  const double duties = std::ceil(static_cast<double>(loads.size()) / ranks);
  Times slowest;
  double exchange = 0;
  for (const Load& load : loads) {
    const double transfer = load.bytes * scale / device.bandwidth;
    const double regions = load.regions > ranks ? load.regions * scale : load.regions;
    const double shared = std::max(load.pieces, load.bytes / static_cast<double>(device.interleave.count()));
    const double pieces = load.by_rank.size() > 1 ? shared * scale : 0;
    slowest.independent = std::max(slowest.independent, transfer + (regions + pieces) * positioning);
    const double network = load.bytes * scale * duties / device.network_bandwidth;
    slowest.resonant = std::max({slowest.resonant, transfer + 2 * regions * positioning, network});
    exchange = std::max(exchange, (load.bytes - load.own()) * scale * duties / device.network_bandwidth);
  }
  for (const PreparedLists::Range& range : input.lists.ranges)
    slowest.independent = std::max(slowest.independent, static_cast<double>(range.bytes) / device.network_bandwidth);
  slowest.resonant += exchange + (1 + std::log2(ranks)) * seconds(device.message);
  return slowest;
}

}  // namespace

Choice cheapest(const EstimateInput& input) {
  const Stripes stripes(input.layout);
  const Samples samples = take_samples(input.lists);
  const std::uint64_t read_ahead = input.options.device.read_ahead.count();
  const std::uint64_t gap = std::max(stripes.row(), std::min(read_ahead, stripes.row()) * stripes.targets().size());
  Loads loads(stripes, gap);
  for (const Sample& sample : samples.extents) loads.add(sample);
  const Times times = times_of(loads.all(), input, samples.scale);
  const bool agents = times.resonant < times.independent;
  const bool direct = agents && input.direction == Direction::kRead;
  return {agents ? PlanKind::kResonant : PlanKind::kIndependent,
          direct ? input.options.read_form : ReadForm::kExchange};
}

}  // namespace tutti::collective
