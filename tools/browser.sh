#!/usr/bin/env bash
# Makes a browser and Node available for the tests of the console: `tools/browser.sh` prints where Chromium is. `make test-console`
# runs it.
#
# Programs that are here are left alone, without touching the network. Otherwise the packages of Debian or Ubuntu are
# installed, which needs root or sudo. CHROMIUM names another one.
set -euo pipefail
# shellcheck source=tools/engines.sh
source "$(dirname "${BASH_SOURCE[0]}")/engines.sh"

say() { printf 'browser: %s\n' "$*" >&2; }

# found prints the first browser that is here.
found() {
  local all
  all=$(type -P "${CHROMIUM:-chromium}" chromium-browser google-chrome-stable google-chrome) || true # each that is missing is a failure
  printf '%s' "${all%%$'\n'*}"
}

# install PACKAGE...: installs packages of the distribution.
install() {
  say "installing $*"
  install_packages "$@" || die "installing $* did not work: install it, and try again"
}

main() {
  if ! type -P node npm >/dev/null; then install nodejs npm; fi
  if [[ -z $(found) ]]; then install chromium fonts-dejavu-core fonts-liberation; fi
  found
}

main "$@"
