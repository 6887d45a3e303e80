// SPDX-License-Identifier: Apache-2.0
// Records what happens at a gate, in the form in which nodes record requests.
#pragma once

#include <tutti/sched.h>

#include "gate/lock_table.h"

namespace tutti::gate {

// Each turn becomes two writes of its job: one of file "wait/JOB" from the request to the grant, and one of file
// "turn/JOB" from the grant to the end. Both have the bytes that the job announced (1 if it announced none), and the
// first target of the turn. The process is the user. A turn that ends before it is granted has no completion.
//
// Not thread-safe: the table makes one call at a time. The observer must outlive it.
class TurnTrace final : public LockTable::Observer {
 public:
  explicit TurnTrace(SchedulerObserver& observer) : observer_(observer) {}

  void asked(const LockTable::Turn& turn, TimePoint now) override;
  void granted(const LockTable::Turn& turn, TimePoint now) override;
  void ended(const LockTable::Turn& turn, TimePoint now) override;

 private:
  SchedulerObserver& observer_;
};

}  // namespace tutti::gate
