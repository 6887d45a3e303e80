// SPDX-License-Identifier: Apache-2.0
// libFuzzer: reads any text as the output of darshan-dxt-parser.
#include <cstdlib>

#include "trace/dxt.h"
#include "trace/phases.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  const auto recording = trace::parse_dxt({reinterpret_cast<const char*>(data), size}, "fuzz", trace::Names::kPatterns);
  if (!recording) return 0;
  Duration last{};
  for (const TraceRequest& request : recording->trace.requests) {
    if (request.time < last || request.completed < request.time) std::abort();
    if (request.file >= recording->trace.files.size() || request.length == Bytes()) std::abort();
    last = request.time;
  }
  (void)trace::find_phases(recording->trace);
  return 0;
}
