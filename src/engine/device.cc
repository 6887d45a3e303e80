// SPDX-License-Identifier: Apache-2.0
#include "engine/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

#include "engine/remainder.h"

namespace tutti {
namespace {

using std::chrono::microseconds;

constexpr unsigned kBatch = 16;  // Linux: fifo_batch

Duration seconds(double value) {
  return Duration(static_cast<std::int64_t>(std::llround(value * 1e9)));
}

Duration transfer_time(Bytes bytes, double bandwidth) {
  return bandwidth > 0 ? seconds(static_cast<double>(bytes.count()) / bandwidth) : Duration::zero();
}

struct Preset {
  std::string_view name;
  DeviceFigures figures;
};

const std::array<Preset, 4>& presets() {
  static const std::array<Preset, 4> table = {{
      {"hdd-7200", HddFigures{}},
      {"ssd-2010", SsdFigures{}},
      // 45,000 reads of 4 KiB per second, minus the SATA II transfer time, give 7 us of controller time per command.
      {"ssd-sata-2011", SsdFigures{.read_latency = microseconds(80),
                                   .write_latency = microseconds(60),
                                   .command = microseconds(7),
                                   .channels = 8,
                                   .read_bandwidth = 270e6,
                                   .write_bandwidth = 175e6}},
      {"nvme", SsdFigures{.read_latency = microseconds(70),
                          .write_latency = microseconds(15),
                          .command = std::chrono::nanoseconds(400),
                          .channels = 64,
                          .read_bandwidth = 7e9,
                          .write_bandwidth = 5e9}},
  }};
  return table;
}

// Proportional to the square root of the distance while the arm accelerates and brakes, linear at full speed.
Duration seek_time(const HddFigures& hdd, std::uint64_t distance) {
  const double third = static_cast<double>(hdd.capacity.count()) / 3;
  const double share = static_cast<double>(distance) / third;
  const double track = static_cast<double>(hdd.track_seek.count());
  const double average = static_cast<double>(hdd.average_seek.count());
  const double full = static_cast<double>(hdd.full_seek.count());
  if (share <= 1) return Duration(static_cast<std::int64_t>(track + (average - track) * std::sqrt(share)));
  return Duration(static_cast<std::int64_t>(average + (full - average) * std::min(1.0, (share - 1) / 2)));
}

// The rotational delay depends on the platter's angle when the seek ends.
Duration rotation_wait(const HddFigures& hdd, std::uint64_t position, TimePoint settled) {
  const double period = 60e9 / hdd.rotations_per_minute;
  const double track_bytes = hdd.bandwidth * period / 1e9;
  const double sector = remainder_of(static_cast<double>(position), track_bytes) / track_bytes;
  const double platter = remainder_of(static_cast<double>(settled.time_since_epoch().count()), period) / period;
  double turn = sector - platter;
  if (turn < 0) turn += 1;
  return Duration(static_cast<std::int64_t>(turn * period));
}

std::string rate(double bandwidth) {
  return bandwidth > 0 ? fmt::format("{:g} MB/s", bandwidth / 1e6) : "no limit";
}

double milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// Bytes per second, written as a size: "90MB".
double bandwidth(Section& section, std::string_view key, double fallback) {
  return static_cast<double>(section.bytes(key, Bytes(static_cast<std::uint64_t>(fallback))).count());
}

double positive_bandwidth(Section& section, std::string_view key, double fallback) {
  const double value = bandwidth(section, key, fallback);
  if (value < 1) section.mistake(key, "is 0; bytes per second, e.g. \"90MB\"");
  return value;
}

void read_figures(Section& section, FixedFigures& figures) {
  figures.latency = section.duration("latency", figures.latency);
  figures.bandwidth = bandwidth(section, "bandwidth", figures.bandwidth);
}

void read_figures(Section& section, HddFigures& figures) {
  figures.capacity = section.bytes("capacity", figures.capacity);
  if (figures.capacity < Bytes(1 << 20)) section.mistake("capacity", "is too small; at least 1MiB");
  figures.track_seek = section.duration("track_seek", figures.track_seek);
  figures.average_seek = section.duration("average_seek", figures.average_seek);
  figures.full_seek = section.duration("full_seek", figures.full_seek);
  figures.rotations_per_minute = section.number("rotations_per_minute", figures.rotations_per_minute, {1, 1e6});
  figures.bandwidth = positive_bandwidth(section, "bandwidth", figures.bandwidth);
  figures.interface_bandwidth = positive_bandwidth(section, "interface_bandwidth", figures.interface_bandwidth);
  figures.read_ahead = section.bytes("read_ahead", figures.read_ahead);
  figures.deadline = section.duration("deadline", figures.deadline);
  figures.write_positioning = section.number("write_positioning", figures.write_positioning, {0, 1});
}

void read_figures(Section& section, SsdFigures& figures) {
  figures.read_latency = section.duration("read_latency", figures.read_latency);
  figures.write_latency = section.duration("write_latency", figures.write_latency);
  figures.command = section.duration("command", figures.command);
  figures.channels = static_cast<unsigned>(section.integer("channels", figures.channels, {1, 4096}));
  figures.read_bandwidth = positive_bandwidth(section, "read_bandwidth", figures.read_bandwidth);
  figures.write_bandwidth = positive_bandwidth(section, "write_bandwidth", figures.write_bandwidth);
}

}  // namespace

std::vector<std::string> device_presets() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.emplace_back(preset.name);
  return names;
}

