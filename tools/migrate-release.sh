#!/usr/bin/env bash
# Before a version is tagged: adds its new steps to migrations/released.txt, from where on they never change, and keeps its
# procedures, triggers and views in migrations/testdata, so that a test can make its schema and upgrade it. The version is
# that of cmd/velocityd/version.go. Until the tag it can be run again.
set -euo pipefail
shopt -s inherit_errexit
export LC_ALL=C TZ=UTC
cd "$(dirname "${BASH_SOURCE[0]}")/../migrations"
list=released.txt
version=$(sed -nE 's/^const release = "(.*)"$/\1/p' ../cmd/velocityd/version.go)
touch "$list"
sed -i "/^# ${version//./\\.}\$/,\$d" "$list" # of an earlier run
if [[ -s $list ]] && ! sha256sum --check --quiet "$list"; then
  echo 'migrate-release: a released step was changed, see above: take that back, and write a new step by make migrate-new' >&2
  exit 1
fi
new=$(for step in [0-9]*.sql; do grep -q "  $step\$" "$list" || echo "$step"; done)
echo "# $version" >>"$list"
[[ -z $new ]] || sha256sum $new >>"$list"
mkdir -p testdata
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rw,go=r,a+X --format=ustar -c \
  procedures/*.sql retired.txt triggers/*.sql views/*.sql | gzip -n -9 >"testdata/$version.tar.gz"
echo "migrations/$list"
echo "migrations/testdata/$version.tar.gz"
