#!/usr/bin/env bash
# The list of the modules in each program, in CycloneDX's JSON, read from the program itself.
set -euo pipefail
for arch in $ARCHS; do
  tools/package/tool.sh cyclonedx-gomod bin -json -std -noserial -notimestamp -version "v$VERSION" \
    -output "$OUT/velocityd-$VERSION-linux-$arch.cdx.json" "$PROGRAMS/linux-$arch/velocityd"
done
