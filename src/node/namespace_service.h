// SPDX-License-Identifier: Apache-2.0
// Answers everything that is about names: straight from the backing file system.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/root.h"
#include "wire/codec.h"

namespace tutti::node {

// Blocks on the file system. A request that cannot be decoded, or is not about names, is answered with kMalformed.
std::vector<std::byte> answer_namespace(Root& root, const Root::Caller& caller, const wire::Header& header,
                                        std::span<const std::byte> body);

wire::Attributes to_attributes(const struct stat& status);

}  // namespace tutti::node
