// SPDX-License-Identifier: Apache-2.0
// Import of Darshan DXT text: the output of `darshan-dxt-parser`.
#pragma once

#include <string>
#include <string_view>

#include "trace/decode.h"

namespace tutti::trace {

// Rows become requests: start and end of a row are arrival and completion, its rank the process, its first OST the
// target, the job number the application. If a file has POSIX rows, its MPI-IO rows are left out, because they are the
// same bytes seen from the layer above. Rows that cannot be read are reported with their line and left out.
//
// kInvalid: there is no row that can be used.
Result<Recording> parse_dxt(std::string_view text, const std::string& source, Names names);

}  // namespace tutti::trace
