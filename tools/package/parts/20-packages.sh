#!/usr/bin/env bash
# The deb and the rpm for each architecture, as deploy/packages/nfpm.yaml says.
set -euo pipefail
export STAGE=$WORK/stage ARCH PROGRAM
mkdir -p "$STAGE"
for shell in bash zsh fish; do cp "cmd/velocityd/completion/velocityd.$shell" "$STAGE/$shell"; done
for ARCH in $ARCHS; do
  PROGRAM=$PROGRAMS/linux-$ARCH/velocityd
  for packager in deb rpm; do
    tools/package/tool.sh nfpm package --config deploy/packages/nfpm.yaml --packager "$packager" --target "$OUT" >&2
  done
done
