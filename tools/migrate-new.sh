#!/usr/bin/env bash
# migrate-new.sh NAME: makes the two files of a new step of the tables, with the next number.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
name=${1:-}
if [[ ! $name =~ ^[a-z][a-z0-9]*(_[a-z0-9]+)*$ ]]; then
  echo 'migrate-new: give a name of small letters, digits and single underscores: make migrate-new NAME=zone_master_shadow' >&2
  exit 2
fi
last=$(ls migrations | sed -nE 's/^([0-9]{6})_.*\.sql$/\1/p' | sort | tail -n 1)
file=migrations/$(printf '%06d' $((10#$last + 1)))_$name
printf -- '-- One statement, which brings the tables one step on. Why it is wanted belongs here.\n' >"$file.up.sql"
printf -- '-- One statement, which takes %s back.\n' "${file##*/}" >"$file.down.sql"
echo "$file.up.sql"
echo "$file.down.sql"
