#!/usr/bin/env bash
# Runs tsc, the compiler of TypeScript, in the version that package.json beside this file pins: `tools/typescript/tsc.sh --strict x.ts`.
# npm installs it here at its first use.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
if [[ $here/package-lock.json -nt $here/node_modules/.package-lock.json ]]; then
  npm ci --prefix "$here" --ignore-scripts --no-audit --no-fund --silent
fi
exec "$here/node_modules/.bin/tsc" "$@"
