#!/usr/bin/env bash
# Makes the gateways available that stand in front of velocityd in the tests of doors: `tools/doors.sh` prints the
# folder that has nginx, haproxy, caddy, freeradius, radclient, dovecot, doveadm, sshd, ssh, ssh-keygen, pamtester, fail2ban-server,
# fail2ban-client, crowdsec and cscli, and, built from source, caddy-module, traefik-forward, envoy-lint, grpcurl, ratelimit-client and
# kratos.
# `make test-doors` runs it.
#
# All but the last six come from the distribution's packages, which are unpacked and not installed: no system service starts, and
# nothing outside of the cache changes. Each is started through a small program in this folder, with the libraries that it
# came with. Dovecot and those behind it look for their parts at fixed paths, so they run as root, in a mount namespace that has them there.
# Debian's caddy is older than the one that people install today, so that one is built as well, in the version that
# tools/caddy/go.mod pins. Debian has neither Traefik nor Envoy: tools/traefik serves by Traefik's code, and tools/envoy reads Envoy's
# configuration. ratelimit-client is client_cmd of envoyproxy/ratelimit, in the version that the benchmark runs. tools/kratos is Ory
# Kratos, an application behind the proxy. Building them takes minutes once.
#
# All is kept in the cache, ${VELOCITY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/velocityd}/doors, under names that say of
# what it was made. `rm -r` removes it. Nothing here starts a server.
set -euo pipefail
shopt -s inherit_errexit
# shellcheck source=tools/engines.sh
source "$(dirname "${BASH_SOURCE[0]}")/engines.sh"

readonly packages=(nginx haproxy caddy freeradius freeradius-config freeradius-rest freeradius-utils dovecot-core dovecot-imapd
  openssh-server openssh-client pamtester fail2ban crowdsec crowdsec-custom-bouncer)
readonly programs=(usr/sbin/nginx usr/sbin/haproxy usr/bin/caddy usr/sbin/freeradius usr/bin/radclient)
readonly bound_programs=(usr/sbin/dovecot usr/bin/doveadm usr/sbin/sshd usr/bin/ssh usr/bin/ssh-keygen usr/bin/pamtester
  usr/bin/fail2ban-server usr/bin/fail2ban-client usr/bin/crowdsec usr/bin/cscli usr/bin/crowdsec-custom-bouncer)
readonly wait_limit=3600 # seconds that another run may take

say() { printf 'doors: %s\n' "$*" >&2; }

# needed DIR: "name=version" of the packages and the libraries that they need, learned by a simulated install on an empty
# machine. Perl, debconf and the like serve maintainer scripts, which never run here.
needed() {
  apt-get -c "$1/apt.conf" -s -q --no-install-recommends install "${packages[@]}" |
    sed -nE 's/^Inst ([^ ]+) \(([^ ]+) .*/\1=\2/p' |
    grep -E '^(lib|zlib1g|nginx|haproxy|caddy|freeradius|dovecot|openssh|pamtester|python3|fail2ban|crowdsec)' |
    grep -Ev '^(libperl|[^=]*-perl=|libpam|libdebconf|libsemanage)'
}

# unpack_packages DIR: downloads the packages and unpacks them into DIR/root.
unpack_packages() {
  local wanted deb
  private_apt "$1" "the gateways" || return 1
  say "reading the package lists (nothing is installed into the system)"
  timeout -k 10 "$update_limit" apt-get -c "$1/apt.conf" -qq "${apt_net[@]}" update >&2 || return 1
  wanted=$(needed "$1") || return 1
  say "downloading ${packages[*]}: $(wc -l <<<"$wanted") packages"
  # shellcheck disable=SC2086 # one word a package
  (cd "$1/debs" && timeout -k 10 "$download_limit" apt-get -c "$1/apt.conf" -qq "${apt_net[@]}" download $wanted >&2) || return 1
  mkdir "$1/root"
  for deb in "$1"/debs/*.deb; do dpkg -x "$deb" "$1/root" || return 1; done
}

# wrap ROOT PROGRAM: writes ROOT/bin/NAME, which runs the program with the libraries that it came with.
wrap() {
  local lines
  lines=$(loader_lines "$1") || return 1
  write_program "$1/bin/${2##*/}" <<WRAPPER
#!/bin/sh
# Written by doors.sh: starts a program of the packages beside it with the libraries it came with.
root=\$(CDPATH='' cd -- "\${0%/*}/.." && pwd -P) || exit 1
$lines
exec "\$loader" --library-path "\$libs:\$root/usr/lib/freeradius" "\$root/$2" "\$@"
WRAPPER
}

