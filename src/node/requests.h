// SPDX-License-Identifier: Apache-2.0
// Data requests from the wire as jobs.
#pragma once

#include <tutti/base.h>

#include <memory>

#include "net/transport.h"
#include "node/job.h"

namespace tutti::node {

struct DataRequest {
  std::unique_ptr<Job> job;
  wire::FileReference file;
};

// Those that refer to a file in use: read, write, fsync, truncate, stat.
bool is_data(wire::Type type);

// kProtocol: malformed, or the payload is not what the extents say.
Result<DataRequest> to_job(net::Incoming message);

}  // namespace tutti::node