Result<DeviceFigures> device_preset(std::string_view name) {
  for (const Preset& preset : presets())
    if (preset.name == name) return preset.figures;
  return fail(ErrorCode::kNotFound,
              fmt::format("there is no device '{}'; there are: {}", name, fmt::join(device_presets(), ", ")));
}

DeviceFigures read_device(Section section) {
  DeviceFigures figures = FixedFigures{};
  if (section.has("preset")) {
    figures = *device_preset(section.choice("preset", presets().front().name, device_presets()));
  } else {
    const std::string kind = section.choice("kind", "fixed", {"fixed", "hdd", "ssd"});
    if (kind == "hdd") figures = HddFigures{};
    if (kind == "ssd") figures = SsdFigures{};
  }
  std::visit([&](auto& chosen) { read_figures(section, chosen); }, figures);
  return figures;
}

std::string describe(const DeviceFigures& figures) {
  if (const auto* hdd = std::get_if<HddFigures>(&figures))
    return fmt::format("hdd: {}, {:g} ms average seek, {:g}/min", rate(hdd->bandwidth), milliseconds(hdd->average_seek),
                       hdd->rotations_per_minute);
  if (const auto* ssd = std::get_if<SsdFigures>(&figures))
    return fmt::format("ssd: {} read, {} write, {:g} ms latency, {} channels", rate(ssd->read_bandwidth),
                       rate(ssd->write_bandwidth), milliseconds(ssd->read_latency), ssd->channels);
  const auto& fixed = std::get<FixedFigures>(figures);
  return fmt::format("fixed: {:g} ms and {}", milliseconds(fixed.latency), rate(fixed.bandwidth));
}

Duration floor_time(const DeviceFigures& figures, Bytes bytes, Direction direction) {
  if (const auto* hdd = std::get_if<HddFigures>(&figures)) return transfer_time(bytes, hdd->bandwidth);
  if (const auto* ssd = std::get_if<SsdFigures>(&figures))
    return transfer_time(bytes, direction == Direction::kRead ? ssd->read_bandwidth : ssd->write_bandwidth);
  return transfer_time(bytes, std::get<FixedFigures>(figures).bandwidth);
}

Device::Device(const DeviceFigures& figures) : figures_(figures) {
  if (const auto* ssd = std::get_if<SsdFigures>(&figures_)) capacity_ = ssd->channels;
}

void Device::add(const DeviceRequest& request, TimePoint now) {
  if (waiting_.empty() && in_service_.size() < capacity_) {
    if (batch_left_ == 0) batch_left_ = kBatch;
    --batch_left_;
    return begin(request, now);
  }
  waiting_.push_back({request, now});
}

std::optional<TimePoint> Device::next_finish() const {
  return in_service_.empty() ? std::nullopt : std::optional(in_service_.front().finish);
}

std::optional<std::uint64_t> Device::pop_finished(TimePoint now) {
  if (in_service_.empty() || in_service_.front().finish > now) return std::nullopt;
  const InService done = in_service_.front();
  in_service_.erase(in_service_.begin());
  if (in_service_.empty()) busy_ += done.finish - busy_since_;
  start(now);
  return done.tag;
}

