#!/usr/bin/env bash
# The container images: a file for `docker load` for each architecture, and an OCI layout with all.
set -euo pipefail
programs=()
for arch in $ARCHS; do programs+=("$PROGRAMS/linux-$arch/velocityd"); done
tools/module.sh image -tree "$TREE" -out "$OUT" -version "$VERSION" "${programs[@]}" >/dev/null
