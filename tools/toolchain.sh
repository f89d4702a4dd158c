#!/usr/bin/env bash
# Fails with what to do if there is no Go as new as go.mod wants.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
need=$(awk '$1 == "go" { print $2; exit }' go.mod)
if ! type -P go >/dev/null; then
  echo "make: Go $need or newer is needed, and there is no go on PATH" >&2
  exit 1
fi
have=$(go env GOVERSION | sed -nE 's/.*go([0-9.]+).*/\1/p') || true
if ! printf '%s\n' "$need" "${have:-0}" | sort -V -C; then
  echo "make: Go $need or newer is needed, and $(type -P go) is ${have:-older, or could not fetch it}" >&2
  exit 1
fi
