#!/usr/bin/env bash
# Makes a small Debian in the cache, for the tests of the packages: `tools/debian-root.sh` prints its folder.
#
# It has systemd, the distribution's mariadb-server, curl and rpm, as an empty server of a newcomer would, and is the release
# of Debian or Ubuntu that this machine has. debootstrap makes it, in a minute or two; the distribution's package of it is
# unpacked beside, and nothing is installed into the system. It needs root, and leaves with `rm -r`. The tests write above a
# layer over it and change nothing in it.
set -euo pipefail
# shellcheck source=tools/engines.sh
source "$(dirname "${BASH_SOURCE[0]}")/engines.sh"

readonly packages=systemd,systemd-sysv,mariadb-server,curl,ca-certificates,rpm

say() { printf 'debian-root: %s\n' "$*" >&2; }

# suite: for private_apt, no other release than the machine's own.
suite() { :; }

# fetch_debootstrap DIR: downloads the package into DIR and unpacks it into DIR/root.
fetch_debootstrap() {
  private_apt "$1" debootstrap || return 1
  say "reading the package lists (nothing is installed into the system)"
  timeout -k 10 "$update_limit" apt-get -c "$1/apt.conf" -qq "${apt_net[@]}" update >&2 || return 1
  (cd "$1/debs" && timeout -k 10 "$download_limit" apt-get -c "$1/apt.conf" -qq "${apt_net[@]}" download debootstrap >&2) || return 1
  dpkg -x "$1"/debs/debootstrap_*.deb "$1/root"
}

# bootstrap DIR: makes the system in DIR/system.
bootstrap() {
  local origin=Debian name=debian components=main site release key
  if is_ubuntu; then origin=Ubuntu name=ubuntu components=main,universe; fi
  read -r site release _ < <(own_targets "$origin" | awk '$2 !~ /-/') || return 1
  key=$(keyring "$name")
  say "making a $origin $release with $packages, for a minute or two"
  "${become[@]}" env DEBOOTSTRAP_DIR="$1/root/usr/share/debootstrap" LC_ALL=C \
    timeout -k 10 "$download_limit" sh "$1/root/usr/sbin/debootstrap" --variant=minbase --components="$components" \
    --include="$packages" ${key:+--keyring="${key#signed-by=}"} "$release" "$1/system" "$site" >"$1/log" 2>&1 && return 0
  tail -n 20 "$1/log" >&2
  return 1
}

main() {
  local cache folder become=()
  cache=${VELOCITY_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or VELOCITY_CACHE}/.cache}/velocityd}
  # The checksum stands for the list of packages.
  folder=$cache/debian/$(cksum <<<"$packages" | cut -d' ' -f1)
  if [[ ! -d $folder ]]; then
    type -P apt-get dpkg wget >/dev/null || die "making a Debian needs apt-get, dpkg and wget"
    as_root || die "making a Debian needs root, or sudo without a password"
    mkdir -p "$cache/debian"
    exec 9>"$cache/debian/lock"
    flock -w "$download_limit" 9 || die "another run has held $cache/debian/lock for $download_limit s"
    if [[ ! -d $folder ]]; then make_root; fi
  fi
  printf '%s\n' "$folder"
}

# make_root: the folder appears under its name only when it is whole. Leavings of runs that were killed go.
make_root() {
  "${become[@]}" rm -rf --one-file-system "$cache"/debian/tmp.*
  tmp=$(mktemp -d "$cache/debian/tmp.XXXXXX")
  trap '"${become[@]}" rm -rf --one-file-system "$tmp"' EXIT
  fetch_debootstrap "$tmp" || die "fetching debootstrap did not work"
  bootstrap "$tmp" || die "debootstrap did not work, see above"
  "${become[@]}" rm -rf "$tmp/system/var/cache/apt/archives" "$tmp/system/var/lib/apt/lists"
  "${become[@]}" mkdir -p "$tmp/system/var/cache/apt/archives/partial" "$tmp/system/var/lib/apt/lists/partial"
  "${become[@]}" mv -T "$tmp/system" "$folder"
}

main "$@"
