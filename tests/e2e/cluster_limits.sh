#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A limit of `fair` holds for four live nodes together, also after the node that distributes it has died.
# usage: cluster_limits.sh TUTTI
set -euo pipefail
tutti=$(realpath "$1")
work=$(mktemp -d)
trap '"$tutti" down --now --cluster "$work/c" >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
fail() { echo "FAILED: $*"; "$tutti" policy show --cluster "$work/c" || true; cat "$work"/c/run/*.log 2>/dev/null || true; exit 1; }
within() {  # seconds, command: until it succeeds
  local until=$((SECONDS + $1)); shift
  until "$@" >/dev/null 2>&1; do [ $SECONDS -lt $until ] || return 1; sleep 0.1; done
}
shows() { local text; text=$("$tutti" policy show --cluster "$work/c" 2>/dev/null) || true; grep -q "$1" <<< "$text"; }
# Milliseconds in which job 7 writes 40 MB over all nodes. Its limit is 20 MB/s.
put() {
  local begin; begin=$(date +%s%N)
  TUTTI_APP=7 "$tutti" put --cluster "$work/c" "$work/data" "$1" >/dev/null || fail "put $1"
  echo $((($(date +%s%N) - begin) / 1000000))
}

mkdir "$work/c"
head -c 40000000 /dev/zero > "$work/data"
"$tutti" up --cluster "$work/c" --nodes 4 --policy fair -o "limits=7=20MB/s" >/dev/null || fail "up"
within 20 shows "this node distributes the shares of 4 of 4 nodes" || fail "node0 does not distribute all shares"
shows "limits hold for the cluster; node0 distributes them" || fail "the others do not ask node0"

# At least 40 MB / (1.1 * 20 MB/s), less a burst. Four nodes with a limit each would need 0.5 s. A busy machine may need longer.
took=$(put one)
echo "40 MB in $took ms"
[ "$took" -ge 1700 ] || fail "40 MB took only $took ms"
[ "$took" -le 20000 ] || fail "40 MB took $took ms"

kill -9 "$(head -n 1 "$work/c/run/node0.pid")"
within 20 shows "this node distributes the shares of 4 of 4 nodes" || fail "no other node distributes all shares"
took=$(put two)
echo "without node0, 40 MB in $took ms"
[ "$took" -ge 1700 ] || fail "without node0, 40 MB took only $took ms"
