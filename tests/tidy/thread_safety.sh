#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang checks which mutex guards what (src/base/mutex.h), in every source file that uses a Mutex or whose header does.
set -u
cd "$(dirname "$0")/../.." || exit 2
files=()
mpi=$(mpicc.openmpi --showme:compile 2>/dev/null)  # for files that include mpi.h, which are left out without Open MPI
while read -r file; do
  [ -z "$mpi" ] && grep -q -s '<mpi.h>' "$file" "${file%.cc}.h" && continue
  grep -q -s -E '\bMutex\b|\bLock lock\b' "$file" "${file%.cc}.h" && files+=("$file")
done < <(find src apps -name '*.cc' ! -name '*_test.cc' ! -name '*_fuzz.cc' | sort)
if ! printf '%s\0' "${files[@]}" | xargs -0 -P 2 -n 1 \
  clang++-14 -fsyntax-only -std=c++20 -Wthread-safety -Werror -Isrc -Iinclude -Iapps -DOMPI_SKIP_MPICXX ${mpi//-I/-isystem }; then
  echo "the rules of src/base/mutex.h are broken (see above)"
  exit 1
fi
echo "${#files[@]} files keep the rules of their mutexes"
