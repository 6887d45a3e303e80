// SPDX-License-Identifier: Apache-2.0
// Includes all messages of the protocol.
#pragma once

#include "wire/control_messages.h"
#include "wire/data_messages.h"
#include "wire/gate_messages.h"
#include "wire/handshake_messages.h"
#include "wire/limit_messages.h"
#include "wire/name_messages.h"

namespace tutti::wire {

// Calls visit.operator()<Message>() for every message type, requests and replies.
template <typename Visitor>
constexpr void for_each_message(Visitor visit) {
#define TUTTI_WIRE_REQUEST(Name, number, text) \
  visit.template operator()<Name##Request>();  \
  visit.template operator()<Name##Request::Reply>();
#define TUTTI_WIRE_MESSAGE(Name, number, text) visit.template operator()<Name>();
  TUTTI_WIRE_TYPES(TUTTI_WIRE_REQUEST, TUTTI_WIRE_MESSAGE)
#undef TUTTI_WIRE_REQUEST
#undef TUTTI_WIRE_MESSAGE
}

}  // namespace tutti::wire
