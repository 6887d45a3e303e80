#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh MPI LIBRARY YIELD RANKS PATTERN PROGRAM [ARGUMENT...]: runs a program with the library preloaded and files in a
# temporary directory, which replaces the argument @. The program must succeed, and what it prints must match PATTERN.
set -euo pipefail
mpi=$1 library=$2 yield=$3 ranks=$4 pattern=$5
shift 5
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
program=("${@/#@/$directory}")
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TUTTI_REPORT=1
# Small stripes and buffers, so that small files have many of them.
export TUTTI_STRIPE_SIZE=${TUTTI_STRIPE_SIZE:-4096} TUTTI_STRIPE_COUNT=${TUTTI_STRIPE_COUNT:-3} TUTTI_LIST_IO=4 TUTTI_BUFFER=64KiB
export TUTTI_GATE=${TUTTI_GATE:-off}
if [ "$mpi" = openmpi ]; then
  launch=(mpiexec.openmpi --oversubscribe -n "$ranks" -x "LD_PRELOAD=$library")
else
  launch=(mpiexec.mpich -n "$ranks" -genv LD_PRELOAD "$library:$yield")
fi
if ! timeout 60 "${launch[@]}" "${program[@]}" > "$directory/output" 2>&1; then
  cat "$directory/output"
  echo "FAILED: ${program[*]}"
  exit 1
fi
cat "$directory/output"
grep -Eq "$pattern" "$directory/output" || { echo "FAILED: the output does not match $pattern"; exit 1; }
