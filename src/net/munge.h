// SPDX-License-Identifier: Apache-2.0
// MUNGE credentials, where libmunge was there at build time; else kInvalid.
#pragma once

#include <string>

#include "net/transport.h"

namespace tutti::net {

bool munge_available();

// A credential of this process's user that vouches for `content`.
Result<std::string> make_credential(const wire::Digest& content);

// Whose credential it is; kDenied if it is forged, expired, replayed or vouches for something else.
Result<wire::Identity> verify_credential(const std::string& credential, const wire::Digest& content);

}  // namespace tutti::net
