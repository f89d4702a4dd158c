#!/usr/bin/env bash
# Makes promtool available, Prometheus' own checker of rules: `tools/promtool.sh` prints where it is. `make test` runs it
# for the tests of deploy.
#
# A promtool on PATH is left alone, without touching the network. Otherwise the one of the distribution's package
# prometheus is unpacked into the cache, ${VELOCITY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/velocityd}/tools. Building it from
# source would take the many modules of Prometheus, and minutes.
set -euo pipefail
# shellcheck source=tools/engines.sh
source "$(dirname "${BASH_SOURCE[0]}")/engines.sh"

say() { printf 'promtool: %s\n' "$*" >&2; }

# fetch DIR: downloads the package into DIR and unpacks it into DIR/root.
fetch() {
  private_apt "$1" promtool || return 1
  say "reading the package lists (nothing is installed into the system)"
  timeout -k 10 "$update_limit" apt-get -c "$1/apt.conf" -qq "${apt_net[@]}" update >&2 || return 1
  say "downloading the package prometheus"
  (cd "$1/debs" && timeout -k 10 "$download_limit" apt-get -c "$1/apt.conf" -qq "${apt_net[@]}" download prometheus >&2) || return 1
  dpkg -x "$1"/debs/prometheus_*.deb "$1/root"
}

main() {
  local tool
  cache=${VELOCITY_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or VELOCITY_CACHE}/.cache}/velocityd}
  tool=$cache/tools/promtool
  if type -P promtool; then return 0; fi
  if [[ ! -x $tool ]]; then
    type -P apt-get dpkg >/dev/null || die "no promtool here, and no apt-get to fetch it with; put promtool of Prometheus on PATH"
    mkdir -p "$cache/tools"
    tmp=$(mktemp -d "$cache/tools/tmp.XXXXXX")
    trap 'rm -rf "$tmp"' EXIT
    fetch "$tmp" || die "fetching it did not work; put promtool of Prometheus on PATH"
    "$tmp/root/usr/bin/promtool" --version >/dev/null || die "the package's promtool does not run here"
    mv -f "$tmp/root/usr/bin/promtool" "$tool"
  fi
  printf '%s\n' "$tool"
}

main "$@"