# wrap_bound ROOT PROGRAM: writes ROOT/bin/NAME, which runs the program in a mount namespace where the packages' files are at the
# paths that they would be installed at, in front of the machine's.
wrap_bound() {
  write_program "$1/bin/${2##*/}" <<WRAPPER
#!/bin/sh
# Written by doors.sh: runs a program of the packages beside it in a mount namespace that has them at their paths.
root=\$(CDPATH='' cd -- "\${0%/*}/.." && pwd -P) || exit 1
exec unshare --mount sh -ec '
  for part in lib bin; do mount -t overlay overlay -o "lowerdir=\$0/usr/\$part:/usr/\$part" "/usr/\$part"; done
  exec "\$@"' "\$root" "\$root/$2" "\$@"
WRAPPER
}

# provide_packages: the folder $folder is there afterwards. It appears under its name only when it is whole.
provide_packages() {
  local program
  if [[ -d $folder ]]; then return 0; fi
  type -P apt-get dpkg >/dev/null || die "no gateways here, and no apt-get to fetch them with"
  tmp=$(mktemp -d "$home/tmp.XXXXXX")
  trap 'rm -rf "$tmp"' EXIT
  unpack_packages "$tmp" || die "fetching the packages did not work"
  for program in "${programs[@]}"; do wrap "$tmp/root" "$program" || die "$program cannot be wrapped"; done
  for program in "${bound_programs[@]}"; do wrap_bound "$tmp/root" "$program"; done
  chmod 755 "$tmp/root"
  mv -T "$tmp/root" "$folder"
  rm -rf "$tmp"
  trap - EXIT
}

# in_module FOLDER COMMAND...: runs it in a module of tools. GOFLAGS and GOWORK of the user's speak of the project, not of this one.
in_module() { (cd "$1" && env GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0 GOOS= GOARCH= "${@:2}"); }

# made_of FOLDER: a word that is another one whenever the module in FOLDER or the Go that builds it is.
made_of() {
  printf '%s-%s' "$(in_module "$1" go env GOVERSION)" "$(find "$1" -type f | sort | xargs cat | cksum | cut -d' ' -f1)"
}

# provide PROGRAM MODULE PACKAGE [PREPARE]: links a program into the folder, after building it from the package of tools/MODULE if
# need be, in a copy of the module that the function PREPARE has completed.
provide() {
  local binary module=$tools/$2
  binary=$home/$1-$(made_of "$module")
  if [[ ! -x $binary ]]; then
    tmp=$(mktemp -d "$home/tmp.XXXXXX")
    trap 'rm -rf "$tmp"' EXIT
    cp -R "$module/." "$tmp"
    "${4:-true}" "$tmp"
    say "building $1 from source, once: this takes minutes"
    in_module "$tmp" nice go build -p 2 -trimpath -buildvcs=false -ldflags '-s -w' -o "$tmp/built" "$3" || die "building $1 did not work"
    mv -f "$tmp/built" "$binary"
    chmod -R u+w "$tmp"
    rm -rf "$tmp"
    trap - EXIT
  fi
  ln -sfn "$binary" "$folder/bin/$1"
}

# copy_lego DIR: makes DIR/lego, the module by which Traefik gets certificates, without its list of DNS providers: these bring the
# modules of a hundred companies, which no test of ours needs and some proxies do not serve.
copy_lego() {
  local version source
  version=$(awk '$1 == "github.com/go-acme/lego/v5" && $2 ~ /^v/ { print $2 }' "$1/go.mod")
  source=$(in_module "$1/ext" go mod download -json "github.com/go-acme/lego/v5@$version" | sed -nE 's/^\t"Dir": "(.*)",?$/\1/p') ||
    die "lego $version cannot be had"
  cp -R "$source" "$1/lego"
  chmod -R u+w "$1/lego"
  cat >"$1/lego/providers/dns/zz_gen_dns_providers.go" <<'GO'
package dns

import (
	"fmt"

	"github.com/go-acme/lego/v5/challenge"
)

// NewDNSChallengeProviderByName knows no provider.
func NewDNSChallengeProviderByName(name string) (challenge.Provider, error) {
	return nil, fmt.Errorf("no DNS provider %q in this build", name)
}
GO
}

main() {
  tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
  home=${VELOCITY_CACHE:-${XDG_CACHE_HOME:-${HOME:?set HOME or VELOCITY_CACHE}/.cache}/velocityd}/doors
  folder=$home/packages-$(printf '%s\n' "${packages[@]}" | cksum | cut -d' ' -f1)
  mkdir -p "$home"
  exec 9>"$home/lock"
  if ! flock -n 9; then
    say "waiting for another run to finish"
    flock -w "$wait_limit" 9 || die "another run has held $home/lock for $wait_limit s"
  fi
  rm -rf "$home"/tmp.*
  provide_packages
  provide caddy-module caddy github.com/caddyserver/caddy/v2/cmd/caddy
  provide envoy-lint envoy .
  provide grpcurl grpcurl github.com/fullstorydev/grpcurl/cmd/grpcurl
  provide ratelimit-client ../bench/rivals github.com/envoyproxy/ratelimit/src/client_cmd
  provide kratos kratos .
  provide traefik-forward traefik . copy_lego
  exec 9>&-
  printf '%s\n' "$folder/bin"
}

main "$@"
