#!/usr/bin/env bash
# Prints the path of a redis-server: the one on PATH, or else the distribution's package, downloaded by apt and unpacked
# into the cache, ${VELOCITY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/velocityd}. Nothing is installed into the system, no
# root is needed, and no service is started. The unpacked files leave with `rm -r`.
set -euo pipefail
export LC_ALL=C

readonly limit=180 # seconds that the download may take

die() {
  printf 'redis.sh: %s\n' "$*" >&2
  exit 1
}

# fetch DIR: downloads redis-server and the libraries that this machine lacks, and unpacks them into DIR/root.
fetch() {
  local wanted deb
  type -P apt-get dpkg >/dev/null || die "no redis-server on PATH, and no apt-get to fetch it with"
  wanted=$(apt-get -s -q --no-install-recommends install redis-server 2>/dev/null |
    sed -nE 's/^Inst ((lib|redis)[^ ]*) .*/\1/p') || true
  [[ $wanted == *redis-server* ]] || die "apt has no candidate for redis-server; apt-get update may help, or put redis-server on PATH"
  mkdir "$1/debs" "$1/root"
  # shellcheck disable=SC2086 # one word a package
  (cd "$1/debs" && timeout -k 10 "$limit" apt-get -qq download $wanted >&2) || die "downloading redis-server did not work"
  for deb in "$1"/debs/*.deb; do dpkg -x "$deb" "$1/root"; done
  rm -r "$1/debs"
  cat >"$1/redis-server" <<'WRAPPER'
#!/bin/sh
# Written by redis.sh: starts the program with the libraries it came with.
root=$(CDPATH='' cd -- "${0%/*}" && pwd -P)/root || exit 1
for dir in "$root"/usr/lib/*-linux-*; do
  LD_LIBRARY_PATH="$dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
done
export LD_LIBRARY_PATH
exec "$root/usr/bin/redis-server" "$@"
WRAPPER
  chmod 755 "$1/redis-server"
  "$1/redis-server" --version >&2 || die "the redis-server that was unpacked does not start"
}

main() {
  local cache program fresh
  if program=$(type -P redis-server); then
    printf '%s\n' "$program"
    return
  fi
  cache=${VELOCITY_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or VELOCITY_CACHE}/.cache}/velocityd}
  if [[ ! -x $cache/redis/redis-server ]]; then
    mkdir -p "$cache"
    fresh=$(mktemp -d "$cache/redis.XXXXXX")
    # shellcheck disable=SC2064 # this folder, now
    trap "rm -rf '$fresh'" EXIT
    chmod 755 "$fresh"
    fetch "$fresh"
    # The folder appears under its name only when it is complete; of two runs at once the first wins.
    mv -T "$fresh" "$cache/redis" 2>/dev/null || [[ -x $cache/redis/redis-server ]] || die "cannot write $cache/redis"
  fi
  printf '%s\n' "$cache/redis/redis-server"
}

main "$@"
