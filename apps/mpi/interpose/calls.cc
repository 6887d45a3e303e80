// SPDX-License-Identifier: Apache-2.0
#include "mpi/interpose/calls.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace tutti::mpi {
namespace {

template <typename Function>
void find(Function& function, const char* name) {
  function = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

template <typename Function>
const void* library_of(Function function) {
  Dl_info info{};
  return function && ::dladdr(reinterpret_cast<void*>(function), &info) != 0 ? info.dli_fbase : nullptr;
}

Calls find_next() {
  Calls calls;
#define TUTTI_MPI_FIND(name, parameters, arguments) find(calls.name, "PMPI_" #name);
  TUTTI_MPI_CALLS(TUTTI_MPI_FIND)
#undef TUTTI_MPI_FIND
  if (calls.File_open && calls.Finalize) return calls;
  std::fputs("tutti: the MPI library has no PMPI_File_open; this library was made for another MPI\n", stderr);
  std::abort();  // the linker loads the MPI library with this one, so that this cannot happen in a working installation
}

Calls find_tool() {
  Calls calls;
  const Calls& behind = next();
  const auto keep = [](auto& function, auto plain) {
    if (library_of(function) == library_of(plain)) function = nullptr;
  };
#define TUTTI_MPI_FIND(name, parameters, arguments) \
  find(calls.name, "MPI_" #name);                   \
  keep(calls.name, behind.name);
  TUTTI_MPI_CALLS(TUTTI_MPI_FIND)
#undef TUTTI_MPI_FIND
  return calls;
}

}  // namespace

const Calls& next() {
  static const Calls calls = find_next();
  return calls;
}

const Calls& tool() {
  static const Calls calls = find_tool();
  return calls;
}

}  // namespace tutti::mpi
