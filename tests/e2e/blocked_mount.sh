#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A user's calls that block in a frozen file system below the served directory do not delay another user's calls.
set -euo pipefail
tutti=$1
if [ "$(id -u)" != 0 ]; then
  echo "needs root: mounts and freezes a file system, and acts as another user"
  [ -n "${TUTTI_CI:-}" ] && exit 1
  exit 77
fi
base=$(mktemp -d)
puts=()
finish() {
  fsfreeze --unfreeze "$base/files/frozen" 2>/dev/null || true
  for put in "${puts[@]}"; do wait "$put" || true; done
  timeout 30 "$tutti" down --cluster "$base/cluster.toml" >/dev/null 2>&1 || true
  umount "$base/files/frozen" 2>/dev/null || true
  rm -rf "$base"
}
trap finish EXIT
mkdir -p "$base/files/frozen"
truncate --size 16M "$base/image"
mkfs.ext4 -q "$base/image"
if ! mount -o loop "$base/image" "$base/files/frozen" 2>"$base/why"; then
  echo "no loop devices here: $(cat "$base/why")"
  exit 77
fi
chmod 777 "$base" "$base/files" "$base/files/frozen"
cp "$tutti" "$base/tutti"
echo data >"$base/source"
timeout 60 "$tutti" up --cluster "$base/cluster.toml" --root "$base/files" --nodes 1 >/dev/null
export TUTTI_CLUSTER=$base/cluster.toml

fsfreeze --freeze "$base/files/frozen"
for number in 1 2 3; do
  timeout 60 setpriv --reuid 65534 --regid 65534 --clear-groups "$base/tutti" put "$base/source" "frozen/$number" >/dev/null 2>&1 &
  puts+=($!)
done
# Two calls block, as many as one user may have at a time: they are in the kernel, in state D.
blocked() { cat /proc/"$node"/task/*/stat 2>/dev/null | sed 's/.*) //' | grep -c '^D' || true; }
node=$(cat "$base"/run/*.pid | head -1)
for _ in $(seq 300); do
  [ "$(blocked)" -ge 2 ] && break
  sleep 0.1
done
[ "$(blocked)" -ge 2 ] || { echo "the calls in the frozen file system did not block"; exit 1; }
timeout 20 "$tutti" put "$base/source" other || { echo "another user had to wait"; exit 1; }
cmp "$base/source" "$base/files/other"

fsfreeze --unfreeze "$base/files/frozen"
for put in "${puts[@]}"; do wait "$put"; done
puts=()
for number in 1 2 3; do cmp "$base/source" "$base/files/frozen/$number"; done
