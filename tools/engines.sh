#!/usr/bin/env bash
# Makes database engines available on a bare Debian or Ubuntu: `engines.sh any|mariadb|mysql|mariadb-10.11|mariadb-11.8 ...`.
#
#   mariadb  the distribution's mariadbd, as a package (binaries alone, no system service) where root or sudo can be
#            had, else unpacked into the cache.
#   mysql    a real mysqld, always unpacked into the cache, because its package and MariaDB's exclude each other.
#            Ubuntu has it in its own suites; for Debian it comes from the suite sid of the mirror in use.
#   mariadb-10.11, mariadb-11.8
#            a mariadbd of that series, unpacked into the cache unless one is here. For Debian it comes from the
#            release that has it; Ubuntu's own suites are tried, and refused if theirs is of another series.
#   any      whichever of mariadb and mysql is here already, else mariadb, else mysql.
#
# An engine that is found is left alone, without touching the network. Unpacked engines lie under the cache,
# ${VELOCITY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/velocityd}, and is started through engines/mysql/mysqld,
# engines/mariadb-11.8/mariadbd and so on; it brings its own C library, needs no root, and leaves with `rm -r`.
# apt verifies the signatures of downloads. Nothing here starts a server.
# shellcheck disable=SC2016 # apt's $(FIELD) and the wrappers' ${root} are not for this shell
set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
umask 022

readonly update_limit=300 download_limit=900 # seconds that one network step may take
readonly apt_net=(-o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30 -o DPkg::Lock::Timeout=120)
readonly system_dirs=(/usr/sbin /usr/bin /usr/libexec /usr/local/sbin /usr/local/bin /usr/local/libexec
  /usr/local/mysql/bin /usr/local/mariadb/bin /opt/mysql/bin /opt/mariadb/bin)

say() { printf 'engines: %s\n' "$*" >&2; }

die() {
  say "$@"
  exit 1
}

# candidates NAME...: every executable of these names, on PATH and in the usual places, one a line.
candidates() {
  local name dir
  for name in "$@"; do
    type -P "$name" || true
    for dir in "${system_dirs[@]}"; do
      if [[ -x $dir/$name ]]; then printf '%s\n' "$dir/$name"; fi
    done
  done
}

# family ENGINE and series ENGINE: mariadb-11.8 is of the family mariadb and the series 11.8; mysql is of any series.
family() { printf '%s' "${1%%-*}"; }
series() { [[ $1 != *-* ]] || printf '%s' "${1#*-}"; }

# server ENGINE: its program's name.
server() { if [[ $(family "$1") == mariadb ]]; then printf mariadbd; else printf mysqld; fi; }

# speaks PROGRAM ENGINE: whether PROGRAM runs and is that engine. /usr/sbin/mysqld may be a link to mariadbd.
speaks() {
  local text is=mysql wanted
  [[ -x $1 ]] || return 1
  text=$(timeout 20 "$1" --no-defaults --version 2>/dev/null) || return 1
  if [[ $text == *MariaDB* ]]; then is=mariadb; fi
  wanted=$(series "$2")
  [[ $is == "$(family "$2")" && $text == *" Ver ${wanted:+$wanted.}"[0-9]* ]]
}

# found ENGINE: prints the server's path, or fails.
found() {
  local program name
  name=$(server "$1")
  while read -r program; do
    if speaks "$program" "$1"; then
      printf '%s\n' "$program"
      return 0
    fi
  done < <(
    candidates "$name" mysqld
    printf '%s\n' "$cache/engines/$1/$name" "$cache/engines/$(family "$1")/$name"
  )
  return 1
}

# as_root: how to become root, in the array `become`; fails where neither root nor sudo can be had.
as_root() {
  become=()
  if ((EUID == 0)); then return 0; fi
  type -P sudo >/dev/null || return 1
  become=(sudo)
  if sudo -n true 2>/dev/null; then return 0; fi
  [[ -t 0 && -t 2 ]] || return 1
  say "sudo may ask for your password, to install packages"
  sudo -v
}

# newest PATTERN: the newest package name that apt knows and PATTERN (an extended regexp) matches whole.
newest() { apt-cache "${@:2}" pkgnames | grep -Ex "$1" | sort -V | tail -n 1 || true; }

# apt_as_root LIMIT ARGS...: apt-get as root with a time limit in seconds; 0: without one.
apt_as_root() {
  timeout --foreground -k 10 "$1" "${become[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C \
    apt-get -y -q "${apt_net[@]}" "${@:2}" >&2
}

