#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the commands of docs/operations.md for three nodes over an existing mount, taken from the text of that page and from
# the systemd unit, in its own mount and network namespaces: three names for this machine, and a tmpfs in place of the mount.
# usage: operations.sh TUTTI OPERATIONS.md tutti-node.service.in
set -euo pipefail
tutti=$(realpath "$1") page=$(realpath "$2") unit=$(realpath "$3")

if [ "${TUTTI_OPERATIONS_INSIDE:-}" = "" ]; then
  [ "$(id -u)" = 0 ] && unshare -mn true 2>/dev/null || { echo "skipped: needs root and namespaces"; exit 77; }
  exec env TUTTI_OPERATIONS_INSIDE=1 unshare -mnpf --kill-child bash "$0" "$tutti" "$page" "$unit"
fi

fail() { echo "FAILED: $*"; cat "$work"/*.log 2>/dev/null || true; exit 1; }
# The nth block of the page's section.
block() {
  awk -v wanted="$1" '/^## /{inside = /Three nodes over an existing mount/; next}
    inside && /^ *```/{open = !open; if (open) ++n; next}
    open && n == wanted {sub(/^   /, ""); print}' "$page"
}
within() {  # seconds, command: until it succeeds
  local until=$((SECONDS + $1)); shift
  until "$@" >/dev/null 2>&1; do [ $SECONDS -lt $until ] || return 1; sleep 0.1; done
}

# The three servers and their mount.
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /mnt
work=/mnt/work
mkdir -p /mnt/scratch $work/upper $work/work
mount -t tmpfs -o size=512m,mode=1777 tmpfs /mnt/scratch
mount -t overlay overlay -o lowerdir=/etc,upperdir=$work/upper,workdir=$work/work /etc
ip link set lo up 2>/dev/null || ifconfig lo up
printf '127.0.0.1 localhost\n127.0.1.1 io1\n127.0.1.2 io2\n127.0.1.3 io3\n' > /etc/hosts
mkdir $work/bin; ln -s "$tutti" $work/bin/tutti
export PATH=$work/bin:$PATH
cd $work

# 1. The key. 2. The cluster's description.
rm -rf /etc/tutti
eval "$(block 1)"
[ "$(stat -c %a /etc/tutti/key)" = 600 ] || fail "the key's mode"
block 2 > /etc/tutti/cluster.toml
grep -q '^name = "io3"' /etc/tutti/cluster.toml || fail "the page has no cluster.toml"

# 3. A node on each server.
start=$(sed -n 's/^ExecStart=//p' "$unit")
[ -n "$start" ] || fail "the unit has no ExecStart"
start="tutti ${start#*/tutti }"
start=${start//\/run\/tutti\/node.pid/$work/%H.pid}  # the three servers share /run here
declare -A process
node() {
  eval "${start//%H/$1} >> $work/$1.log 2>&1 &"
  process[$1]=$!
}
for name in io1 io2 io3; do node $name; done
within 10 tutti status --cluster /etc/tutti/cluster.toml || fail "not all nodes came up"

# 4. Looking at it.
head -c 5000000 /dev/urandom > somefile
eval "$(block 4)" || fail "what the page says to look at"
cmp somefile /mnt/scratch/somefile || fail "the file differs"

# What to change: under way, on all nodes.
tutti policy set window -o width=100ms || fail "policy set"
[ "$(tutti policy show --json | grep -o '"window"' | wc -l)" -ge 1 ] || fail "the policy did not change"
tutti top --once --json > /dev/null || fail "top"

# kill -9 of one node: the others serve its targets, status reports it, and it can be started again.
kill -9 "${process[io2]}"
wait "${process[io2]}" 2>/dev/null || true
head -c 3000000 /dev/urandom > other
timeout 60 tutti put other || fail "put without io2"
timeout 60 tutti get somefile back && cmp somefile back || fail "get without io2"
cmp other /mnt/scratch/other || fail "the file written without io2"
if tutti status > status.txt; then fail "status is 0 though io2 is dead"; fi
grep -q io2 status.txt || fail "status does not name io2"
node io2
within 10 tutti status || fail "io2 did not come back"

# Clients with a wrong key are refused.
(umask 077; head -c 48 /dev/urandom | base64 > $work/wrong)
sed "s#^key_file.*#key_file = \"$work/wrong\"#" /etc/tutti/cluster.toml > wrong.toml
if timeout 30 tutti ls --cluster wrong.toml 2> denied.txt; then fail "a wrong key got in"; fi

# Stopping: SIGTERM, and every file is still there.
for name in io1 io2 io3; do kill -TERM "${process[$name]}"; done
for name in io1 io2 io3; do wait "${process[$name]}" || fail "$name did not stop with status 0"; done
cmp somefile /mnt/scratch/somefile || fail "the file after the end"
echo "all commands of the page work"
