// SPDX-License-Identifier: Apache-2.0
// Models of storage devices, described by figures, with the queue inside the device.
//
// No clock, no threads, no random numbers: time is an argument. The simulator runs a device in virtual time, the
// `modelled` engine runs the same device in real time:
//
//   Device disk(*device_preset("hdd-7200"));
//   disk.add({.position = 0, .length = 64_KiB, .direction = Direction::kRead, .tag = 7}, now);
//   while (auto at = disk.next_finish()) {
//     wait_until(*at);
//     auto tag = disk.pop_finished(*at);  // 7
//   }
#pragma once

#include <tutti/sched.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/config.h"
#include "base/prefetch.h"

namespace tutti {

// Serves one request at a time, in order of arrival. The cost does not depend on the position.
struct FixedFigures {
  Duration latency{};    // per request
  double bandwidth = 0;  // bytes per second; 0: no limit
};

// A rotating disk: seek, rotate, transfer. Waiting requests are served in ascending position from the head, then from
// the lowest position again (C-LOOK), as the block layer's elevator and the drive's own queue do. As in Linux
// (mq-deadline), a request does not wait for ever: after each batch of requests, the oldest one is served next if it
// has waited for `deadline`, and the order goes on from its position.
struct HddFigures {
  Bytes capacity{250'000'000'000};
  Duration track_seek = std::chrono::microseconds(800);     // to the next track
  Duration average_seek = std::chrono::microseconds(8500);  // over a third of the capacity
  Duration full_seek = std::chrono::microseconds(17000);
  double rotations_per_minute = 7200;
  double bandwidth = 75e6;             // bytes per second under the head
  double interface_bandwidth = 300e6;  // bytes per second out of the drive's cache
  Bytes read_ahead{512 << 10};         // read past a request while idle; gaps up to this size need no seek
  Duration deadline = std::chrono::milliseconds(500);  // 0: none
  double write_positioning = 0.5;  // factor on the positioning time of writes, because the write cache reorders them
};

// Flash: the latencies of up to `channels` requests overlap; all share one controller and one bus.
struct SsdFigures {
  Duration read_latency = std::chrono::microseconds(80);
  Duration write_latency = std::chrono::microseconds(60);
  Duration command = std::chrono::microseconds(8);  // time of the controller per request
  unsigned channels = 8;
  double read_bandwidth = 540e6;  // bytes per second, all channels together
  double write_bandwidth = 480e6;
};

using DeviceFigures = std::variant<FixedFigures, HddFigures, SsdFigures>;

// The devices of the papers and a current one: "hdd-7200" (250 GB SATA II disk, as in the sc11 cluster), "ssd-2010"
// (PCI-E x4), "ssd-sata-2011" (Micron C400, 128 GB, SATA II), "nvme".
std::vector<std::string> device_presets();
// kNotFound lists the presets.
Result<DeviceFigures> device_preset(std::string_view name);

// Reads `preset`, or `kind` ("fixed", "hdd", "ssd"), and any figure of that kind to replace the preset's.
// Mistakes are recorded in the section.
DeviceFigures read_device(Section section);

// One line for reports: "hdd: 75 MB/s, 8.5 ms average seek, 7200/min".
std::string describe(const DeviceFigures& figures);

// The shortest time in which the device can transfer `bytes` in any order, for lower bounds.
Duration floor_time(const DeviceFigures& figures, Bytes bytes, Direction direction);

struct DeviceRequest {
  std::uint64_t position = 0;  // on the device, in bytes; past its capacity it wraps around
  Bytes length{};
  Direction direction = Direction::kRead;
  std::uint64_t tag = 0;  // chosen by the caller, returned by pop_finished()
};

// The device and its internal queue. Accepts any number of requests and serves them in the device's order. The times
// passed to successive calls must not decrease. Not thread-safe.
class Device {
 public:
  explicit Device(const DeviceFigures& figures);

  void add(const DeviceRequest& request, TimePoint now);

  // When the next request finishes; nothing if none is in service.
  std::optional<TimePoint> next_finish() const;
  // The tag of the earliest request that has finished by `now`, if any. Waiting requests start in its place.
  std::optional<std::uint64_t> pop_finished(TimePoint now);

  // Service times of requests that start from now on are multiplied by `factor`, at least 0, and a disk reads ahead
  // slower by it. Models a slow device.
  void set_slowdown(double factor) { slowdown_ = factor; }

  void reserve(std::size_t in_service) { in_service_.reserve(in_service); }
  // Prefetches what next_finish() and pop_finished() will need.
  void expect() const { prefetch_bytes(in_service_.data(), 2 * 64); }
  // The tag of the request that will finish first; nothing if none is in service.
  std::optional<std::uint64_t> next_tag() const {
    return in_service_.empty() ? std::nullopt : std::optional(in_service_.front().tag);
  }

  std::size_t waiting() const { return waiting_.size(); }
  std::size_t in_service() const { return in_service_.size(); }
  Duration busy(TimePoint now) const;  // time in which a request was in service, up to `now`

  const DeviceFigures& figures() const { return figures_; }

 private:
  struct Waiting {
    DeviceRequest request;
    TimePoint since;
  };
  struct InService {
    TimePoint finish;
    std::uint64_t tag;
  };

  void start(TimePoint now);
  void begin(const DeviceRequest& request, TimePoint now);
  std::size_t choose(TimePoint now);  // index into waiting_
  TimePoint finish_time(const DeviceRequest& request, TimePoint now);
  Duration hdd_time(const HddFigures& hdd, const DeviceRequest& request, TimePoint now);

  DeviceFigures figures_;
  std::size_t capacity_ = 1;  // requests in service at once
  double slowdown_ = 1;
  std::vector<Waiting> waiting_;  // in order of arrival
  std::vector<InService>
      in_service_;           // ascending by finish: flash has one bus, other devices serve one request at a time
  std::uint64_t head_ = 0;   // hdd: where the last request ended
  unsigned batch_left_ = 0;  // hdd: requests before the next look at the deadline
  Direction last_direction_ = Direction::kRead;
  TimePoint head_free_{};  // hdd: when it ended
  TimePoint bus_free_{};   // ssd: end of the last transfer
  TimePoint busy_since_{};
  Duration busy_{};
};

}  // namespace tutti