# installable PATTERN: the package to install, once apt has a candidate for it; updates apt's lists only if it has none.
installable() {
  local name
  name=$(newest "$1")
  if [[ -z $name || $(apt-cache policy "$name") != *'Candidate: '[0-9]* ]]; then
    say "apt knows no candidate yet: apt-get update"
    apt_as_root "$update_limit" update || say "apt-get update had errors; going on with what it fetched"
    name=$(newest "$1")
  fi
  [[ -n $name ]] && printf '%s\n' "$name"
}

# install_packages PACKAGE...: the distribution's, unless that would remove others, such as an installed MySQL. Downloads under a
# time limit; dpkg itself is never interrupted.
install_packages() {
  local options=(--no-install-recommends --no-remove)
  type -P apt-get >/dev/null && as_root || return 1
  if ! apt_as_root "$download_limit" "${options[@]}" --download-only install "$@"; then
    say "the download failed; trying once more with fresh package lists"
    apt_as_root "$update_limit" update || say "apt-get update had errors; going on with what it fetched"
    apt_as_root "$download_limit" "${options[@]}" --download-only install "$@" || return 1
  fi
  apt_as_root 0 "${options[@]}" install "$@"
}

# install_mariadb: the server's binaries, without a system service.
install_mariadb() {
  local server
  server=$(installable 'mariadb-server-core(-[0-9.]+)?') || return 1
  say "installing $server and ${server/server/client}"
  install_packages "$server" "${server/server/client}"
}

# is_ubuntu: whether the distribution's own suites come from Ubuntu.
is_ubuntu() {
  [[ -r /etc/os-release ]] || return 1
  # shellcheck disable=SC1091
  [[ " $(. /etc/os-release && printf '%s' "${ID:-} ${ID_LIKE:-}") " == *' ubuntu '* ]]
}

# own_targets ORIGIN: "site release component label" of the machine's own archives of that origin. Where apt has no lists
# yet the origin is not known: then by the end of the address, which a third party's archive seldom shares.
own_targets() {
  local lines lower=${1,,}
  lines=$(apt-get indextargets --format '$(ORIGIN)|$(CREATED_BY)|$(SITE)|$(RELEASE)|$(COMPONENT)|$(LABEL)' 2>/dev/null |
    awk -F'|' -v o="$1" '$1 == o && $2 == "Packages" { print $3, $4, $5, $6 }' | sort -u || true)
  if [[ -z $lines ]]; then
    lines=$(apt-get indextargets --no-release-info --format '$(CREATED_BY)|$(SITE)|$(RELEASE)|$(COMPONENT)' 2>/dev/null |
      awk -F'|' -v o="$lower" '$1 == "Packages" && $2 ~ ("/" o "(-ports)?/?$") { print $2, $3, $4, "'"$1"'" }' | sort -u || true)
  fi
  grep -v '^cdrom:' <<<"$lines" | grep . || return 1
}

# keyring NAME: apt's signed-by option for a distribution's own keyring; without one, apt's trusted keys decide.
keyring() {
  local file
  for file in /usr/share/keyrings/"$1"-archive-keyring.{gpg,pgp}; do
    if [[ -r $file ]]; then
      printf 'signed-by=%s' "$file"
      return 0
    fi
  done
}

# suite ENGINE: the suite of Debian that ENGINE comes from; nothing means the machine's own. MySQL is in no release.
suite() {
  case $1 in
    mysql) printf sid ;;
    mariadb-10.11) printf bookworm ;;
    mariadb-11.8) printf trixie ;;
  esac
}

# source_lines ENGINE: the sources.list to take ENGINE from.
source_lines() {
  local site release component label option suite origin=Debian name=debian
  if is_ubuntu; then origin=Ubuntu name=ubuntu; else suite=$(suite "$1"); fi
  option="arch=$(dpkg --print-architecture) $(keyring "$name")"
  while read -r site release component label; do
    if [[ ${suite:-} ]]; then
      if [[ $label == Debian && $component == main ]]; then
        printf 'deb [%s] %s %s main\n' "$option" "$site" "$suite"
        return 0
      fi
    else
      printf 'deb [%s] %s %s %s\n' "$option" "$site" "$release" "$component"
    fi
  done < <(own_targets "$origin")
}

