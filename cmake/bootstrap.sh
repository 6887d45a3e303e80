# SPDX-License-Identifier: Apache-2.0
# Shared by ./run and ./test: install what is missing, configure, build. Source it from the project root.

say() { printf '\033[1m%s\033[0m\n' "tutti: $*" >&2; }

install_dependencies() {
  local wanted missing=()
  wanted=$(grep -v '^#' cmake/dependencies.txt)
  for package in $wanted; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  if [ "$(id -u)" -ne 0 ]; then
    say "not root: please run  apt-get install ${missing[*]}"
    return 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# build PRESET [TARGET...]: configure once, then let ninja decide what is left to do.
build() {
  local preset=$1
  shift
  [ -f "build/$preset/build.ninja" ] || { say "configuring ($preset)"; cmake --preset "$preset" >/dev/null || return 1; }
  say "building ($preset)"
  cmake --build --preset "$preset" ${1:+--target "$@"}
}
