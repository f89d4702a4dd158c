#!/usr/bin/env bash
# Makes the programs of a Vitess cluster available: `tools/vitess/programs.sh` prints the folder that has etcd,
# vtctld, vtctldclient, vtgate, vtorc and vttablet. `make cluster` and `make test-cluster` run them.
#
# Those of Vitess are built from source at their first use, in the version that go.mod beside this file pins. This takes
# some minutes and, for Go's own caches, 2.6 GB of disk. They are kept in the user's cache,
# ${VELOCITY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/velocityd}/vitess, under a name that says what they were built from
# and with. etcd, which keeps the cluster's topology, is the distribution's: the one on PATH, or that of the package
# etcd-server, unpacked and not installed.
#
# Vitess has a separate module, so that its several hundred dependencies never meet the project's.
set -euo pipefail
# shellcheck source=tools/engines.sh
source "$(dirname "${BASH_SOURCE[0]}")/../engines.sh"

readonly build_limit=3600 # seconds that another run may take

say() { printf 'vitess: %s\n' "$*" >&2; }

# in_module COMMAND...: runs it in the module of Vitess. GOFLAGS and GOWORK of the user's speak of the project, not of this module.
in_module() { (cd "$module" && env GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0 GOOS= GOARCH= "$@"); }

# build DIR: builds the programs of Vitess into DIR, two packages at a time: the linker of each takes a GB of memory.
build() {
  local names=()
  mapfile -t names < <(in_module go list tool)
  say "building ${names[*]##*/} from source, once: this takes some minutes"
  in_module nice go build -p 2 -trimpath -buildvcs=false -ldflags '-s -w' -o "$1/" "${names[@]}" || die "building them did not work"
}

# take_etcd DIR: puts an etcd into DIR.
take_etcd() {
  local at
  if at=$(type -P etcd); then
    ln -s "$at" "$1/etcd"
    return 0
  fi
  type -P apt-get dpkg >/dev/null || die "no etcd here, and no apt-get to fetch it with; put etcd on PATH"
  private_apt "$1/apt" etcd || return 1
  say "reading the package lists for etcd (nothing is installed into the system)"
  timeout -k 10 "$update_limit" apt-get -c "$1/apt/apt.conf" -qq "${apt_net[@]}" update >&2 || return 1
  say "downloading the package etcd-server"
  (cd "$1/apt/debs" &&
    timeout -k 10 "$download_limit" apt-get -c "$1/apt/apt.conf" -qq "${apt_net[@]}" download etcd-server >&2) || return 1
  dpkg -x "$1"/apt/debs/etcd-server_*.deb "$1/apt/root" || return 1
  mv "$1/apt/root/usr/bin/etcd" "$1/etcd"
  rm -rf "$1/apt"
}

main() {
  local folder
  cache=${VELOCITY_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or VELOCITY_CACHE}/.cache}/velocityd}
  module=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
  folder=$cache/vitess/$(in_module go env GOVERSION)-$(cat "$module"/go.{mod,sum} | cksum | cut -d' ' -f1)
  if [[ ! -d $folder ]]; then
    mkdir -p "$cache/vitess"
    exec 9>"$cache/vitess/lock"
    if ! flock -n 9; then
      say "waiting for another run to finish"
      flock -w "$build_limit" 9 || die "another run has held $cache/vitess/lock for $build_limit s"
    fi
  fi
  # The folder appears under its name only when it is whole, so a kill half-way leaves nothing broken.
  if [[ ! -d $folder ]]; then
    rm -rf "$cache"/vitess/tmp.*
    tmp=$(mktemp -d "$cache/vitess/tmp.XXXXXX")
    trap 'rm -rf "$tmp"' EXIT
    take_etcd "$tmp" || die "fetching etcd did not work; put etcd on PATH"
    "$tmp/etcd" --version >/dev/null || die "this etcd does not run here: $tmp/etcd"
    build "$tmp"
    chmod 755 "$tmp"
    mv -T "$tmp" "$folder"
  fi
  printf '%s\n' "$folder"
}

main "$@"
