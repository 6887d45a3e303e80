#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trace commands refuse to write over their input, and a device that they write to stays a device.
set -euo pipefail
tutti=$1
log=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cp "$log" log
"$tutti" trace import log --output all.trace >/dev/null
mkdir traces && cp all.trace traces

refused() {
  local status=0
  "$tutti" trace "$@" >/dev/null 2>&1 || status=$?
  [ "$status" = 2 ] || { echo "tutti trace $*: exit status $status"; exit 1; }
}
refused import log --output log
refused merge all.trace --output all.trace
refused export all.trace --output ./all.trace
refused merge traces --output traces/all.trace
cmp "$log" log
cmp all.trace traces/all.trace

# Policies with options, in both forms.
"$tutti" trace replay all.trace --device nvme --json --policies fifo,concert:stretch=8,fair \
  --set policies.fair.weights=1=2 >replay.json
grep -q '"policy": "concert:stretch=8"' replay.json
grep -q '"policy": "fair:weights=1=2"' replay.json
rm replay.json
refused replay all.trace --device nvme --policies concert:stretch=x
refused replay all.trace --device nvme --policies concert:nothing=1
refused replay all.trace --device nvme --policies fifo --set policies.concert.stretch=8

ln -s /dev/null sink
"$tutti" trace export all.trace --output sink
[ -L sink ] || { echo "the link to a device was replaced"; exit 1; }
[ "$(ls)" = "$(printf 'all.trace\nlog\nsink\ntraces')" ] || { echo "files were left behind:"; ls; exit 1; }
