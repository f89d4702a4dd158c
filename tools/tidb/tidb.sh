#!/usr/bin/env bash
# Builds and runs TiDB's server on this machine, to develop and test on: `tidb.sh build|serve|with COMMAND …`.
#
#   build                 makes tidb-server, in the version that go.mod beside this file pins, and prints where it is
#   serve                 runs one until it is interrupted, and prints its DSN; what it stores stays in its folder
#   with COMMAND …        runs a command beside one in a temporary folder, which ends with the command; the environment
#                         of the command has its DSN, without a database, as VELOCITY_CLUSTER_DSN and VELOCITY_TEST_DSN
#
# It is one tidb-server on its embedded store: the SQL of TiDB without the distribution of TiKV. It listens on loopback
# alone and takes root without a password.
#
#   TIDB_PORT             its port; 14000 for serve, a free one for with
#   TIDB_FOLDER           where serve keeps its data; the folder tidb/data of the cache if nothing is said
#
# The server is built from source at its first use, for four minutes on two cores, and kept in the cache,
# ${VELOCITY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/velocityd}/tidb, under a name that says what it was built from and with.
# TiDB 8.5 must be built with Go 1.25. Where there is none, the one of Debian's trixie-backports, or of Ubuntu's own
# suites, is unpacked into the cache as well.
set -euo pipefail
shopt -s inherit_errexit
# shellcheck source=tools/engines.sh
source "$(dirname "${BASH_SOURCE[0]}")/../engines.sh"

readonly go_series=1.25 tidb_version=v8.5.6

say() { printf 'tidb: %s\n' "$*" >&2; }

# suite: for private_apt, where Debian has that Go.
suite() { printf trixie-backports; }

# found_go: prints a Go of the series that is here already, or fails.
found_go() {
  local program
  while read -r program; do
    if [[ $(GOTOOLCHAIN=local "$program" version 2>/dev/null) == "go version go$go_series"[.\ ]* ]]; then
      printf '%s\n' "$program"
      return 0
    fi
  done < <(
    type -P "go$go_series" go || true
    printf '%s\n' "/usr/lib/go-$go_series/bin/go" "$home/go-$go_series/usr/lib/go-$go_series/bin/go"
  )
  return 1
}

