#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# probing.sh MPI LIBRARY YIELD PHASES: without a gate, a phase begins with a probe (TUTTI_PROBE). If the probe is slower
# than the rates that earlier ones have left, the job waits before its first collective call.
set -euo pipefail
mpi=$1 library=$2 yield=$3 phases=$4
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
mkdir "$directory/probe" "$directory/state"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TUTTI_REPORT=1 TUTTI_GATE=off
export TUTTI_PROBE=$directory/probe TUTTI_STATE_DIR=$directory/state
export TUTTI_PROBE_OPTIONS=data-size=64KiB,max-count=3,time-constant=1ms,fixed-sleep=300ms,probes=1,probe-pause=1ms
fail() { echo "FAILED: $*"; cat "$directory"/*.log; exit 1; }
launch=(mpiexec.openmpi --oversubscribe -n 2 -x "LD_PRELOAD=$library")
[ "$mpi" = openmpi ] || launch=(mpiexec.mpich -n 2 -genv LD_PRELOAD "$library:$yield")
run() { timeout 60 "${launch[@]}" "$phases" "$directory/file" 0 > "$directory/$1.log" 2>&1 || fail "$1"; }
# Seconds that a rank waited, from the report: "20.4 ms waiting for a turn".
waited() {
  grep -o "[0-9.]* [mun]*s waiting for a turn" "$directory/$1.log" |
    awk '{print $1 * ($2 == "s" ? 1 : $2 == "ms" ? 1e-3 : $2 == "us" ? 1e-6 : 1e-9)}'
}

run first  # nothing is known, so the first probe passes
learned=("$directory"/state/probe-*)
[ -s "${learned[0]}" ] || fail "the probe left no rate"
grep -q "collective calls rearranged" "$directory/first.log" || fail "no report"

# As if the file system had been a million times faster on another day.
sed -i -E 's/(best|second) [0-9]+/\1 900000000000000/g' "${learned[0]}"
run second
awk -v t="$(waited second)" 'BEGIN {exit !(t >= 0.3)}' || fail "the second job did not wait: $(waited second) s"
[ -z "$(ls "$directory/probe")" ] || fail "the probes left files"

TUTTI_PROBE_WHEN=never run never
awk -v t="$(waited never)" 'BEGIN {exit !(t < 0.3)}' || fail "TUTTI_PROBE_WHEN=never waited $(waited never) s"
echo "phases probe without a gate"
