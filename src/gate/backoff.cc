// SPDX-License-Identifier: Apache-2.0
#include "gate/backoff.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace tutti::gate {

const std::vector<OptionInfo>& BackoffOptions::table() {
  using Kind = OptionInfo::Kind;
  static const std::vector<OptionInfo> table = {
      {.name = "data-size", .kind = Kind::kBytes, .fallback = "3MB", .help = "size of one probe write"},
      {.name = "max-count",
       .kind = Kind::kInteger,
       .fallback = "8",
       .help = "proceed after this many rounds, even if the file system is busy",
       .low = 1,
       .high = 1000},
      {.name = "base",
       .kind = Kind::kNumber,
       .fallback = "2",
       .help = "the random sleep is less than base^exponent time constants",
       .low = 1,
       .high = 100},
      {.name = "starting-exponent",
       .kind = Kind::kInteger,
       .fallback = "1",
       .help = "exponent after the first round; one more after each further round",
       .low = 0,
       .high = 62},
      {.name = "max-exponent",
       .kind = Kind::kInteger,
       .fallback = "6",
       .help = "upper limit of the exponent",
       .low = 0,
       .high = 62},
      {.name = "time-constant", .kind = Kind::kDuration, .fallback = "1s", .help = "unit of the random sleep"},
      {.name = "fixed-sleep", .kind = Kind::kDuration, .fallback = "1s", .help = "added to every random sleep"},
      {.name = "priming",
       .kind = Kind::kBytes,
       .fallback = "256KiB",
       .help = "size of an unmeasured write to each target before a round; 0: none"},
      {.name = "probes",
       .kind = Kind::kInteger,
       .fallback = "3",
       .help = "writes per round and target; the slowest one decides",
       .low = 1,
       .high = 100},
      {.name = "probe-pause",
       .kind = Kind::kDuration,
       .fallback = "100ms",
       .help = "pause between the writes of a round"},
  };
  return table;
}

BackoffOptions BackoffOptions::from(const OptionValues& values) {
  return {.data_size = std::max(values.bytes("data-size"), Bytes(1)),
          .max_count = static_cast<std::uint32_t>(values.integer("max-count")),
          .base = values.number("base"),
          .starting_exponent = static_cast<std::uint32_t>(values.integer("starting-exponent")),
          .max_exponent = static_cast<std::uint32_t>(values.integer("max-exponent")),
          .time_constant = values.duration("time-constant"),
          .fixed_sleep = values.duration("fixed-sleep"),
          .priming = values.bytes("priming"),
          .probes = static_cast<std::uint32_t>(values.integer("probes")),
          .probe_pause = values.duration("probe-pause")};
}

Backoff::Backoff(const BackoffOptions& options, double threshold, std::uint64_t seed)
    : options_(options), threshold_(threshold), prng_(seed), exponent_(options.starting_exponent) {
  assert(options.max_count > 0 && options.probes > 0 && options.targets > 0 && options.data_size.count() > 0);
}

Backoff::Step Backoff::next() {
  assert(!pending_ && "call wrote() first");
  switch (stage_) {
    case Stage::kBegin:
      return begin_round();
    case Stage::kPrimed:
      return prime_or_write();
    case Stage::kPaused:
      return write_next();
    case Stage::kWriting:
      // No pause between the targets of one probe; the pause is between probes.
      if (done_ % options_.targets != 0 || options_.probe_pause == Duration::zero()) return write_next();
      stage_ = Stage::kPaused;
      return Sleep{options_.probe_pause, false};
    case Stage::kDecide:
      return decide();
    case Stage::kDone:
      break;
  }
  return Proceed{rate_ >= threshold_};
}

void Backoff::wrote(Duration took) {
  assert(pending_ && "wrote() without a Write from next()");
  written_ += pending_->bytes;
  if (pending_->priming) {
    stage_ = Stage::kPrimed;
  } else {
    const double seconds = std::max(std::chrono::duration<double>(took).count(), 1e-9);
    const double rate = static_cast<double>(pending_->bytes.count()) / seconds;
    rate_ = measured_ ? std::min(rate_, rate) : rate;
    measured_ = true;
    ++done_;
    stage_ = done_ == options_.probes * options_.targets ? Stage::kDecide : Stage::kWriting;
  }
  pending_.reset();
}

Backoff::Step Backoff::begin_round() {
  ++round_;
  done_ = 0;
  measured_ = false;
  primed_ = options_.priming.count() == 0 ? options_.targets : 0;
  return prime_or_write();
}

Backoff::Step Backoff::prime_or_write() {
  if (primed_ == options_.targets) return write_next();
  pending_ = Write{options_.priming, primed_++, true};
  return *pending_;
}

Backoff::Step Backoff::write_next() {
  pending_ = Write{options_.data_size, done_ % options_.targets, false};
  return *pending_;
}

Backoff::Step Backoff::decide() {
  if (rate_ >= threshold_ || round_ >= options_.max_count) {
    stage_ = Stage::kDone;
    return Proceed{rate_ >= threshold_};
  }
  stage_ = Stage::kBegin;
  return Sleep{backoff_time(), true};
}

// Lines 13 to 15 of the algorithm: random() mod BASE^exp, times the constant, plus the fixed time.
Duration Backoff::backoff_time() {
  const double span = std::pow(options_.base, std::min(exponent_, options_.max_exponent));
  const std::uint64_t units = prng_.below(std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::min(span, 1e18))));
  exponent_ = std::min(exponent_ + 1, options_.max_exponent);
  const double random = static_cast<double>(units) * static_cast<double>(options_.time_constant.count());
  return Duration(static_cast<Duration::rep>(std::min(random, 4e18))) + options_.fixed_sleep;
}

}  // namespace tutti::gate
