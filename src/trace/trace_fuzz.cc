// SPDX-License-Identifier: Apache-2.0
// libFuzzer: reads any bytes as a trace. Whatever is accepted must keep the promises of Trace and survive being merged,
// summed up and written again.
#include <cstdlib>

#include "trace/decode.h"
#include "trace/merge.h"
#include "trace/statistics.h"

namespace {

using namespace tutti;
using namespace tutti::trace;

// The fuzzer cannot guess checksums, so they are made right: of the file header and of every block that begins where
// the one before ended.
void correct(std::vector<std::byte>& bytes) {
  const std::span<std::byte> all(bytes);
  if (bytes.size() < kFileHeaderSize) return;
  std::ranges::copy(std::as_bytes(std::span(kFileMagic)), bytes.begin());
  store_integer(all, 8, kVersion);
  const std::size_t facts = load_integer<std::uint32_t>(all, 12) % 64;
  if (facts > bytes.size() - kFileHeaderSize) return;
  store_integer(all, 12, static_cast<std::uint32_t>(facts));
  store_integer(all, 16, load_integer<std::int64_t>(all, 16) & (Duration::max().count() / 2));
  store_integer(all, 24, std::uint64_t{0});
  store_integer(all, 24, checksum(all.first(kFileHeaderSize + facts)));
  std::size_t position = kFileHeaderSize + facts;
  while (bytes.size() - position >= kBlockHeaderSize) {
    const auto block = all.subspan(position);
    const std::size_t size = load_integer<std::uint32_t>(block, 4) % (block.size() - kBlockHeaderSize + 1);
    store_integer(block, 0, kBlockMagic);
    store_integer(block, 4, static_cast<std::uint32_t>(size));
    store_integer(block, 32, checksum(block.subspan(kBlockHeaderSize, size)));
    store_integer(block, 40, static_cast<std::uint32_t>(checksum(block.first(40))));
    position += kBlockHeaderSize + size;
  }
}

void check(const Recording& recording) {
  Duration last{};
  for (const TraceRequest& request : recording.trace.requests) {
    if (request.time < last || request.file >= recording.trace.files.size()) std::abort();
    if (request.length == Bytes() || request.offset + request.length.count() > std::uint64_t{1} << 63) std::abort();
    if (request.has_completed() && request.completed < request.time) std::abort();
    last = request.time;
  }
}

void read(const std::vector<std::byte>& bytes) {
  const auto header = decode_header(bytes, "fuzz");
  if (!header) return;
  Decoder decoder(*header, Names::kPatterns);
  decoder.add(bytes, "fuzz");
  const Recording recording = decoder.take();
  check(recording);
  const Recording twice = merge({recording, recording}, Align::kClock);
  check(twice);
  (void)statistics(twice.trace);
  (void)csv(recording.trace);
  (void)scenario(recording, {});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto given = std::as_bytes(std::span(data, size));
  std::vector<std::byte> bytes(given.begin(), given.end());
  read(bytes);
  correct(bytes);
  read(bytes);
  return 0;
}
