# SPDX-License-Identifier: Apache-2.0
# Shared by ./run and ./test: install what is missing, configure, build. Source it from the project root.

# packages SECTION...: the Debian packages of these sections of cmake/dependencies.txt.
packages() {
  awk -v wanted=" $* " '/^\[/{name = substr($1, 2, length($1) - 2); inside = index(wanted, " " name " "); next}
    inside && NF && !/^#/' cmake/dependencies.txt
}

say() { printf '\033[1m%s\033[0m\n' "tutti: $*" >&2; }

# install_dependencies SECTION...
install_dependencies() {
  local missing=()
  for package in $(packages "$@"); do
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

# build PRESET TESTS [TARGET...]: configure once, with (ON) or without (OFF) tests, then let ninja decide what is left to
# do. A build directory that was made without tests is configured again when they are wanted.
build() {
  local preset=$1 tests=$2
  shift 2
  if [ ! -f "build/$preset/build.ninja" ] || { [ "$tests" = ON ] && grep -q '^BUILD_TESTING:BOOL=OFF' "build/$preset/CMakeCache.txt"; }; then
    say "configuring ($preset)"
    cmake --preset "$preset" -DBUILD_TESTING="$tests" >/dev/null || return 1
  fi
  say "building ($preset)"
  cmake --build --preset "$preset" ${1:+--target "$@"}
}
