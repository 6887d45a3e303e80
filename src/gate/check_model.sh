#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_model.sh MODEL: checks every state of the model, and that spin finds each broken rule.
set -euo pipefail
model=$(realpath "$1")
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"

# verify NAME [DEFINE]: prints what spin found.
verify() {
  local optimise=-O2
  if [ $# -gt 1 ]; then optimise=-O1; fi  # these runs end early
  spin -a ${2:+-D$2} "$model" >/dev/null
  gcc "$optimise" -w -DSAFETY -DCOLLAPSE -DMEMLIM=2048 -o pan pan.c
  ./pan -m100000 >"$1.log" 2>&1 || true
  grep -E "errors:|states, stored|pan:1:" "$1.log" || cat "$1.log"
}

for rule in BREAK_RECOVERY BREAK_WAKEUP BREAK_LEASE; do
  verify "$rule" "$rule"
  grep -qE "errors: [1-9]" "$rule.log" || { echo "spin does not find the error of $rule"; exit 1; }
done
verify whole
grep -q "errors: 0" whole.log
! grep -qE "search not completed|max search depth too small" whole.log
