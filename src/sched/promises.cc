// SPDX-License-Identifier: Apache-2.0
#include "sched/promises.h"

#include <algorithm>

#include "sched/probing_table.h"
#include "sched/stamper.h"

namespace tutti {

void Promises::heard(const Stamp& stamp) {
  Word& word = words_[mix(stamp.application) % words_.size()];
  const Bytes shown = stamp.attained + stamp.bottleneck;
  const bool same = word.application == stamp.application;
  if (same && stamp.phase < word.phase) return;  // a rank that is late
  if (same && stamp.phase == word.phase) {
    word.shown = std::max(word.shown, shown);
    if (word.said == Bytes{}) return;
    word.said = std::max(word.said, stamp.phase_total);  // of ranks that differ
    if (word.shown > word.said && sizes_differ(word.said, word.shown)) judge(word);
    return;
  }
  if (same) judge(word);
  word = {stamp.application, stamp.phase, stamp.phase <= 1 ? stamp.phase_total : Bytes{}, shown};
}

void Promises::judge(Word& word) {
  if (word.said == Bytes{}) return;
  balance_ = sizes_differ(word.said, word.shown) ? std::max(balance_ - 2, -kMost) : std::min(balance_ + 1, kMost);
  word.said = Bytes{};
}

}  // namespace tutti
