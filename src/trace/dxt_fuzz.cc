// SPDX-License-Identifier: Apache-2.0
// libFuzzer: reads any text as the output of darshan-dxt-parser.
#include <cstdlib>

#include "trace/dxt.h"
#include "trace/phases.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const auto recording = trace::parse_dxt(text, "fuzz", trace::Names::kPatterns);
  if (!recording) return 0;
  const auto whole = trace::parse_dxt(text, "fuzz", trace::Names::kPatterns, trace::DxtRows::kWhole);
  std::uint64_t bytes = 0;  // split rows have the bytes of whole ones, modulo 2^64
  for (const TraceRequest& request : whole->trace.requests) bytes -= request.length.count();
  Duration last{};
  for (const TraceRequest& request : recording->trace.requests) {
    bytes += request.length.count();
    if (request.time < last || request.completed < request.time) std::abort();
    if (request.file >= recording->trace.files.size() || request.length == Bytes()) std::abort();
    last = request.time;
  }
  if (bytes != 0) std::abort();
  (void)trace::find_phases(recording->trace);
  return 0;
}
