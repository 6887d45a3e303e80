#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Servers know the same sizes of a file on one of eight targets, simulated fast and full, and with live processes.
set -eu
tutti=$1
scenario=$2
announced() { "$tutti" sim run "$scenario" --json "$@" | sed -n '/"announced"/,/\]/p'; }
fast=$(announced)
echo "$fast"
echo "$fast" | grep -q '"bytes": 12582912' || { echo "all bytes of the largest job are on one server"; exit 1; }
test "$(announced --full)" = "$fast"
test "$(announced --live)" = "$fast"
