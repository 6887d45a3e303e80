// SPDX-License-Identifier: Apache-2.0
// Answers messages about names and attributes directly from the backing file system.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/clock.h"
#include "engine/file_system.h"
#include "wire/codec.h"

namespace tutti::node {

// Returns the frame of the reply. Blocks on the file system. Messages that cannot be decoded or are of another type get
// kMalformed.
std::vector<std::byte> answer_namespace(FileSystem& root, Clock& clock, const FileSystem::Caller& caller,
                                        const wire::Header& header, std::span<const std::byte> body);

wire::Attributes to_attributes(const struct stat& status, std::uint64_t generation = 0);

}  // namespace tutti::node
