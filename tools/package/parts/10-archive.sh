#!/usr/bin/env bash
# An archive of the program alone for each architecture, for systems without deb or rpm.
set -euo pipefail
for arch in $ARCHS; do
  folder=velocityd-$VERSION-linux-$arch
  mkdir -p "$WORK/archive/$folder"
  cp "$PROGRAMS/linux-$arch/velocityd" LICENSE README.md CHANGELOG.md "$WORK/archive/$folder/"
  tar -C "$WORK/archive" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u+rwX,go=rX \
    --format=ustar -c "$folder" | gzip -n -9 >"$OUT/$folder.tar.gz"
done
