#!/usr/bin/env bash
# Makes sure of a C compiler, which Go's race detector needs: where there is none it installs gcc and libc's headers with
# the system's package manager, as root or through sudo. A compiler that works is left alone, without touching the network.
set -euo pipefail
export LC_ALL=C

readonly packages=(gcc libc6-dev)

say() { printf 'compiler: %s\n' "$*" >&2; }

# works: whether the compiler that Go would call can compile. A gcc without libc's headers cannot.
works() {
  local cc
  read -ra cc <<<"$(go env CC)"
  printf '#include <stdlib.h>\n' | "${cc[@]}" -fsyntax-only -x c - >/dev/null 2>&1
}

# as_root: how to become root, in the array `become`; fails where neither root nor sudo can be had.
as_root() {
  become=()
  if ((EUID == 0)); then return 0; fi
  type -P sudo >/dev/null || return 1
  become=(sudo)
  if sudo -n true 2>/dev/null; then return 0; fi
  [[ -t 0 && -t 2 ]] || return 1
  say "sudo may ask for your password, to install ${packages[*]}"
  sudo -v
}

apt() {
  "${become[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -y -q -o Acquire::Retries=2 \
    -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30 -o DPkg::Lock::Timeout=120 "$@" >&2
}

# install: the lists are read anew only if the packages cannot be had with those that are there.
install() {
  local options=(--no-install-recommends --no-remove)
  type -P apt-get >/dev/null && as_root || return 1
  say "installing ${packages[*]}, for Go's race detector"
  apt "${options[@]}" install "${packages[@]}" && return 0
  say "once more, with fresh package lists"
  apt update && apt "${options[@]}" install "${packages[@]}"
}

main() {
  local become=()
  if works; then return 0; fi
  install || true
  if works; then return 0; fi
  say "no C compiler that works (go env CC: $(go env CC)), and Go's race detector needs one"
  say "by hand: apt-get install ${packages[*]}; or test without the detector: make test RACE="
  return 1
}

main
