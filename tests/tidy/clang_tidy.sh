#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy with the checks of .clang-tidy, which are those without the slow static analyzer.
# Usage: clang_tidy.sh --all | clang_tidy.sh [COMMIT]
# COMMIT: the sources changed since it (default: the one before the last), at most 16 of them.
set -u
cd "$(dirname "$0")/../.." || exit 2
if [ "${1:-}" = --all ]; then
  mapfile -t files < <(git ls-files 'src/*.cc' 'apps/*.cc')
else
  mapfile -t files < <(git diff --name-only --diff-filter=d "${1:-HEAD~1}" -- 'src/*.cc' 'apps/*.cc' | head -16)
fi
printf '%s\n' "${files[@]}" | grep -v -E '_(test|fuzz|testing)\.cc$|mpi' | xargs -r -P 2 -I{} sh -c \
  'timeout 300 clang-tidy-14 --quiet --warnings-as-errors=* {} -- -std=c++20 -Isrc -Iinclude -Iapps -DTUTTI_VERSION=__FILE__ -w 2>/dev/null || { echo "clang-tidy: {}"; exit 1; }' || exit 1
echo "clang-tidy has no complaint about ${#files[@]} files"
