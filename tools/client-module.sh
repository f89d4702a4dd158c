#!/usr/bin/env bash
# Makes a module of package client and of what it needs, for programs that must get no other dependency: client-module.sh FOLDER.
# The folder must not exist. A test makes the module and builds it.
set -euo pipefail

# The module's path begins with the host from which it is served.
HOST=velocityd.example

target=${1:?'usage: client-module.sh FOLDER'}
mkdir "$target"
target=$(cd "$target" && pwd)
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."

go list -deps -f '{{if and .Module .Module.Main}}{{.ImportPath}}{{end}}' ./client ./client/fake | while read -r room; do
	room=${room#velocityd/}
	mkdir -p "$target/$room"
	find "$room" -maxdepth 1 -type f ! -name '*_test.go' -exec cp {} "$target/$room/" \;
done
cp client/fake/*_test.go "$target/client/fake/"
cp LICENSE "$target/"
find "$target" -name '*.go' -exec sed -i "s#\"velocityd/#\"$HOST/velocityd/#" {} +

version=$(go list -m -f '{{.Version}}' golang.org/x/text)
printf 'module %s/velocityd\n\ngo %s\n\nrequire golang.org/x/text %s\n' \
	"$HOST" "$(go list -m -f '{{.GoVersion}}')" "$version" >"$target/go.mod"
grep "^golang.org/x/text $version" go.sum >"$target/go.sum"
