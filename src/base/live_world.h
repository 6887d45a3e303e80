// SPDX-License-Identifier: Apache-2.0
// The live world: this machine's clocks, one thread for timers, threads for blocking calls.
#pragma once

#include <cstddef>
#include <memory>

#include "base/world.h"

namespace tutti {

// The world of this process. Its thread starts with the first timer.
World& live_world();

// `threads`: how many calls of one owner run at a time. Further threads are started while calls of other owners wait,
// up to kMostWorkerThreads in all.
inline constexpr std::size_t kMostWorkerThreads = 256;
std::unique_ptr<Workers> make_live_workers(std::size_t threads);

}  // namespace tutti