# fetch_go DIR: downloads that Go into DIR and unpacks it into DIR/root.
fetch_go() {
  private_apt "$1" "Go $go_series" || return 1
  say "reading the package lists for Go $go_series (nothing is installed into the system)"
  timeout -k 10 "$update_limit" apt-get -c "$1/apt.conf" -qq "${apt_net[@]}" update >&2 || return 1
  say "downloading Go $go_series, to build TiDB with"
  (cd "$1/debs" && timeout -k 10 "$download_limit" apt-get -c "$1/apt.conf" -qq "${apt_net[@]}" \
    download "golang-$go_series-go" "golang-$go_series-src" >&2) || return 1
  mkdir "$1/root"
  for deb in "$1"/debs/*.deb; do dpkg -x "$deb" "$1/root" || return 1; done
}

# provide_go: prints where a Go of the series is, after fetching it if need be.
provide_go() {
  local by_hand="put go$go_series on PATH"
  if found_go; then return 0; fi
  type -P apt-get dpkg >/dev/null || die "no Go $go_series here, and no apt-get to fetch it with; $by_hand"
  tmp=$(mktemp -d "$home/tmp.XXXXXX")
  trap 'rm -rf "$tmp"' EXIT
  fetch_go "$tmp" || die "fetching Go $go_series did not work; $by_hand"
  rm -rf "$home/go-$go_series"
  mv -T "$tmp/root" "$home/go-$go_series"
  rm -rf "$tmp"
  trap - EXIT
  found_go || die "the package's Go $go_series does not run here; $by_hand"
}

# in_module COMMAND...: runs it in the module of this folder. GOFLAGS and GOWORK of the user's speak of the project.
in_module() { (cd "$here" && env -u GOROOT GOWORK=off GOFLAGS=-mod=readonly GOTOOLCHAIN=local CGO_ENABLED=0 GOOS= GOARCH= "$@"); }

# build: prints where tidb-server is, after building it if need be. One run at a time builds, and the file appears under
# its name only when it is whole.
build() {
  local name go binary
  mkdir -p "$home"
  name=tidb-server-$tidb_version-$(cat "$here"/go.{mod,sum} | cksum | cut -d' ' -f1)
  binary=$home/$name/tidb-server
  exec 9>"$home/lock"
  flock -n 9 || { say "waiting for another run to finish" && flock 9; }
  if [[ ! -x $binary ]]; then
    rm -rf "$home"/tmp.*
    go=$(provide_go)
    say "building tidb-server $tidb_version from source, once; it takes minutes"
    in_module nice "$go" build -p 2 -trimpath -buildvcs=false -o "$home/tmp.build/tidb-server" \
      -ldflags "-s -w -X github.com/pingcap/tidb/pkg/parser/mysql.TiDBReleaseVersion=$tidb_version" \
      github.com/pingcap/tidb/cmd/tidb-server || die "building it did not work"
    "$home/tmp.build/tidb-server" -V >/dev/null 2>&1 || die "the built program does not run here"
    mv -T "$home/tmp.build" "$home/$name"
  fi
  exec 9>&-
  printf '%s\n' "$binary"
}

# answers PORT: whether something listens there.
answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# free_port: prints a port on which nothing listens, below those that the system gives to clients.
free_port() {
  local port
  for _ in {1..50}; do
    port=$((20000 + RANDOM % 10000))
    if ! answers "$port"; then
      printf '%s\n' "$port"
      return 0
    fi
  done
  die "no free port between 20000 and 30000"
}

# start PORT FOLDER: starts a server, whose process id is then in `server_pid`, and returns once it takes connections.
start() {
  local binary
  binary=$(build)
  if answers "$1"; then die "something listens on port $1 already: set TIDB_PORT"; fi
  mkdir -p "$2"/{data,tmp}
  # Only a server whose data is new reads this. Without the first, TiDB reads CHECK constraints and forgets them.
  printf '%s\n' 'SET GLOBAL tidb_enable_check_constraint = ON;' 'CREATE DATABASE velocityd;' >"$2/first.sql"
  "$binary" --store unistore --path "$2/data" --temp-dir "$2/tmp" --initialize-sql-file "$2/first.sql" \
    --host 127.0.0.1 -P "$1" --socket '' --report-status=false -L warn --log-file "$2/tidb.log" \
    --log-slow-query "$2/slow.log" >"$2/tidb.out" 2>&1 &
  server_pid=$!
  for _ in {1..600}; do
    if answers "$1"; then return 0; fi
    kill -0 "$server_pid" 2>/dev/null || break
    sleep 0.1
  done
  tail -n 5 "$2/tidb.out" "$2/tidb.log" >&2 || true
  stop
  die "tidb-server did not start; its output is in $2"
}

# stop: ends the server that start started.
stop() {
  if [[ ${server_pid:-} ]]; then
    kill -TERM "$server_pid" 2>/dev/null || true
    wait "$server_pid" 2>/dev/null || true
    server_pid=
  fi
}

dsn() { printf 'root@tcp(127.0.0.1:%s)/%s' "$1" "$2"; }

serve() {
  local port=${TIDB_PORT:-14000} folder=${TIDB_FOLDER:-$home/data}
  trap stop EXIT
  trap 'exit 0' INT TERM
  start "$port" "$folder"
  say "serving, with its data in $folder; interrupt to stop"
  printf '%s\n' "$(dsn "$port" velocityd)"
  wait "$server_pid" || die "tidb-server ended by itself; its output is in $folder"
}

# with COMMAND ...: exits as the command does.
with() {
  local port dsn status=0
  port=${TIDB_PORT:-$(free_port)}
  folder=$(mktemp -d "${TMPDIR:-/tmp}/velocityd-tidb.XXXXXX")
  trap 'stop; rm -rf "$folder"' EXIT
  trap 'exit 130' INT TERM
  start "$port" "$folder"
  dsn=$(dsn "$port" '')
  VELOCITY_CLUSTER_DSN=$dsn VELOCITY_TEST_DSN=$dsn "$@" || status=$?
  return "$status"
}

main() {
  local usage='usage: tidb.sh build|serve|with COMMAND ...'
  here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
  home=${VELOCITY_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or VELOCITY_CACHE}/.cache}/velocityd}/tidb
  case ${1:-} in
    build) build ;;
    serve) serve ;;
    with)
      (($# > 1)) || die "$usage"
      with "${@:2}"
      ;;
    *) die "$usage" ;;
  esac
}

main "$@"
