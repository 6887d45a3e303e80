// SPDX-License-Identifier: Apache-2.0
// Whether to take strangers at their word: what applications said of their first phases, held against what came.
#pragma once

#include <tutti/sched.h>

#include <array>
#include <cstdint>

namespace tutti {

// An application's later phases carry a size only if what was said before was right (src/sched/stamper.h). Of its first
// phase nobody can know; but whoever hears many of them can tell what such words are worth.
//
// Remembers a few applications and forgets the rest: nothing is allocated. Not thread-safe.
class Promises {
 public:
  // Told of every stamp, in any order.
  void heard(const Stamp& stamp);

  // Whether words have been kept of late; true while nothing is known. It takes two that were kept to make up for a
  // broken one.
  bool are_kept() const { return balance_ >= 0; }

 private:
  struct Word {
    ApplicationId application = 0;
    PhaseNumber phase = 0;
    Bytes said{};  // 0: nothing, or judged already
    Bytes shown{};
  };

  void judge(Word& word);

  static constexpr int kMost = 8;
  int balance_ = 0;               // at most kMost either way, so that old words are forgotten
  std::array<Word, 64> words_{};  // by application; of two that share a place, the last one heard
};

}  // namespace tutti
