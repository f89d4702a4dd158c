#!/usr/bin/env bash
# Runs a tool of go.mod beside this file in the folder that it is started in: `tools/package/tool.sh nfpm ARGS`. Go builds it
# at its first use, for a minute, and keeps it in its cache.
set -euo pipefail
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
exec env GOWORK=off GOFLAGS='-mod=readonly -trimpath -buildvcs=false' GOOS= GOARCH= CGO_ENABLED=0 \
  go tool -modfile="$tools/go.mod" "$@"
