#!/usr/bin/env bash
# Runs the program of a module in this folder, in the folder that it is started in: `tools/module.sh chart render …`. The
# modules are apart so that their dependencies never meet the project's. Go builds the program at its first use, for minutes,
# and keeps the parts in its cache.
set -euo pipefail
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
name=$1
shift
(cd "$tools/$name" && env -u GOROOT GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0 GOOS= GOARCH= \
  go build -trimpath -buildvcs=false -o "$build/$name" .)
"$build/$name" "$@"
