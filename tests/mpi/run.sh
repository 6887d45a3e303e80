#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh MPI LIBRARY YIELD RANKS PATTERN PROGRAM [ARGUMENT...]: runs a program with the library preloaded and files in a
# temporary directory, which replaces the argument @. The program must succeed, and what it prints must match PATTERN.
# With TUTTI_NODES=TUTTI, the directory is that of a cluster of three nodes, started with this `tutti`, and data goes
# through them; the argument % is the folder with the nodes' pid files. TUTTI_TEST_PRELOAD: another library to preload.
set -euo pipefail
mpi=$1 library=$2${TUTTI_TEST_PRELOAD:+:$TUTTI_TEST_PRELOAD} yield=$3 ranks=$4 pattern=$5
shift 5
directory=$(mktemp -d)
trap '[ -z "${TUTTI_NODES:-}" ] || "$TUTTI_NODES" down --dir "$directory/cluster" > /dev/null 2>&1 || true; rm -rf "$directory"' EXIT
files=$directory
if [ -n "${TUTTI_NODES:-}" ]; then
  "$TUTTI_NODES" up --dir "$directory/cluster" --nodes 3 --stripe-size 4KiB --fence-time 500ms > /dev/null
  # Whether a killed node has applied a write is unknown until this time is over.
  sed -i 's/^request_timeout.*/request_timeout = "3s"/' "$directory/cluster/cluster.toml"
  export TUTTI_CLUSTER=$directory/cluster TUTTI_ROUTE=nodes
  files=$directory/cluster/files
fi
program=("${@/#@/$files}")
program=("${program[@]/#%/$directory/cluster/run}")
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TUTTI_REPORT=1
# Small stripes and buffers, so that small files have many of them.
export TUTTI_STRIPE_SIZE=${TUTTI_STRIPE_SIZE:-4096} TUTTI_STRIPE_COUNT=${TUTTI_STRIPE_COUNT:-3} TUTTI_LIST_IO=${TUTTI_LIST_IO:-4} TUTTI_BUFFER=64KiB
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
