#!/usr/bin/env bash
# Makes sure of parts of the system that some commands of the Makefile need: `install.sh compiler|faketime`. One that is missing
# is installed with the system's package manager, as root or through sudo. One that works is left alone, without touching the
# network.
set -euo pipefail
# shellcheck source=tools/engines.sh
source "$(dirname "${BASH_SOURCE[0]}")/engines.sh"

say() { printf 'install: %s\n' "$*" >&2; }

# has PART: whether it works.
has() {
  local cc
  case $1 in
    compiler) # the one that Go would call. A gcc without libc's headers cannot.
      read -ra cc <<<"$(go env CC)"
      printf '#include <stdlib.h>\n' | "${cc[@]}" -fsyntax-only -x c - >/dev/null 2>&1
      ;;
    faketime) compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null ;;
  esac
}

main() {
  local packages why
  case ${1:-} in
    compiler) packages=(gcc libc6-dev) why="Go's race detector needs a C compiler that works (or test without it: make test RACE=)" ;;
    faketime) packages=(libfaketime) why="make faults sets the clock of an engine by libfaketime" ;;
    *) die "usage: install.sh compiler|faketime" ;;
  esac
  if has "$1"; then return 0; fi
  say "$why: installing ${packages[*]}"
  install_packages "${packages[@]}" || true
  has "$1" || die "there is no $1 that works, and $why; by hand: apt-get install ${packages[*]}"
}

main "$@"
