#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# File commands of a cluster compared with plain tools on the same disk, in one run, in alternation. Prints the median of
# the ratios of the pairs and the goal.
# usage: tests/bench/files.sh [--quick] [--dir DIRECTORY] [--tutti PROGRAM]
#   --quick  256 MB instead of 2 GB, 3 pairs instead of 5
set -euo pipefail
size=2000 pairs=5 where=$PWD tutti=$(dirname "$0")/../../build/release/bin/tutti
while [ $# -gt 0 ]; do
  case $1 in
    --quick) size=256 pairs=3 ;;
    --dir) where=$2; shift ;;
    --tutti) tutti=$2; shift ;;
    *) sed -n '3,6s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
  shift
done
tutti=$(realpath "$tutti")
work=$(mktemp -d "$where/tutti-bench-XXXXXX")
export TUTTI_CLUSTER=$work/cluster
cleanup() { "$tutti" down --now >/dev/null 2>&1 || true; rm -rf "$work"; }
trap cleanup EXIT
cd "$work"
"$tutti" up >/dev/null
served=$work/cluster/files
mkdir plain many small in
head -c "${size}M" /dev/urandom > big

seconds() {  # command...: its time
  local begin=$EPOCHREALTIME
  "$@" >/dev/null
  awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN {print b - a}'
}
median() { sort -g | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

# compare NAME GOAL UNIT BEFORE PLAIN OURS: `rate` divides the plain time by ours (goal: at least), `time` the other way
# round (goal: at most). BEFORE runs before each of the two.
compare() {
  local name=$1 goal=$2 kind=$3 before=$4 plain=$5 ours=$6 ratio
  ratio=$(for ((i = 0; i < pairs; ++i)); do
    eval "$before"; a=$(seconds eval "$plain")
    eval "$before"; b=$(seconds eval "$ours")
    awk -v a="$a" -v b="$b" -v kind="$kind" 'BEGIN {print kind == "rate" ? a / b : b / a}'
  done | median)
  awk -v n="$name" -v g="$goal" -v k="$kind" -v r="$ratio" 'BEGIN {
    met = k == "rate" ? r >= g : r <= g
    printf "%-44s %6.2f   goal: %s %.1f: %s\n", n, r, k == "rate" ? "at least" : "at most", g, met ? "met" : "missed"}'
}

echo "$(date -u +%F), $(nproc) cores, $size MB, median of $pairs pairs, on $(df --output=fstype . | tail -1)"
compare "put + sync: rate against cp + sync" 0.8 rate 'rm -f plain/big; "$tutti" put --no-sync /dev/null big; sync' \
  'cp big plain/big; sync' '"$tutti" put big; sync'
"$tutti" put big
compare "get --no-sync: rate against cp" 0.8 rate 'rm -f plain/big; sync' 'cp "$served/big" plain/big' \
  '"$tutti" get --no-sync big plain/big'
compare "get (syncs the file): rate against cp + sync" 0.8 rate 'rm -f plain/big; sync' \
  'cp "$served/big" plain/big; sync' '"$tutti" get big plain/big; sync'
compare "cp in the cluster + sync: rate against cp + sync" 0.8 rate 'rm -f plain/big "$served/copy"; sync' \
  'cp "$served/big" plain/big; sync' '"$tutti" cp big copy; sync'
mkdir "$served/many" && (cd "$served/many" && seq 10000 | xargs touch)
compare "ls -l of 10,000 files: time against ls -l" 3 time : 'ls -l "$served/many"' '"$tutti" ls many'
for ((i = 0; i < 500; ++i)); do head -c 4096 /dev/urandom > small/$i; done
mkdir "$served/in"
compare "put of 500 files of 4 KiB + sync: time" 3 time 'rm -rf in "$served/in"; mkdir in "$served/in"; sync' \
  'cp small/* in/; sync' '"$tutti" put small/* in; sync'
compare "get --no-sync of 500 files: time against cp" 3 time 'rm -rf in; mkdir in; sync' 'cp small/* in/' \
  '"$tutti" get --no-sync $(cd small; ls | sed "s#^#in/#") in'
