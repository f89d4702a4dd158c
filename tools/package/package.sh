#!/usr/bin/env bash
# Makes all files of this version in a folder: `tools/package/package.sh FOLDER`.
#
# The static programs are built first, then each executable in parts/ makes its files, in the order of their names, and last
# come the checksums. The same commit gives the same bytes, wherever it is: times come from the commit (SOURCE_DATE_EPOCH),
# and no path is in a program. A part finds in its environment
#
#   TREE      the folder of the project, in which it is started
#   OUT       the folder for its files
#   WORK      a folder for other files, which is removed
#   PROGRAMS  a folder with linux-amd64/velocityd and linux-arm64/velocityd
#   ARCHS     these architectures, as Go names them
#   VERSION   as `velocityd version` prints it; VERSION=… in the environment of package.sh wins
#   SOURCE_DATE_EPOCH
set -euo pipefail
shopt -s inherit_errexit
export LC_ALL=C TZ=UTC
umask 022

say() { printf 'package: %s\n' "$*" >&2; }

# build ARCH: a static program, without the user's wishes for other builds.
build() {
  local stamp=false
  if git describe --always >/dev/null 2>&1; then stamp=true; fi
  say "building velocityd for $1"
  env -u GOAMD64 -u GOARM64 GOFLAGS= GOEXPERIMENT= GOOS=linux GOARCH="$1" CGO_ENABLED=0 \
    go build -trimpath -buildvcs=$stamp -ldflags='-s -w' -o "$PROGRAMS/linux-$1/velocityd" ./cmd/velocityd
}

# epoch: the time of the commit, or of the day when the project began where there is no git.
epoch() { git log -1 --format=%ct 2>/dev/null || printf 1763683200; }

main() {
  local part arch
  if (($# != 1)); then
    say "usage: package.sh FOLDER"
    exit 2
  fi
  mkdir -p "$1"
  OUT=$(cd "$1" && pwd -P)
  TREE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
  WORK=$(mktemp -d)
  trap 'rm -rf "$WORK"' EXIT
  cd "$TREE"
  PROGRAMS=$WORK/programs ARCHS=${ARCHS:-amd64 arm64} SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(epoch)}
  for arch in $ARCHS; do build "$arch"; done
  VERSION=${VERSION:-$(own_version)}
  export TREE OUT WORK PROGRAMS ARCHS VERSION SOURCE_DATE_EPOCH
  for part in tools/package/parts/*; do
    if [[ -x $part ]]; then "$part"; fi
  done
  (cd "$OUT" && rm -f SHA256SUMS && sha256sum -- * >"$WORK/sums" && mv "$WORK/sums" SHA256SUMS)
  say "made $VERSION in $OUT:"
  (cd "$OUT" && ls -l >&2)
}

# own_version: the version that the program for this machine prints.
own_version() {
  local program
  program=$PROGRAMS/linux-$(go env GOHOSTARCH)/velocityd
  if [[ ! -x $program ]]; then
    say "no program for this machine is among '$ARCHS', so name the version: VERSION=0.2.0"
    return 1
  fi
  "$program" version | cut -d' ' -f2
}

main "$@"
