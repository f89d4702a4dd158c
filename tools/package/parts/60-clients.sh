#!/usr/bin/env bash
# The clients in Python and TypeScript: a wheel for pip, and a package for npm. Their version is the release of their own files.
set -euo pipefail
for program in python3 node npm; do
  type -P "$program" >/dev/null || { printf 'package: the clients need %s to be packed\n' "$program" >&2; exit 1; }
done
python3 client/python/wheel_builder.py "$OUT" >/dev/null
mkdir -p "$WORK/typescript"
tools/typescript/tsc.sh -p client/typescript --outDir "$WORK/typescript"
cp client/typescript/package.json client/typescript/README.md LICENSE "$WORK/typescript/"
# The chart has the name that npm gives.
(cd "$WORK/typescript" && npm pack --silent --ignore-scripts >/dev/null && for file in *.tgz; do mv "$file" "$OUT/${file/velocityd-/velocityd-node-}"; done)
