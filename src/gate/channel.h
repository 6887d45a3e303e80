// SPDX-License-Identifier: Apache-2.0
// A client's connection to the gate: whole messages over a blocking socket with bounded waits.
#pragma once

#include <tutti/base.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "gate/messages.h"
#include "gate/sockets.h"

namespace tutti::gate {

// Not thread-safe.
class Channel {
 public:
  // Connects and says Hello; kUnreachable or kTimeout if Welcome has not come within `timeout`.
  static Result<Channel> open(const Address& address, const Hello& hello, Duration timeout);
  // Connects without Hello.
  static Result<Channel> open(const Address& address, Duration timeout);

  const Welcome& welcome() const { return welcome_; }
  int descriptor() const { return fd_.get(); }  // to wait for with others

  // Never waits: kUnreachable if the gate is gone or does not take any more.
  Result<void> send(const Message& message);

  // The next message, waiting for it at most that long; nothing if none came. kUnreachable: the gate is gone.
  Result<std::optional<Message>> receive(Duration timeout);

  // In a forked child: closes this side's copy only.
  void abandon() { fd_.reset(); }

 private:
  explicit Channel(Fd fd) : fd_(std::move(fd)) {}
  Result<std::optional<Message>> take();

  Fd fd_;
  Welcome welcome_;
  Duration timeout_set_{-1};
  std::vector<std::byte> in_;
  std::size_t taken_ = 0;  // of in_
  std::vector<std::byte> out_;
};

}  // namespace tutti::gate
