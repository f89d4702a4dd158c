#!/usr/bin/env bash
# The Helm chart, whose version is the program's.
set -euo pipefail
tools/module.sh chart pack -version "$VERSION" -out "$OUT" deploy/helm/velocityd >/dev/null
