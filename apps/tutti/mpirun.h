// SPDX-License-Identifier: Apache-2.0
// How `tutti mpirun` starts a program.
#pragma once

#include <string>
#include <vector>

namespace tutti::cli {

// The MPI of a program whose libraries `text` names: "openmpi", "mpich", or "" if it names neither. libmpi.so.12 is the
// common name of MPICH and its derivatives; Open MPI 4 has libmpi.so.40.
std::string mpi_in_libraries(const std::string& text);

// What the ranks need in their environment.
struct RankEnvironment {
  std::string mpi;                     // of the program
  std::string preload;                 // value of LD_PRELOAD
  std::vector<std::string> variables;  // names of further variables of this process
};

// `command` with the words that give the ranks this environment. If it begins with an option, the launcher of the MPI
// is added. Not empty.
std::vector<std::string> launch_words(const std::vector<std::string>& command, const RankEnvironment& environment);

}  // namespace tutti::cli
