#!/usr/bin/env bash
# Makes Django available for the tests of client/python: `tools/django.sh` prints a folder for PYTHONPATH.
#
# The distribution's packages are unpacked into the cache, ${VELOCITY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/velocityd}/tools. They are
# pure Python, so any Python 3 runs them.
set -euo pipefail
# shellcheck source=tools/engines.sh
source "$(dirname "${BASH_SOURCE[0]}")/engines.sh"

say() { printf 'django: %s\n' "$*" >&2; }

packages=(python3-django python3-asgiref python3-sqlparse python3-tz)

# fetch DIR: downloads the packages into DIR and unpacks them into DIR/root.
fetch() {
  local deb
  private_apt "$1" django || return 1
  say "reading the package lists (nothing is installed into the system)"
  timeout -k 10 "$update_limit" apt-get -c "$1/apt.conf" -qq "${apt_net[@]}" update >&2 || return 1
  say "downloading ${packages[*]}"
  (cd "$1/debs" && timeout -k 10 "$download_limit" apt-get -c "$1/apt.conf" -qq "${apt_net[@]}" download "${packages[@]}" >&2) || return 1
  for deb in "$1"/debs/*.deb; do dpkg -x "$deb" "$1/root"; done
}

main() {
  local folder
  cache=${VELOCITY_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or VELOCITY_CACHE}/.cache}/velocityd}
  folder=$cache/tools/django
  if [[ ! -d $folder ]]; then
    type -P apt-get dpkg >/dev/null || die "no apt-get here to fetch Django with"
    mkdir -p "$cache/tools"
    tmp=$(mktemp -d "$cache/tools/tmp.XXXXXX")
    trap 'rm -rf "$tmp"' EXIT
    fetch "$tmp" || die "fetching it did not work"
    mv -T "$tmp/root/usr/lib/python3/dist-packages" "$folder"
  fi
  printf '%s\n' "$folder"
}

main "$@"
