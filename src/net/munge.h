// SPDX-License-Identifier: Apache-2.0
// MUNGE credentials. Without libmunge at build time all calls fail with kInvalid.
#pragma once

#include <memory>

#include "net/transport.h"

namespace tutti::net {

bool munge_available();

// Uses the socket of munged in TUTTI_MUNGE_SOCKET, else its default socket. Groups are looked up on this machine.
const std::shared_ptr<CredentialService>& munge_service();

}  // namespace tutti::net
