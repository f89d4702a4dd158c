#!/usr/bin/env bash
# Makes all files of one version from its tag, twice, and compares them: `tools/package/release.sh TAG FOLDER`.
#
# The tag, such as v0.1.0, is checked out twice in temporary folders, so nothing of the folder of work comes in. The files
# are in FOLDER only if both runs made the same bytes, if the program calls itself by the tag, and if CHANGELOG.md has the
# version with its day, and released.txt its steps. It publishes nothing.
set -euo pipefail
shopt -s inherit_errexit

die() {
  printf 'release: %s\n' "$*" >&2
  exit 1
}

main() {
  local tag=${1:-} out=${2:-} tree version turn
  [[ $tag =~ ^v[0-9]+\.[0-9]+\.[0-9]+$ && $out ]] || die "usage: release.sh v1.2.3 FOLDER (make release TAG=v1.2.3)"
  version=${tag#v}
  tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
  git -C "$tree" rev-parse --quiet --verify "refs/tags/$tag" >/dev/null || die "there is no tag $tag: git tag $tag"
  if [[ -e $out ]]; then die "$out is there already: remove it, or name another folder"; fi
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  for turn in first second; do
    git clone --quiet --branch "$tag" -c advice.detachedHead=false -- "$tree" "$work/$turn" || die "checking out $tag did not work"
    grep -Eq "^## $version \([0-9]{4}-[0-9]{2}-[0-9]{2}\)$" "$work/$turn/CHANGELOG.md" ||
      die "CHANGELOG.md of $tag has no heading '## $version (YEAR-MONTH-DAY)'"
    grep -qx "# $version" "$work/$turn/migrations/released.txt" ||
      die "migrations/released.txt of $tag has not the steps of $version: run make migrate-release before the tag"
    env -u VERSION -u SOURCE_DATE_EPOCH "$work/$turn/tools/package/package.sh" "$work/$turn-files"
    [[ -e $work/$turn-files/velocityd-$version-linux-amd64.tar.gz ]] ||
      die "the program of $tag calls itself by another version: make the tag's commit say $version in cmd/velocityd/version.go"
  done
  diff -rq "$work/first-files" "$work/second-files" >&2 || die "two runs have made different files, see above"
  mkdir -p "$(dirname "$out")"
  mv -T "$work/first-files" "$out"
  printf 'release: %s\n' "$out"
}

main "$@"
