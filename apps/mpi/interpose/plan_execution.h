// SPDX-License-Identifier: Apache-2.0
// Carries out one rank's part of a collective read or write.
#pragma once

#include <mpi.h>

#include <span>
#include <vector>

#include "collective/plan.h"
#include "mpi/core/memory.h"
#include "mpi/interpose/file.h"

namespace tutti::mpi {

// Executes a plan (collective/plan.h says how) on the file's own communicator. A rank whose I/O fails continues to send
// and to receive, so that no rank waits forever; the ranks agree on the result at the end.
//
// Memory: one buffer for the requests of a round, and one for its messages: what the rank gets in the round, and what
// it sends, of reads at most Options::buffer or the largest message.
class PlanExecution {
 public:
  PlanExecution(OpenFile& file, const collective::RankPlan& plan, const collective::AccessList& mine,
                const Memory& memory, Direction direction, CallMemory& memory_for_call, const Stamp* stamp = nullptr);

  // Takes the buffers from `memory_for_call` and opens the file. Returns kFine or kFallBack. Call it before run(), on
  // all ranks.
  std::int64_t prepare();
  // Collective. The value is the smallest offset that a rank found to be after the end of the file.
  Agreement run();
  // The same for a plan without exchange and without a start rule, by one rank alone.
  Agreement run_alone();

 private:
  using Part = collective::PackedMemory::Part;
  using Exchanges = std::span<const collective::Exchange>;
  using Requests = std::span<const collective::IoRequest>;

  // What a rank does in one round.
  struct Round {
    Requests requests{}, direct{};
    Exchanges sends{}, receives{};
  };

  Round round_of(std::uint32_t number) const;
  bool exchanges() const;
  void write_round(const Round& round);
  void read_round(const Round& round);
  void read_directly(const Round& round);
  void own_requests();

  void move_all(Requests requests, const collective::PackedMemory& buffer);
  void move_own(std::span<const collective::Extent> extents);
  void move_own_through(std::span<const Part> parts);
  void do_io(std::span<const FilePart> parts);
  void wait_to_start();
  void let_next_start();

  std::uint64_t size_of(const collective::Exchange& exchange) const;
  bool to_itself(const collective::Exchange& exchange) const;
  std::uint64_t message_bytes(const Round& round) const;
  void post(const Round& round, std::uint64_t header);
  std::byte* outgoing(const Round& round, const collective::Exchange& exchange, std::uint64_t size);
  std::size_t piece_of(std::span<const std::byte> message) const;
  void receive(collective::Rank peer, std::span<std::byte> message);
  void send(const collective::Exchange& exchange, std::span<const std::byte> message);
  void finish(std::vector<MPI_Request>& messages);
  void check(int code);
  void gather_own(const collective::Exchange& exchange, std::byte* into);
  void scatter_own(const collective::Exchange& exchange, const std::byte* from, std::uint64_t end);
  collective::PackedMemory buffer_of(Requests requests) const;

  OpenFile& file_;
  const collective::RankPlan& plan_;
  const collective::PackedMemory mine_;  // file offsets to positions in `memory_`
  const Memory& memory_;
  const Direction direction_;
  CallMemory& memory_for_call_;
  const Stamp* const stamp_;       // of the operation; nullptr: of this rank alone
  std::byte* buffer_ = nullptr;    // of the requests of a round
  std::byte* messages_ = nullptr;  // received, then sent
  std::uint64_t messages_size_ = 0;
  std::vector<std::byte*> received_;                          // by exchange of the round
  std::byte *outgoing_ = nullptr, *next_outgoing_ = nullptr;  // memory for what is sent, and what is free of it
  std::vector<MPI_Request> receiving_, sending_;
  std::vector<Part> parts_;
  std::vector<FilePart> file_parts_;
  bool next_started_ = false;  // in this round
  Agreement result_{};
};

}  // namespace tutti::mpi
