#!/usr/bin/env bash
# Writes the step that installs the procedures, triggers and views as they are now: a new one, unless the newest step is such a
# step already and is not released yet (released.txt). That one is rewritten: a database that has it takes the new texts all the
# same, since migrate up compares each of them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../migrations"
newest=$(ls | sed -nE '/^[0-9]{6}_.*\.up\.sql$/p' | sort | tail -n 1)
digest=$(LC_ALL=C; sha256sum procedures/*.sql triggers/*.sql views/*.sql retired.txt | sha256sum | cut -d ' ' -f 1)
if [[ $(grep -h '^-- routines sha256: ' *.up.sql | tail -n 1) == *$digest ]]; then
  echo 'migrations: nothing has changed'
  exit 0
fi
if [[ $(<"$newest") != '-- routines sha256: '* ]] || grep -q "  $newest\$" released.txt; then
  newest=$(printf '%06d' $((10#${newest:0:6} + 1)))_routines.up.sql
fi
printf -- '-- routines sha256: %s\n' "$digest" >"$newest"
echo "migrations/$newest"
