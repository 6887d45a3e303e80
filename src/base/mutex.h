// SPDX-License-Identifier: Apache-2.0
// A mutex whose rules clang checks at compile time (-Wthread-safety, tests/tidy/thread_safety.sh).
//
//   Mutex mutex_;
//   std::size_t count_ TUTTI_GUARDED_BY(mutex_) = 0;   // read and written only while mutex_ is held
//   void collect() TUTTI_REQUIRES(mutex_);             // called only while mutex_ is held
//
//   Lock lock(mutex_);                                 // to the end of the scope, or until lock.unlock()
#pragma once

#include <immintrin.h>

#include <mutex>

#ifdef __clang__
#define TUTTI_THREAD_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define TUTTI_THREAD_ATTRIBUTE(attribute)
#endif
#define TUTTI_GUARDED_BY(mutex) TUTTI_THREAD_ATTRIBUTE(guarded_by(mutex))
#define TUTTI_REQUIRES(...) TUTTI_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define TUTTI_EXCLUDES(...) TUTTI_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define TUTTI_UNCHECKED TUTTI_THREAD_ATTRIBUTE(no_thread_safety_analysis)  // say why beside it

namespace tutti {

class TUTTI_THREAD_ATTRIBUTE(capability("mutex")) Mutex : public std::mutex {
 public:
  void lock() TUTTI_THREAD_ATTRIBUTE(acquire_capability()) { std::mutex::lock(); }
  void unlock() TUTTI_THREAD_ATTRIBUTE(release_capability()) { std::mutex::unlock(); }
  bool try_lock() TUTTI_THREAD_ATTRIBUTE(try_acquire_capability(true)) { return std::mutex::try_lock(); }
};

struct SpinFirst {};
inline constexpr SpinFirst kSpinFirst;

// Holds a mutex. Also what condition variables wait with.
class TUTTI_THREAD_ATTRIBUTE(scoped_lockable) Lock : public std::unique_lock<std::mutex> {
 public:
  explicit Lock(Mutex& mutex) TUTTI_THREAD_ATTRIBUTE(acquire_capability(mutex)) : std::unique_lock<std::mutex>(mutex) {}
  // Tries for some microseconds before it sleeps: for critical sections that take less than that.
  Lock(Mutex& mutex, SpinFirst) TUTTI_THREAD_ATTRIBUTE(acquire_capability(mutex)) TUTTI_UNCHECKED  // conditional
      : std::unique_lock<std::mutex>(mutex, std::defer_lock) {
    constexpr int kTries = 200;
    for (int i = 0; i < kTries; ++i) {
      if (try_lock()) return;
      _mm_pause();
    }
    std::unique_lock<std::mutex>::lock();
  }
  ~Lock() TUTTI_THREAD_ATTRIBUTE(release_capability()) {}
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void lock() TUTTI_THREAD_ATTRIBUTE(acquire_capability()) { std::unique_lock<std::mutex>::lock(); }
  void unlock() TUTTI_THREAD_ATTRIBUTE(release_capability()) { std::unique_lock<std::mutex>::unlock(); }
};

}  // namespace tutti