# private_apt DIR ENGINE: a private apt in DIR, with separate sources, lists and cache, as on a machine without packages.
private_apt() {
  mkdir -p "$1"/{state/lists/partial,cache/archives/partial,etc/parts,debs}
  : >"$1/status"
  source_lines "$2" >"$1/etc/sources.list"
  if [[ ! -s $1/etc/sources.list ]]; then
    say "apt has no Debian or Ubuntu archive configured, so there is nowhere to take $2 from"
    return 1
  fi
  cat >"$1/apt.conf" <<CONF
#clear APT::Update;
#clear DPkg::Post-Invoke;
#clear APT::Architectures;
APT::Architectures { "$(dpkg --print-architecture)"; };
APT::Default-Release "";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::IndexTargets::deb::CNF::DefaultEnabled "false";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
Dir::Etc::sourcelist "$1/etc/sources.list";
Dir::Etc::sourceparts "$1/etc/parts";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "$1/etc/parts";
Dir::State "$1/state";
Dir::State::lists "$1/state/lists";
Dir::State::status "$1/status";
Dir::Cache "$1/cache";
Dir::Cache::archives "$1/cache/archives";
Debug::NoLocking "true";
CONF
}

# closure DIR PACKAGES...: "name=version" of the packages and the libraries they need, learned by a simulated install on
# the empty machine. Perl, debconf and the like serve maintainer scripts, which never run here.
closure() {
  apt-get -c "$1/apt.conf" -s -q --no-install-recommends install "${@:2}" |
    sed -nE 's/^Inst ([^ ]+) \(([^ ]+) .*/\1=\2/p' |
    grep -E '^(lib|zlib1g|mysql|mariadb)' | grep -Ev '^(libperl|[^=]*-perl=|libpam|libdebconf)'
}

