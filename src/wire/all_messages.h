// SPDX-License-Identifier: Apache-2.0
// Every message there is. Define TUTTI_WIRE_MESSAGE(Message), then use the list.
#pragma once

#include "wire/messages.h"

// clang-format off
#define TUTTI_WIRE_ALL_MESSAGES \
  TUTTI_WIRE_MESSAGE(Hello) \
  TUTTI_WIRE_MESSAGE(Challenge) \
  TUTTI_WIRE_MESSAGE(Proof) \
  TUTTI_WIRE_MESSAGE(Welcome) \
  TUTTI_WIRE_MESSAGE(ReadRequest) TUTTI_WIRE_MESSAGE(ReadRequest::Reply) \
  TUTTI_WIRE_MESSAGE(WriteRequest) TUTTI_WIRE_MESSAGE(WriteRequest::Reply) \
  TUTTI_WIRE_MESSAGE(FsyncRequest) TUTTI_WIRE_MESSAGE(FsyncRequest::Reply) \
  TUTTI_WIRE_MESSAGE(TruncateRequest) TUTTI_WIRE_MESSAGE(TruncateRequest::Reply) \
  TUTTI_WIRE_MESSAGE(LookupRequest) TUTTI_WIRE_MESSAGE(LookupRequest::Reply) \
  TUTTI_WIRE_MESSAGE(StatRequest) TUTTI_WIRE_MESSAGE(StatRequest::Reply) \
  TUTTI_WIRE_MESSAGE(CreateRequest) TUTTI_WIRE_MESSAGE(CreateRequest::Reply) \
  TUTTI_WIRE_MESSAGE(MakeDirectoryRequest) TUTTI_WIRE_MESSAGE(MakeDirectoryRequest::Reply) \
  TUTTI_WIRE_MESSAGE(ReadDirectoryRequest) TUTTI_WIRE_MESSAGE(ReadDirectoryRequest::Reply) \
  TUTTI_WIRE_MESSAGE(RenameRequest) TUTTI_WIRE_MESSAGE(RenameRequest::Reply) \
  TUTTI_WIRE_MESSAGE(UnlinkRequest) TUTTI_WIRE_MESSAGE(UnlinkRequest::Reply) \
  TUTTI_WIRE_MESSAGE(RemoveDirectoryRequest) TUTTI_WIRE_MESSAGE(RemoveDirectoryRequest::Reply) \
  TUTTI_WIRE_MESSAGE(SetAttributesRequest) TUTTI_WIRE_MESSAGE(SetAttributesRequest::Reply) \
  TUTTI_WIRE_MESSAGE(SymlinkRequest) TUTTI_WIRE_MESSAGE(SymlinkRequest::Reply) \
  TUTTI_WIRE_MESSAGE(ReadLinkRequest) TUTTI_WIRE_MESSAGE(ReadLinkRequest::Reply) \
  TUTTI_WIRE_MESSAGE(LinkRequest) TUTTI_WIRE_MESSAGE(LinkRequest::Reply) \
  TUTTI_WIRE_MESSAGE(GetXattrRequest) TUTTI_WIRE_MESSAGE(GetXattrRequest::Reply) \
  TUTTI_WIRE_MESSAGE(SetXattrRequest) TUTTI_WIRE_MESSAGE(SetXattrRequest::Reply) \
  TUTTI_WIRE_MESSAGE(ListXattrRequest) TUTTI_WIRE_MESSAGE(ListXattrRequest::Reply) \
  TUTTI_WIRE_MESSAGE(RemoveXattrRequest) TUTTI_WIRE_MESSAGE(RemoveXattrRequest::Reply) \
  TUTTI_WIRE_MESSAGE(StatFsRequest) TUTTI_WIRE_MESSAGE(StatFsRequest::Reply) \
  TUTTI_WIRE_MESSAGE(CloseRequest) TUTTI_WIRE_MESSAGE(CloseRequest::Reply) \
  TUTTI_WIRE_MESSAGE(PolicyShowRequest) TUTTI_WIRE_MESSAGE(PolicyShowRequest::Reply) \
  TUTTI_WIRE_MESSAGE(PolicySetRequest) TUTTI_WIRE_MESSAGE(PolicySetRequest::Reply) \
  TUTTI_WIRE_MESSAGE(StatisticsRequest) TUTTI_WIRE_MESSAGE(StatisticsRequest::Reply) \
  TUTTI_WIRE_MESSAGE(HealthRequest) TUTTI_WIRE_MESSAGE(HealthRequest::Reply) \
  TUTTI_WIRE_MESSAGE(StopRequest) TUTTI_WIRE_MESSAGE(StopRequest::Reply)
// clang-format on
