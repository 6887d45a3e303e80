#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ./run asks only for what the demonstration needs, ./test for everything in cmake/dependencies.txt.
set -euo pipefail
cd "$1"
. cmake/bootstrap.sh
fail() { echo "FAILED: $*"; exit 1; }
for package in $(packages run); do
  case $package in
    chromium | clang* | spin | fio | libgtest* | libgmock* | munge | *openmpi*) fail "./run installs $package" ;;
  esac
done
packages run | grep -qx g++ || fail "./run does not install a compiler"
all=$(grep -vc '^#\|^\[\|^$' cmake/dependencies.txt)
[ "$(packages run test | wc -l)" = "$all" ] || fail "./test does not install all of cmake/dependencies.txt"
grep -q '^install_dependencies run$' run && grep -q '^install_dependencies run test$' test || fail "the scripts' sections"
echo "$(packages run | wc -l) packages for ./run, $all for ./test"
