// SPDX-License-Identifier: Apache-2.0
// Import of Darshan DXT text: the output of `darshan-dxt-parser`.
#pragma once

#include <string>
#include <string_view>

#include "trace/decode.h"

namespace tutti::trace {

// What becomes of a row whose bytes are on several OSTs.
enum class DxtRows : std::uint8_t {
  kSplit,  // one request for each OST; all of them end with the row
  kWhole,  // one request to the first OST
};

// Rows become requests: start and end of a row are arrival and completion, its rank the process, the job number the
// application. If a file has POSIX rows, its MPI-IO rows are left out, because they are the same bytes seen from the
// layer above. Rows that cannot be read are reported with their line and left out.
//
// OSTs of a row are found by the layout of its file (dxt_layout.h). If there is none, or the row begins on another OST,
// the row's bytes are divided equally among the OSTs that it names. The target is the number of the OST, plus 65536
// times the number of the mount: mounts with OSTs are counted first, in order of appearance. A mount without OSTs is
// one target. The fact "mount_N" names the mount whose first target is N.
//
// kInvalid: there is no row that can be used.
Result<Recording> parse_dxt(std::string_view text, const std::string& source, Names names,
                            DxtRows rows = DxtRows::kSplit);

}  // namespace tutti::trace
