#!/usr/bin/env bash
# Runs golangci-lint, in the version that golangci-lint/go.mod pins: `tools/golangci-lint.sh run ./...`.
#
# It is built from source at its first use, which takes minutes, and kept in the user's cache,
# ${VELOCITY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/velocityd}/tools, under a name that says what it was built from and
# with. It has a separate module, so that its several hundred dependencies never meet the project's.
set -euo pipefail

die() {
  printf 'golangci-lint.sh: %s\n' "$*" >&2
  exit 1
}

# in_tools COMMAND...: runs it in the module of the tools. GOFLAGS and GOWORK of the user's speak of the project, not of this module.
in_tools() { (cd "$tools" && env GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0 GOOS= GOARCH= "$@"); }

main() {
  local tools package cache version binary
  tools=$(cd "$(dirname "${BASH_SOURCE[0]}")/golangci-lint" && pwd -P)
  package=github.com/golangci/golangci-lint/v2
  cache=${VELOCITY_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or VELOCITY_CACHE}/.cache}/velocityd}
  version=$(awk -v p="$package" '$1 == p { print $2 } $1 == "require" && $2 == p { print $3 }' "$tools/go.mod")
  [[ -n $version ]] || die "$tools/go.mod does not require $package"
  # The checksum stands for the dependencies, which a version bump of golangci-lint's own does not cover.
  binary=$cache/tools/golangci-lint-$version-$(in_tools go env GOVERSION)-$(cat "$tools"/go.{mod,sum} | cksum | cut -d' ' -f1)
  if [[ ! -x $binary ]]; then build "$package" "$version" "$binary"; fi
  # Its findings are kept beside it, where `make clean` finds them.
  GOLANGCI_LINT_CACHE=${GOLANGCI_LINT_CACHE:-$cache/lint} exec "$binary" "$@"
}

# build PACKAGE VERSION BINARY: the file appears under its name only when it is whole, so an interrupted build or two at
# once leave nothing broken.
build() {
  local fresh=$3.$$
  # Measured on two cores: 217 seconds of CPU with the modules there, 243 with fetching them.
  printf 'golangci-lint.sh: building golangci-lint %s once: two minutes on two idle cores, and 370 MB of modules if they are missing\n' "$2" >&2
  mkdir -p "$(dirname "$3")"
  trap 'rm -f "$fresh"' EXIT
  in_tools go build -trimpath -buildvcs=false -o "$fresh" "$1/cmd/golangci-lint" || die "building golangci-lint did not work"
  mv -f "$fresh" "$3"
  trap - EXIT
}

main "$@"
