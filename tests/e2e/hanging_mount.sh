#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A file system below the served directory does not answer when a user's file is closed. Other users do not wait.
set -euo pipefail
tutti=$1
if [ "$(id -u)" != 0 ]; then
  echo "needs root: mounts a file system, and acts as another user"
  [ -n "${TUTTI_CI:-}" ] && exit 1
  exit 77
fi
base=$(mktemp -d)
finish() {
  rm -f "$base/files/hangs.hang"
  timeout 30 "$tutti" down --cluster "$base/cluster.toml" >/dev/null 2>&1 || true
  umount --lazy "$base/files/hangs" 2>/dev/null || true
  [ -n "${daemon:-}" ] && { wait "$daemon" || true; }
  rm -rf "$base"
}
trap finish EXIT
mkdir -p "$base/files/hangs"
python3 "$(dirname "$0")/fuse_mount.py" "$base/files/hangs" >"$base/log" 2>"$base/why" &
daemon=$!
wait_for() {  # an expression
  for _ in $(seq 300); do
    eval "$1" && return
    sleep 0.1
  done
  return 1
}
wait_for 'grep -q mounted "$base/log" || ! kill -0 $daemon 2>/dev/null'
if ! grep -q mounted "$base/log"; then
  echo "no FUSE here: $(cat "$base/why")"
  exit 77
fi
chmod 777 "$base" "$base/files"
cp "$tutti" "$base/tutti"
echo data >"$base/source"
timeout 60 "$tutti" up --cluster "$base/cluster.toml" --root "$base/files" --nodes 1 >/dev/null
export TUTTI_CLUSTER=$base/cluster.toml

touch "$base/files/hangs.hang"
read_file() { timeout 60 setpriv --reuid 65534 --regid 65534 --clear-groups "$base/tutti" cat hangs/file; }
[ "$(read_file | wc -c)" -eq 65536 ]
wait_for 'grep -q closing "$base/log"' || { echo "the node did not close the file"; exit 1; }
# A node has several threads; each connection has one of them.
for number in 1 2 3 4; do
  timeout 20 "$tutti" put "$base/source" "other$number" || { echo "another user had to wait"; exit 1; }
  cmp "$base/source" "$base/files/other$number"
done
rm "$base/files/hangs.hang"
[ "$(read_file | wc -c)" -eq 65536 ]
