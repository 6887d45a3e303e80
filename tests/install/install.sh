#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs to a temporary directory, builds C and C++ programs against that tree alone, by pkg-config and by
# find_package(Tutti), and runs them. The programs are the examples in the comments of the headers, and examples/.
# usage: install.sh SOURCE_DIRECTORY BUILD_DIRECTORY
set -euo pipefail
source_directory=$(realpath "$1") build=$(realpath "$2")
work=$(mktemp -d)
tree=$work/tree
cleanup() { "$tree/bin/tutti" down --now --cluster "$work/tutti-data" >/dev/null 2>&1 || true; rm -rf "$work"; }
trap cleanup EXIT
fail() { echo "FAILED: $*"; exit 1; }
unset TUTTI_CLUSTER TUTTI_GATE LD_LIBRARY_PATH CPATH

cmake --install "$build" --prefix "$tree" > "$work/log" || { cat "$work/log"; fail "cmake --install"; }
for path in bin/tutti lib/libtutti.so.0 lib/libtutti_client.so.0 lib/libtutti_gate.so.0 lib/libagios.so.0 include/agios.h \
  include/tutti/client.h lib/pkgconfig/tutti-client.pc lib/cmake/Tutti/TuttiConfig.cmake lib/systemd/system/tutti-node.service \
  lib/systemd/system/tutti-gate.service share/tutti/scenarios/fast/disks.toml; do
  [ -e "$tree/$path" ] || fail "$path is not installed"
done
for mpi in openmpi mpich; do
  [ ! -e "$build/lib/libtutti-mpi-$mpi.so" ] || [ -e "$tree/lib/libtutti-mpi-$mpi.so" ] || fail "libtutti-mpi-$mpi.so is not installed"
  program=bin/tutti-mpi-patterns-$mpi
  [ -e "$build/$program" ] || continue
  [ -x "$tree/$program" ] || fail "$program is not installed"
  ! ldd "$tree/$program" | grep -e 'not found' -e "$build" || fail "$program needs libraries that are not installed"
done
for unit in node gate; do
  grep -q "^ExecStart=$tree/bin/tutti $unit " "$tree/lib/systemd/system/tutti-$unit.service" || fail "the unit of the $unit"
done
for library in tutti tutti_client tutti_gate agios; do
  readelf -d "$tree/lib/lib$library.so" | grep -q "SONAME.*\[lib$library.so.0\]" || fail "the soname of $library"
done

# The examples in the headers' comments, completed to programs.
mkdir "$work/program"
cp "$source_directory/tests/install/program/CMakeLists.txt" "$work/program"
cp "$source_directory/examples/embed_cpp.cc" "$work/program/scheduler_cpp.cc"
cp "$source_directory/examples/embed_c.c" "$work/program/scheduler_c.c"
example() { awk -v mark="$2" '/^#pragma once|^#ifndef/{exit} index($0, mark) == 1 {print substr($0, length(mark) + 1); some = 1} END {exit !some}' "$tree/include/$1"; }
{
  echo '#include <tutti/client.h>'
  echo 'int main() {'
  example tutti/client.h '//   '
  echo '  return (*file)->status() ? 0 : 1; }'
} > "$work/program/client_cpp.cc" || fail "client.h has no example"
{
  printf '#include <fcntl.h>\n#include <stdio.h>\n#include <tutti/tutti_client.h>\nint main(void) {\n'
  printf 'static char data[4096]; size_t size = sizeof data; uint64_t bytes = size;\n'
  example tutti/tutti_client.h ' *   ' | sed 's/\.\.\. }/return 1; }/; s/checkpoint\.0/checkpoint.1/'
  echo 'return 0; }'
} > "$work/program/client_c.c" || fail "tutti_client.h has no example"
{
  printf '#include <tutti/gate.h>\nstatic void write_checkpoint(void) {}\nint main(void) {\nuint64_t bytes = 1;\n'
  example tutti/gate.h ' *   '
  echo 'return 0; }'
} > "$work/program/gate_c.c" || fail "gate.h has no example"
printf '#include <agios.h>\nint main(void) { void (*volatile call)(void) = agios_exit; return call == 0; }\n' > "$work/program/agios_c.c"

# By pkg-config.
export PKG_CONFIG_PATH=$tree/lib/pkgconfig
mkdir "$work/made"
compile() {  # compiler, package, file
  $1 "$work/program/$3" -o "$work/made/${3%.*}" $(pkg-config --cflags --libs "$2") -Wl,-rpath,"$tree/lib" || fail "$3 by pkg-config"
}
compile 'cc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror' tutti-client client_c.c
compile 'c++ -std=c++20 -Wall -Wextra -Wno-missing-field-initializers -Werror' tutti-client client_cpp.cc
compile 'cc -std=c11 -D_GNU_SOURCE -Wall -Werror' tutti-gate gate_c.c
compile 'cc -std=c11 -D_GNU_SOURCE -Wall -Werror' tutti scheduler_c.c
compile 'cc -std=c11 -D_GNU_SOURCE -Wall -Werror' tutti-agios agios_c.c
c++ -std=c++20 -M "$work/program/client_cpp.cc" $(pkg-config --cflags tutti-client) | grep -q "$tree/.*/tutti/bundled/tl/expected.hpp" ||
  fail "a header comes from outside of the tree"

# By find_package.
cmake -S "$work/program" -B "$work/by_cmake" -DCMAKE_PREFIX_PATH="$tree" > "$work/log" 2>&1 || { cat "$work/log"; fail "find_package"; }
cmake --build "$work/by_cmake" > "$work/log" 2>&1 || { cat "$work/log"; fail "the build with find_package"; }

# They run, and the files arrive.
cd "$work"
"$tree/bin/tutti" up --nodes 2 > /dev/null || fail "tutti up"
mkdir tutti-data/files/run
for programs in made by_cmake; do
  rm -f tutti-data/files/run/*
  TUTTI_GATE=off "$work/$programs/gate_c" || fail "$programs/gate_c"
  for name in client_cpp client_c scheduler_c agios_c; do "$work/$programs/$name" > /dev/null || fail "$programs/$name"; done
  [ "$(stat -c %s tutti-data/files/run/checkpoint.0)" = 1048576 ] || fail "$programs: the file of the C++ program"
  [ "$(stat -c %s tutti-data/files/run/checkpoint.1)" = 4096 ] || fail "$programs: the file of the C program"
done
"$work/by_cmake/scheduler_cpp" > /dev/null || fail "by_cmake/scheduler_cpp"
"$tree/bin/tutti" down > /dev/null || fail "tutti down"
"$tree/bin/tutti" sim run "$tree/share/tutti/scenarios/fast/disks.toml" > /dev/null || fail "an installed scenario"
echo "programs in C and C++ work with the installed tree"
