#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same seed gives the same run, bit for bit, in two processes with different memory addresses. Usage: one_seed.sh TUTTI
# SCENARIOS
set -eu
tutti=$1
scenarios=$2
for name in unequal partial faults; do
  hashes=$(for run in 1 2 3; do
    "$tutti" sim run "$scenarios/fast/$name.toml" --full --seed 42 --json | grep '"hash"'
  done | sort -u)
  if [ "$(echo "$hashes" | wc -l)" -ne 1 ] || echo "$hashes" | grep -q null; then
    printf '%s: runs with one seed differ:\n%s\n' "$name" "$hashes"
    exit 1
  fi
done
echo "one seed, one run"
