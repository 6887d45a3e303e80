// SPDX-License-Identifier: Apache-2.0
// The settings of a file from its hints, which rank 0 reads and broadcasts.
#pragma once

#include <mpi.h>

#include <type_traits>

#include "mpi/interpose/file.h"

namespace tutti::mpi {

// What rank 0 sends to the others before the file is opened, or when hints change.
struct SettingsMessage {
  int error = MPI_SUCCESS;
  Settings settings{};
};

// Of rank 0. A wrong hint is an error of the call. A wrong variable or configuration file switches the library off.
SettingsMessage read_all_settings(MPI_Info info);
// Of rank 0: hints of MPI_File_set_view and MPI_File_set_info.
SettingsMessage change_settings(const OpenFile& file, MPI_Info info);
// What rank 0 sent.
void adopt_settings(OpenFile& file, const Settings& settings);

// Collective.
template <typename Message>
void broadcast(Message& message, MPI_Comm comm) {
  static_assert(std::is_trivially_copyable_v<Message>);
  PMPI_Bcast(&message, sizeof message, MPI_BYTE, 0, comm);
}

}  // namespace tutti::mpi
