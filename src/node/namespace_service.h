// SPDX-License-Identifier: Apache-2.0
// Answers messages about names and attributes directly from the backing file system.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/file_system.h"
#include "wire/codec.h"

namespace tutti::node {

struct NamespaceContext {
  FileSystem& root;
  const FileSystem::Caller& caller;
  Clock& clock;
  TimePoint renewed;  // the deadline that the client has set for all its requests (wire::Renew)

  // For a change that the client has given this deadline; zero: none.
  FileSystem::Access change(TimePoint deadline) const {
    return {caller, deadline == TimePoint{} ? deadline : std::max(deadline, renewed)};
  }
};

// Returns the frame of the reply. Blocks on the file system. Messages that cannot be decoded or are of another type get
// kMalformed.
std::vector<std::byte> answer_namespace(const NamespaceContext& on, const wire::Header& header,
                                        std::span<const std::byte> body);

wire::Attributes to_attributes(const struct stat& status, std::uint64_t generation = 0);

}  // namespace tutti::node
