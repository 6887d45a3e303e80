#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gate_mpi.sh TUTTI JOB MPIEXEC: two halves of MPI_COMM_WORLD take turns at a gate.
set -euo pipefail
tutti=$1 job=$2 mpiexec=$3
directory=$(mktemp -d)
export TUTTI_GATE=$directory/gate.sock OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
"$tutti" gate &
gate=$!
trap 'kill $gate; wait $gate || true; rm -rf "$directory"' EXIT
for _ in $(seq 200); do [ -S "$TUTTI_GATE" ] && break; sleep 0.05; done
oversubscribe=()
if "$mpiexec" --version 2>&1 | grep -qi "open.\?mpi\|open rte"; then oversubscribe=(--oversubscribe); fi
"$mpiexec" "${oversubscribe[@]}" -n 4 "$job" "$directory"
