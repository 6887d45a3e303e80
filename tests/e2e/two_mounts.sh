#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two nodes serve one file over FUSE mounts of their own, which give it different handles: it is the same file for both.
set -euo pipefail
tutti=$1
if [ "$(id -u)" != 0 ]; then
  echo "needs root: mounts file systems"
  [ -n "${TUTTI_CI:-}" ] && exit 1
  exit 77
fi
base=$(mktemp -d)
pids=()
finish() {
  kill "${pids[@]}" 2>/dev/null || true
  umount --lazy "$base/one" "$base/two" 2>/dev/null || true
  wait
  rm -rf "$base"
}
trap finish EXIT
wait_for() {  # an expression
  for _ in $(seq 300); do
    eval "$1" && return
    sleep 0.1
  done
  return 1
}
cat >"$base/cluster.toml" <<END
stripe_size = "4KiB"
[[node]]
name = "one"
endpoint = "unix:$base/one.sock"
targets = "0"
[[node]]
name = "two"
endpoint = "unix:$base/two.sock"
targets = "1"
END
number=100
for node in one two; do
  mkdir "$base/$node"
  python3 "$(dirname "$0")/fuse_mount.py" "$base/$node" "$number" >"$base/$node.log" 2>"$base/$node.why" &
  mount=$!
  number=$((number + 1))
  wait_for 'grep -q mounted "$base/$node.log" || ! kill -0 $mount 2>/dev/null'
  if ! grep -q mounted "$base/$node.log"; then
    echo "no FUSE here: $(cat "$base/$node.why")"
    exit 77
  fi
  "$tutti" node --cluster "$base/cluster.toml" --name "$node" --dir "$base/$node" 2>"$base/$node.node" &
  pids+=($!)
done
export TUTTI_CLUSTER=$base/cluster.toml
wait_for 'timeout 20 "$tutti" status >/dev/null 2>&1' || { timeout 20 "$tutti" status; cat "$base"/*.node; exit 1; }
[ "$(timeout 60 "$tutti" cat file | wc -c)" -eq 65536 ]
timeout 60 "$tutti" status