# fetch_root DIR ENGINE: downloads and unpacks ENGINE into DIR/root and leaves its version in DIR/version.
fetch_root() {
  local wanted package version deb
  private_apt "$1" "$2" || return 1
  say "reading the package lists for $2 (nothing is installed into the system)"
  timeout -k 10 "$update_limit" apt-get -c "$1/apt.conf" -qq "${apt_net[@]}" update >&2 || return 1
  package=$(newest "$(family "$2")-server-core(-[0-9.]+)?" -c "$1/apt.conf")
  wanted=$(closure "$1" "$package") || return 1
  version=$(sed -nE "s/^$package=([0-9]+:)?(.*)/\2/p" <<<"$wanted" | tr -c 'A-Za-z0-9.+~\n-' '_')
  if [[ $2 == *-* && $version != "$(series "$2")".* ]]; then
    say "the archive has $(family "$2") $version, which is not $2"
    return 1
  fi
  printf '%s\n' "$version" >"$1/version"
  say "downloading $(family "$2") $version: $(wc -l <<<"$wanted") packages"
  # shellcheck disable=SC2086 # one word a package
  (cd "$1/debs" && timeout -k 10 "$download_limit" apt-get -c "$1/apt.conf" -qq "${apt_net[@]}" download $wanted >&2) || return 1
  mkdir "$1/root"
  for deb in "$1"/debs/*.deb; do dpkg -x "$deb" "$1/root" || return 1; done
}

# loader_lines ROOT: the sh lines that set `root`, `loader` and `libs` in a wrapper two folders below the cache or ROOT.
loader_lines() {
  local loader triplet lib libs=
  loader=$(cd "$1" && find . -name 'ld*.so.[0-9]*' -path '*lib*' ! -path '*/share/*' | sort | head -n 1)
  [[ -n $loader ]] || return 1
  triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null ||
    basename "$(dirname "$(cd "$1" && find . -name 'libc.so.6' | head -n 1)")")
  for lib in "usr/lib/$triplet" "lib/$triplet" usr/lib lib; do
    if [[ -d $1/$lib ]]; then libs+="\${root}/$lib:"; fi
  done
  printf 'loader="${root}/%s"\nlibs="%s"\n' "${loader#./}" "${libs%:}"
}

# write_program FILE: makes FILE an executable with the text on stdin, in one step.
write_program() {
  mkdir -p "$(dirname "$1")"
  cat >"$1.$$"
  chmod 755 "$1.$$"
  mv -f "$1.$$" "$1"
}

# wrap_server ROOT SERVER: puts a wrapper in front of the server of ROOT, so that it runs with the libraries it came with.
wrap_server() {
  local lines
  lines=$(loader_lines "$1") || return 1
  mv "$1/usr/sbin/$2" "$1/usr/sbin/$2.bin" || return 1
  write_program "$1/usr/sbin/$2" <<WRAPPER
#!/bin/sh
# Written by engines.sh: starts the program beside it with the libraries it came with.
root=\$(CDPATH='' cd -- "\${0%/*}/../.." && pwd -P) || exit 1
$lines
exec "\$loader" --library-path "\$libs" "\$root/usr/sbin/$2.bin" "\$@"
WRAPPER
}

# missing_libraries ROOT SERVER: names the shared libraries that the server of ROOT would not find.
missing_libraries() {
  local root=$1 loader libs
  eval "$(loader_lines "$1")"
  "$loader" --library-path "$libs" --list "$root/usr/sbin/$2.bin" 2>&1 | grep -E '=> not found|cannot open|error while' || true
}

# write_entrance ENGINE FOLDER: the stable entrance of a server under engines/, which points at FOLDER of the cache.
write_entrance() {
  local share=usr/share/mysql first='' name
  name=$(server "$1")
  if [[ -d $cache/$2/usr/share/mariadb ]]; then share=usr/share/mariadb; fi
  if [[ $1 == mysql ]]; then first=' --mysqlx=OFF'; fi
  write_program "$cache/engines/$1/$name" <<SERVER
#!/bin/sh
# Written by engines.sh. A leading --no-defaults is taken and given again, because it has to be the first argument.
root=\$(CDPATH='' cd -- "\${0%/*}/../.." && pwd -P)/$2 || exit 1
if [ "\${1-}" = --no-defaults ]; then shift; fi
exec "\$root/usr/sbin/$name" --no-defaults --basedir="\$root/usr" --lc-messages-dir="\$root/$share" \\
  --character-sets-dir="\$root/$share/charsets" --plugin-dir="\$root/usr/lib/mysql/plugin" --secure-file-priv=$first "\$@"
SERVER
}

# unpack ENGINE: downloads ENGINE into the cache. The folder appears under its name only when it is complete and proven,
# and one run at a time works here, so neither a kill half-way nor a second run can leave a broken folder behind.
unpack() {
  local folder missing name
  name=$(server "$1")
  type -P apt-get dpkg >/dev/null || return 1
  mkdir -p "$cache"
  exec 9>"$cache/lock"
  if ! flock -n 9; then
    say "waiting for another run to finish"
    flock -w "$download_limit" 9 || die "another run has held $cache/lock for $download_limit s"
  fi
  if found "$1" >/dev/null; then return 0; fi
  rm -rf "$cache"/tmp.*
  tmp=$(mktemp -d "$cache/tmp.XXXXXX")
  trap 'rm -rf "$tmp"' EXIT
  fetch_root "$tmp" "$1" || return 1
  wrap_server "$tmp/root" "$name" || return 1
  missing=$(missing_libraries "$tmp/root" "$name")
  if [[ -n $missing ]]; then die "$1 was unpacked but lacks libraries: $missing"; fi
  folder=$1-$(<"$tmp/version")
  rm -rf "${cache:?}/$folder"
  mv -T "$tmp/root" "$cache/$folder"
  write_entrance "$1" "$folder"
  rm -rf "$tmp"
  flock -u 9
}

by_hand() {
  case $1 in
    mariadb) say "by hand: apt-get install mariadb-server-core mariadb-client-core (or put mariadbd on PATH)" ;;
    mysql) say "by hand: put a MySQL mysqld on PATH (/usr/sbin, /usr/local/mysql/bin and /opt/mysql/bin are searched too)" ;;
    *) say "by hand: put a mariadbd of MariaDB $(series "$1") on PATH (/usr/local/mariadb/bin and /opt/mariadb/bin are searched too)" ;;
  esac
}

# provide ENGINE: ENGINE is there afterwards, or this fails and says what to do.
provide() {
  local at become=()
  if at=$(found "$1"); then
    say "$1: $at"
    return 0
  fi
  if ! type -P apt-get >/dev/null; then
    say "no $1 here, and no apt-get to fetch it with"
  elif ! { [[ $1 == mariadb ]] && as_root && install_mariadb; }; then
    unpack "$1" || say "fetching $1 did not work"
  fi
  if at=$(found "$1"); then
    say "$1: $at"
    return 0
  fi
  by_hand "$1"
  return 1
}

provide_any() {
  local at
  if at=$(found mariadb) || at=$(found mysql); then
    say "engine: $at"
    return 0
  fi
  provide mariadb || provide mysql
}

main() {
  local engine failed=0 words='any|mariadb|mysql|mariadb-10.11|mariadb-11.8'
  if (($# == 0)); then die "usage: engines.sh $words ..."; fi
  cache=${VELOCITY_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or VELOCITY_CACHE}/.cache}/velocityd}
  for engine in "$@"; do
    case $engine in
      any) provide_any || failed=1 ;;
      mariadb | mysql | mariadb-10.11 | mariadb-11.8) provide "$engine" || failed=1 ;;
      *) die "unknown engine $engine: usage: engines.sh $words ..." ;;
    esac
  done
  return "$failed"
}

# tools/promtool.sh, browser.sh and install.sh take functions from here.
if [[ ${BASH_SOURCE[0]} == "$0" ]]; then main "$@"; fi
