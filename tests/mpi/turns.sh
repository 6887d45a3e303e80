#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# turns.sh MPI TUTTI LIBRARY YIELD TOOL PHASES: turns at a gate, another tool beside the library, and tutti mpirun.
set -euo pipefail
mpi=$1 tutti=$2 library=$3 yield=$4 tool=$5 phases=$6
directory=$(mktemp -d)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TUTTI_REPORT=1 TUTTI_STRIPE_SIZE=4096 TUTTI_STRIPE_COUNT=2
gate= holder=
trap 'kill $holder $gate 2>/dev/null || true; wait || true; rm -rf "$directory"' EXIT
fail() { echo "FAILED: $*"; cat "$directory"/*.log 2>/dev/null || true; exit 1; }
launcher="mpiexec.openmpi --oversubscribe"
[ "$mpi" = openmpi ] || launcher=mpiexec.mpich
run() {  # LIBRARIES PROGRAM ARGUMENT...
  local preload=$1
  shift
  if [ "$mpi" = openmpi ]; then
    timeout 60 $launcher -n 2 -x "LD_PRELOAD=$preload" "$@"
  else
    timeout 60 $launcher -n 2 -genv LD_PRELOAD "$preload:$yield" "$@"
  fi
}
queued() { "$tutti" gate status --json | python3 -c 'import json, sys; sys.exit(not json.load(sys.stdin)["queue"])'; }
wait_for() { for _ in $(seq 300); do if eval "$1"; then return 0; fi; sleep 0.05; done; fail "$1"; }

# 1. Another tool, before and behind the library: both see every call, and the writes are rearranged.
for order in "$tool:$library" "$library:$tool"; do
  TUTTI_GATE=off run "$order" "$phases" "$directory/file" 0 > "$directory/tool.log" 2>&1 || fail "$order"
  grep -q "the tool saw 2 writes" "$directory/tool.log" || fail "the tool in $order"
  grep -q "2 collective calls rearranged" "$directory/tool.log" || fail "the library in $order"
done

# 2. A gate that is set but not there: the job goes on.
TUTTI_GATE=$directory/none.sock TUTTI_GATE_ANSWER=100ms run "$library" "$phases" "$directory/file" 0 \
  > "$directory/none.log" 2>&1 || fail "without a gate"
grep -q "2 collective calls rearranged" "$directory/none.log" || fail "rearranging without a gate"

# 3. While another job has the turn, the first collective write waits. The turn ends in the pause (tutti_phase_gap), so
# the other job gets it between two writes of one file.
export TUTTI_GATE=$directory/gate.sock TUTTI_PHASE_GAP=200ms
"$tutti" gate --targets 2 > "$directory/gate.log" 2>&1 &
gate=$!
wait_for '[ -S "$TUTTI_GATE" ]'
TUTTI_APP=1 "$tutti" turn -- sh -c "touch '$directory/held'; while [ ! -e '$directory/release' ]; do sleep 0.05; done" &
holder=$!
wait_for '[ -e "$directory/held" ]'
TUTTI_APP=2 run "$library" "$phases" "$directory/file" 1000 > "$directory/job.log" 2>&1 &
job=$!
wait_for queued
grep -q "write 1" "$directory/job.log" && fail "the job wrote without its turn"
touch "$directory/release"
wait $holder
holder=
wait_for 'grep -q "write 1" "$directory/job.log"'
TUTTI_APP=3 timeout 30 "$tutti" turn --max-wait 20s --verbose -- true 2> "$directory/second.log" || fail "the turn in the pause"
grep -q "granted" "$directory/second.log" || fail "the turn did not end in the pause"
kill $job
wait $job || true

# A split call whose begin fails does not keep the turn.
TUTTI_APP=4 run "$library" "$phases" "$directory/file" 1000 fail > "$directory/failed.log" 2>&1 &
job=$!
wait_for 'grep -q "the begin has failed" "$directory/failed.log"'
TUTTI_APP=5 timeout 30 "$tutti" turn --max-wait 10s --verbose -- true 2> "$directory/third.log" || fail "the turn after a failed begin"
grep -q "granted" "$directory/third.log" || fail "a failed begin kept the turn"
kill $job
wait $job || true

# 4. tutti mpirun finds the library for the program.
unset TUTTI_GATE
TUTTI_GATE=off timeout 60 "$tutti" mpirun $launcher -n 2 "$phases" "$directory/file" 0 \
  > "$directory/mpirun.log" 2>&1 || fail "tutti mpirun"
grep -q "2 collective calls rearranged" "$directory/mpirun.log" || fail "tutti mpirun without the library"
# Two programs of one job: both get the library. Else the one with it waits for the other.
TUTTI_GATE=off timeout 60 "$tutti" mpirun $launcher -n 1 "$phases" "$directory/file" 0 \
  : -n 1 "$phases" "$directory/file" 0 > "$directory/two.log" 2>&1 || fail "tutti mpirun of two programs"
grep -q "2 collective calls rearranged" "$directory/two.log" || fail "tutti mpirun of two programs without the library"
"$tutti" mpirun --print -- -n 2 "$phases" | grep -q "^LD_PRELOAD=/.*libtutti-mpi-$mpi.so$" || fail "tutti mpirun --print"
if "$tutti" mpirun --print true 2> "$directory/wrong.log"; then fail "a program without MPI"; fi
grep -q "set --mpi" "$directory/wrong.log" || fail "the message for a program without MPI"
# A script that starts a job is not run to learn its MPI.
printf '#!/bin/sh\ntouch "%s/started"\n' "$directory" > "$directory/job.sh"
chmod +x "$directory/job.sh"
"$tutti" mpirun --print "$directory/job.sh" 2> "$directory/wrong.log" && fail "a script without --mpi"
"$tutti" mpirun --print --mpi $mpi "$directory/job.sh" > "$directory/print.log" || fail "a script with --mpi"
[ ! -e "$directory/started" ] || fail "tutti mpirun --print ran the script"
echo "turns, tools and tutti mpirun work"