Duration Device::busy(TimePoint now) const {
  return in_service_.empty() ? busy_ : busy_ + std::max(Duration::zero(), now - busy_since_);
}

void Device::start(TimePoint now) {
  while (!waiting_.empty() && in_service_.size() < capacity_) {
    const std::size_t chosen = choose(now);
    const DeviceRequest request = waiting_[chosen].request;
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(chosen));
    begin(request, now);
  }
}

void Device::begin(const DeviceRequest& request, TimePoint now) {
  if (in_service_.empty()) busy_since_ = now;
  in_service_.push_back({finish_time(request, now), request.tag});
  assert(in_service_.size() == 1 || in_service_.end()[-2].finish <= in_service_.back().finish);
}

std::size_t Device::choose(TimePoint now) {
  const auto* hdd = std::get_if<HddFigures>(&figures_);
  if (!hdd) return 0;
  if (batch_left_ == 0) {
    batch_left_ = kBatch;
    if (hdd->deadline > Duration::zero() && now - waiting_.front().since >= hdd->deadline) return 0;
  }
  --batch_left_;
  // C-LOOK: the smallest distance upwards from the head, with wrap-around. The earlier request wins if equal.
  const auto distance = [&](const Waiting& waiting) { return waiting.request.position - head_; };
  return static_cast<std::size_t>(std::ranges::min_element(waiting_, {}, distance) - waiting_.begin());
}

TimePoint Device::finish_time(const DeviceRequest& request, TimePoint now) {
  const auto slowed = [this](Duration duration) {
    return Duration(static_cast<std::int64_t>(static_cast<double>(duration.count()) * slowdown_));
  };
  if (const auto* hdd = std::get_if<HddFigures>(&figures_)) {
    const TimePoint finish = now + slowed(hdd_time(*hdd, request, now));
    head_ = request.position + request.length.count();
    last_direction_ = request.direction;
    head_free_ = finish;
    return finish;
  }
  if (const auto* ssd = std::get_if<SsdFigures>(&figures_)) {
    const bool read = request.direction == Direction::kRead;
    const TimePoint ready = now + slowed(read ? ssd->read_latency : ssd->write_latency);
    const double bandwidth = read ? ssd->read_bandwidth : ssd->write_bandwidth;
    bus_free_ = std::max(bus_free_, ready) + slowed(ssd->command + transfer_time(request.length, bandwidth));
    return bus_free_;
  }
  const auto& fixed = std::get<FixedFigures>(figures_);
  return now + slowed(fixed.latency + transfer_time(request.length, fixed.bandwidth));
}

Duration Device::hdd_time(const HddFigures& hdd, const DeviceRequest& request, TimePoint now) {
  const auto on_disk = [&](std::uint64_t position) {  // most positions need no division
    return position < hdd.capacity.count() ? position : position % hdd.capacity.count();
  };
  const std::uint64_t from = on_disk(head_);
  const std::uint64_t to = on_disk(request.position);
  const Duration seek = seek_time(hdd, from < to ? to - from : from - to);
  const Duration positioning = seek + rotation_wait(hdd, to, now + seek);
  const double share = request.direction == Direction::kRead ? 1 : hdd.write_positioning;
  const Duration sought = Duration(static_cast<std::int64_t>(static_cast<double>(positioning.count()) * share)) +
                          transfer_time(request.length, hdd.bandwidth);
  const std::uint64_t ahead = request.position - head_;  // wraps to a huge distance behind the head
  if (ahead > hdd.read_ahead.count() || request.direction != last_direction_) return sought;
  // The request is at or shortly after the head. While idle the drive has read ahead into its cache. A gap passes under
  // the head unless a seek is faster.
  const double idle = std::chrono::duration<double>(now - head_free_).count() / std::max(slowdown_, 1e-9);
  const double idle_bytes = hdd.bandwidth * idle;
  const auto cached = static_cast<std::uint64_t>(std::min(idle_bytes, static_cast<double>(hdd.read_ahead.count())));
  const std::uint64_t wanted = ahead + request.length.count();
  const Bytes from_cache(std::min(request.length.count(), cached > ahead ? cached - ahead : 0));
  const Bytes under_head(wanted > cached ? wanted - cached : 0);
  return std::min(sought,
                  transfer_time(from_cache, hdd.interface_bandwidth) + transfer_time(under_head, hdd.bandwidth));
}

}  // namespace tutti
