#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Collective I/O with the preloaded library compared with the MPI library's own, on files in the page cache, for each MPI
# that is installed. Both run in alternation; prints the median of the ratios of the pairs (throughput with the library /
# without it) and the goal. Every byte is compared.
# usage: tests/bench/mpi.sh [--quick] [--apart] [--dir DIRECTORY] [--plan PLAN] [--pairs N] [--ranks N]
#                           [--mpi openmpi|mpich]
#   --quick  3 pairs instead of 9
#   --apart  the MPI library's own calls run in processes without the library, instead of with tutti_plan=off
#   --dir    where the files are: a local file system (default: /tmp)
#   --plan   what is compared with the MPI library's own calls (default: auto)
set -euo pipefail
pairs=9 apart=no where=/tmp plan=auto mpis="openmpi mpich" ranks=4
build=$(realpath "$(dirname "$0")/../../build/release")
while [ $# -gt 0 ]; do
  case $1 in
    --quick) pairs=3 ;;
    --apart) apart=yes ;;
    --dir) where=$2; shift ;;
    --plan) plan=$2; shift ;;
    --pairs) pairs=$2; shift ;;
    --ranks) ranks=$2; shift ;;
    --mpi) mpis=$2; shift ;;
    *) sed -n '3,11s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
  shift
done
work=$(mktemp -d "$where/tutti-bench-XXXXXX")
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TUTTI_GATE=off

# pattern:segment:bytes
cells="demonstration:1048576:67108864 mpi-io-test:1048576:67108864 ior-mpi-io:1048576:67108864
noncontig:4096:67108864 noncontig:65536:67108864"
runs=()  # of one pair
for cell in $cells; do
  for direction in read write; do runs+=("${cell%%:*}:METHOD:$direction:${cell#*:}"); done
done

# perform LIBRARY RUN...: prints "seconds bytes" for each run
perform() {
  local library=$1 preload=$1
  shift
  : > "$work/file"
  if [ "$mpi" = openmpi ]; then
    mpiexec.openmpi --oversubscribe -n $ranks -x "LD_PRELOAD=$library" "$program" "$work/file" "$@"
  else
    # MPICH waits by polling: with more ranks than cores, ranks must give the core to another one.
    [ "$(nproc)" -ge $ranks ] || preload=$library${library:+:}$build/lib/libmpi_test_yield.so
    mpiexec.mpich -n $ranks -genv LD_PRELOAD "$preload" "$program" "$work/file" "$@"
  fi
}

# Prints "cell ratio" lines of one pair; the order changes from pair to pair.
pair() {
  local order="off $plan" methods=() each=() method run
  [ $(($1 % 2)) -eq 0 ] || order="$plan off"
  for run in "${runs[@]}"; do
    for method in $order; do each+=("${run/METHOD/$method}") methods+=("$run $method"); done
  done
  if [ $apart = yes ]; then
    methods=()
    for method in $order; do
      for run in "${runs[@]}"; do methods+=("$run $method"); done
    done
    for method in $order; do
      perform "$([ "$method" = off ] || echo "$library")" "${runs[@]/METHOD/$method}"
    done
  else
    perform "$library" "${each[@]}"
  fi > "$work/times"
  [ "$(wc -l < "$work/times")" -eq ${#methods[@]} ] || { echo "mpi.sh: $mpi: a run failed" >&2; return 1; }
  paste -d ' ' <(printf '%s\n' "${methods[@]}") "$work/times"
}

for mpi in $mpis; do
  program=$build/bin/tutti-mpi-patterns-$mpi library=$build/lib/libtutti-mpi-$mpi.so
  [ -x "$program" ] || { echo "$mpi is not installed, or $program is not built"; continue; }
  echo "$(date -u +%F), $mpi, $ranks ranks, $(nproc) cores, load $(cut -d ' ' -f 1 /proc/loadavg), $(df --output=fstype "$work" | tail -1), plan $plan, median of $pairs pairs"
  for ((i = 0; i < pairs; ++i)); do pair $i; done > "$work/all"
  for run in "${runs[@]}"; do
    awk -v run="$run" -v plan="$plan" '
      function median(values, count,   i, j, least) {
        for (i = 1; i <= (count + 1) / 2; ++i)
          for (j = i + 1; j <= count; ++j)
            if (values[j] < values[i]) { least = values[j]; values[j] = values[i]; values[i] = least }
        return values[int((count + 1) / 2)]
      }
      $1 == run && $2 == "off" { off[++offs] = $4 / $3 / 1e6 }
      $1 == run && $2 == plan { ours[++count] = $4 / $3 / 1e6 }
      END {
        for (i = 1; i <= count; ++i) ratio[i] = ours[i] / off[i]
        split(run, part, ":")
        r = median(ratio, count)
        printf "%-14s %-5s %7d   %6.0f MB/s without, %6.0f with: %5.2f   goal: at least 0.9: %s\n", part[1], part[3], part[4],
               median(off, offs), median(ours, count), r, (r >= 0.9 ? "met" : "missed")
      }' "$work/all"
  done
done
