#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the shell examples of README.md and docs/*.md as they are printed: all blocks ```sh of a page in one shell, in a
# copy of the tree's layout (build/, scenarios/), with /run, /mnt, /scratch and /tmp of their own. A block that cannot run
# says why: ```sh not run: REASON. A block that another test runs names it: ```sh run by FILE.
# usage: examples.sh SOURCE_DIRECTORY BUILD_DIRECTORY
set -euo pipefail
source_directory=$(realpath "$1") build=$(realpath "$2")
most_not_run=12

if [ "${TUTTI_EXAMPLES_INSIDE:-}" = "" ]; then
  [ "$(id -u)" = 0 ] && unshare -mnp true 2>/dev/null || { echo "skipped: needs root and namespaces"; exit 77; }
  exec env TUTTI_EXAMPLES_INSIDE=1 unshare -mnpf --kill-child bash "$0" "$source_directory" "$build"
fi

mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /mnt
mkdir /mnt/work /mnt/run /mnt/tmp /mnt/tree
mount --rbind "$source_directory" /mnt/tree  # stays visible if it is in /tmp
mount --rbind "$build" /mnt/tree/build/release
mount --bind /mnt/run /run
mount --bind /mnt/tmp /tmp
ip link set lo up
unset TUTTI_CLUSTER TUTTI_GATE XDG_RUNTIME_DIR

# The blocks of a page that run, as one script; problems with marks go to standard error.
script() {
  awk -v page="$1" '
    /^ *```/ && !inside {
      inside = 1; run = 0; mark = $0; sub(/^ *```/, "", mark)
      if (mark == "sh") run = 1
      else if (mark ~ /^sh not run: ./) print page ": " mark > "/mnt/not_run." page
      else if (mark ~ /^sh run by /) { file = mark; sub(/^sh run by /, "", file); if (system("test -e /mnt/tree/" file) != 0) print page ": no such test: " file > "/dev/stderr" }
      else if (mark ~ /^sh/) print page ": unknown mark: " mark > "/dev/stderr"
      next }
    /^ *```/ { inside = run = 0; next }
    run { sub(/^ {3}/, ""); print }' "/mnt/tree/$2"
}

status=0
for file in README.md $(cd /mnt/tree && ls docs/*.md); do
  page=$(basename "$file" .md)
  script "$page" "$file" > /mnt/script 2> /mnt/problems
  [ ! -s /mnt/problems ] || { cat /mnt/problems; status=1; }
  [ -s /mnt/script ] || continue
  mkdir -p /mnt/work/$page && cd /mnt/work/$page
  for name in build scenarios examples; do ln -s /mnt/tree/$name .; done
  begin=$SECONDS
  if PATH=/mnt/tree/build/release/bin:$PATH timeout 100 setsid bash -eu -o pipefail -x /mnt/script > /mnt/output 2>&1; then
    echo "$file: $(grep -c . /mnt/script) lines, $((SECONDS - begin)) s"
  else
    echo "FAILED: $file"
    tail -40 /mnt/output
    status=1
  fi
  # What an example left running. All processes of this namespace are ours.
  for process in $(ps -e -o pid= -o comm= | awk '$2 == "tutti" {print $1}'); do kill -9 "$process" 2>/dev/null || true; done
done
cat /mnt/not_run.* 2>/dev/null || true
[ "$(cat /mnt/not_run.* 2>/dev/null | wc -l)" -le $most_not_run ] || { echo "FAILED: more than $most_not_run blocks do not run"; status=1; }
exit $status
