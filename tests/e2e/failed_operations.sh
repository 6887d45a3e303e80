#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A simulation with failed operations is printed, says how many failed, and exits with 1. --full and --live exclude each other.
set -euo pipefail
tutti=$1
scenario=$2

for options in "" "--full" "--json"; do
  status=0
  # shellcheck disable=SC2086
  message=$("$tutti" sim run "$scenario" --set timeout=1ns $options 2>&1 >/dev/null) || status=$?
  if [ "$status" != 1 ] || [[ "$message" != *"operations failed"* ]]; then
    echo "sim run $options: exit status $status, message '$message'"
    exit 1
  fi
done

status=0
"$tutti" sim run "$scenario" --full --live >/dev/null 2>&1 || status=$?
if [ "$status" != 2 ]; then
  echo "sim run --full --live: exit status $status"
  exit 1
fi
