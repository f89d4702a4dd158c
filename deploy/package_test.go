//go:build packages

package deploy_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// The version that the tests release, and the one to which they upgrade.
const (
	released = "0.2.0"
	upgraded = "0.2.1"
)

// files are the files of a release.
type files struct {
	folder  string
	upgrade string // the folder of the deb and the rpm of a later version
}

// path returns the file whose name matches the pattern, which must be one.
func (f files) path(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(f.folder, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s matches %q (%v), want one file", pattern, found, err)
	}
	return found[0]
}

// deb returns the deb for this machine.
func (f files) deb(t *testing.T) string {
	t.Helper()
	return f.path(t, "velocityd_*_"+runtime.GOARCH+".deb")
}

// rpm returns the rpm for this machine.
func (f files) rpm(t *testing.T) string {
	t.Helper()
	return f.path(t, "velocityd-*."+map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]+".rpm")
}

// shell runs a script in the folder of the project.
func shell(t *testing.T, script string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "bash",
		append([]string{"-euo", "pipefail", "-c", script, "test"}, args...)...)
	command.Dir = ".."
	output, err := command.CombinedOutput()
	return string(output), err
}

// mustShell is shell for a script that has to succeed.
func mustShell(t *testing.T, script string, args ...string) string {
	t.Helper()
	output, err := shell(t, script, args...)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, output)
	}
	return output
}

// copyTree makes a repository in folder from the files of this tree as they are, committed or not.
func copyTree(t *testing.T, folder string) {
	t.Helper()
	mustShell(t, `mkdir -p "$1"
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  if [[ -e $file ]]; then printf '%s\0' "$file"; fi
done | xargs -0 cp --parents -t "$1"
cd "$1"
git init --quiet --initial-branch main
git config user.name tests
git config user.email tests@velocityd.example`, folder)
}

// tag commits the changes in the repository and tags it as the release. The changelog has the day of the release, and
// released.txt its steps, if dated.
func tag(t *testing.T, folder string, dated bool) {
	t.Helper()
	if dated {
		dateChangelog(t, folder)
		mustShell(t, `"$1/tools/migrate-release.sh"`, folder)
	} else {
		mustShell(t, `sed -i -E "s/^## ($2) \(.*\)$/## Unreleased: \1/" "$1/CHANGELOG.md"
sed -i "/^# $2$/,\$d" "$1/migrations/released.txt"`, folder, released)
	}
	mustShell(t, `cd "$1"
git add --all
GIT_COMMITTER_DATE='2026-12-24T12:00:00Z' git commit --quiet --allow-empty --date '2026-12-24T12:00:00Z' --message release
git tag --force "v$2" >/dev/null`, folder, released)
}

func dateChangelog(t *testing.T, folder string) {
	t.Helper()
	mustShell(t, `sed -i -E "s/^## Unreleased: ($2)$/## \1 (2026-12-24)/" "$1/CHANGELOG.md"`, folder, released)
}

// TestTheReleaseOfThisTree makes a release of the files of this tree, which its parts look at and install.
func TestTheReleaseOfThisTree(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	f := files{folder: filepath.Join(folder, "files"), upgrade: filepath.Join(folder, "upgrade")}
	copyTree(t, filepath.Join(folder, "tree"))
	tag(t, filepath.Join(folder, "tree"), true)
	mustShell(t, `"$1/tree/tools/package/release.sh" "v$2" "$3"`, folder, released, f.folder)
	mustShell(
		t, `export WORK="$1/work" PROGRAMS="$1/programs" OUT="$2" ARCHS="$3" VERSION="$4" SOURCE_DATE_EPOCH=1800000000
mkdir -p "$WORK" "$OUT" "$PROGRAMS/linux-$3"
tar -xzf "$5" --strip-components=1 -C "$PROGRAMS/linux-$3"
cd "$1/tree" && tools/package/parts/20-packages.sh`, folder, f.upgrade, runtime.GOARCH, upgraded,
		f.path(t, "velocityd-*-linux-"+runtime.GOARCH+".tar.gz"))
	for name, part := range map[string]func(*testing.T, files){
		"has all files with their checksums":         wantFiles,
		"has a static program for each architecture": wantPrograms,
		"lists the modules of the program":           wantModules,
		"has the same files in the deb and the rpm":  wantSameContents,
		"leads a newcomer to the first answer":       newcomer,
		"is upgraded and removed without a trace":    lifeOfTheDeb,
		"is installed and removed by rpm":            lifeOfTheRPM,
		"has a unit that confines the service":       confinement,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(t, f)
		})
	}
}

func wantFiles(t *testing.T, f files) {
	t.Helper()
	names := strings.Fields(mustShell(t, `cd "$1" && ls`, f.folder))
	for _, want := range []string{
		"SHA256SUMS", "velocityd-0.2.0-linux-amd64.tar.gz", "velocityd-0.2.0-linux-arm64.tar.gz",
		"velocityd-0.2.0-linux-amd64.cdx.json", "velocityd-0.2.0-linux-arm64.cdx.json",
		"velocityd_0.2.0_amd64.deb", "velocityd_0.2.0_arm64.deb", "velocityd-0.2.0-1.x86_64.rpm",
		"velocityd-0.2.0-1.aarch64.rpm",
		"velocityd-0.2.0-linux-amd64-docker.tar", "velocityd-0.2.0-linux-arm64-docker.tar", "velocityd-0.2.0-oci.tar",
		"velocityd-0.2.0.tgz", "velocityd-0.2.0-py3-none-any.whl", "velocityd-node-0.2.0.tgz",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("there is no %s among %q", want, names)
		}
	}
	mustShell(t, `cd "$1" && sha256sum --check --strict SHA256SUMS`, f.folder)
	listed := strings.Count(mustShell(t, `cat "$1/SHA256SUMS"`, f.folder), "\n")
	if listed != len(names)-1 {
		t.Errorf("SHA256SUMS lists %d of %d files", listed, len(names)-1)
	}
}

func wantPrograms(t *testing.T, f files) {
	t.Helper()
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		program, err := elf.NewFile(bytes.NewReader(member(t, f.path(t, "velocityd-*-linux-"+arch+".tar.gz"), "velocityd")))
		if err != nil {
			t.Fatal(err)
		}
		if needed, _ := program.ImportedLibraries(); program.Machine != machine || len(needed) > 0 {
			t.Errorf("%s: it is for %s and needs %q", arch, program.Machine, needed)
		}
		if got := strings.TrimSpace(
			mustShell(t, `dpkg-deb --field "$1" Architecture`, f.path(t, "velocityd_*_"+arch+".deb"))); got != arch {
			t.Errorf("the deb for %s is for %s", arch, got)
		}
	}
}

// member returns a file of an archive, by its name without folders.
func member(t *testing.T, archive, name string) []byte {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for reader := tar.NewReader(unzipped); ; {
		header, err := reader.Next()
		if err != nil {
			t.Fatalf("%s has no %s: %v", archive, name, err)
		}
		if filepath.Base(header.Name) == name && header.Typeflag == tar.TypeReg {
			content, err := io.ReadAll(reader)
			if err != nil {
				t.Fatal(err)
			}
			return content
		}
	}
}

func wantModules(t *testing.T, f files) {
	t.Helper()
	driver := strings.TrimSpace(mustShell(t, `go list -m -f '{{.Version}}' github.com/go-sql-driver/mysql`))
	for _, arch := range []string{"amd64", "arm64"} {
		text, err := os.ReadFile(f.path(t, "velocityd-*-linux-"+arch+".cdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		var list struct {
			BOMFormat  string
			Metadata   struct{ Component struct{ Version string } }
			Components []struct{ Name, Version string }
		}
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		found := false
		for _, c := range list.Components {
			found = found || c.Name == "github.com/go-sql-driver/mysql" && c.Version == driver
		}
		if list.BOMFormat != "CycloneDX" || list.Metadata.Component.Version != "v"+released || !found {
			t.Errorf("%s: a list of the format %q for version %q, with the driver: %t", arch, list.BOMFormat,
				list.Metadata.Component.Version, found)
		}
	}
}

func wantSameContents(t *testing.T, f files) {
	t.Helper()
	m := newMachine(t)
	deb, rpm := m.putFile(f.deb(t)), m.putFile(f.rpm(t))
	zsh := strings.NewReplacer("zsh/vendor-completions", "zsh/site-functions")
	var inDeb []string
	for _, line := range m.lines("dpkg-deb --contents " + deb) {
		fields := strings.Fields(line)
		if name := strings.TrimPrefix(fields[5], "."); !strings.HasPrefix(fields[0], "d") {
			inDeb = append(inDeb, fields[0]+" "+fields[1]+" "+zsh.Replace(name))
		}
	}
	var inRPM []string
	for _, line := range m.lines("rpm -qp --qf '[%{FILEMODES:perms} %{FILEUSERNAME}/%{FILEGROUPNAME} %{FILENAMES}\n]' " +
		rpm) {
		if !strings.HasPrefix(line, "d") {
			inRPM = append(inRPM, line)
		}
	}
	slices.Sort(inDeb)
	slices.Sort(inRPM)
	if !slices.Equal(inDeb, inRPM) {
		t.Errorf("the deb has\n%s\nand the rpm\n%s", strings.Join(inDeb, "\n"), strings.Join(inRPM, "\n"))
	}
	for _, want := range []string{
		"-rwxr-xr-x root/root /usr/bin/velocityd", "-rw-r--r-- root/root /usr/lib/systemd/system/velocityd.service",
		"-rw-r--r-- root/root /etc/velocityd/velocityd.yaml",
		"-rw-r--r-- root/root /usr/share/bash-completion/completions/velocityd",
		"-rw-r--r-- root/root /usr/share/velocityd/prometheus/velocityd.rules.yml",
		"-rw-r--r-- root/root /usr/share/velocityd/gates.yaml",
		"-rw-r--r-- root/root /usr/share/doc/velocityd/docs/doors/nginx.md",
		"-rw-r--r-- root/root /usr/share/velocityd/doors/haproxy/velocity.lua",
		"-rw-r--r-- root/root /usr/share/velocityd/doors/envoy/grpc.yaml",
		"-rw-r--r-- root/root /usr/share/doc/velocityd/docs/operate.md",
		"-rw-r--r-- root/root /usr/share/doc/velocityd/copyright",
	} {
		if !slices.Contains(inDeb, want) {
			t.Errorf("the deb lacks %s", want)
		}
	}
	if got := m.run("rpm -qp --configfiles " + rpm); got != "/etc/velocityd/velocityd.yaml\n" {
		t.Errorf("the rpm's files of settings: %q", got)
	}
	if got := m.run("dpkg-deb --info " + deb + " conffiles"); got != "/etc/velocityd/velocityd.yaml\n" {
		t.Errorf("the deb's files of settings: %q", got)
	}
}

// TestAReleaseIsRefused shows that release.sh can refuse, before it builds and after.
func TestAReleaseIsRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	tree := filepath.Join(folder, "tree")
	copyTree(t, tree)
	want := func(said string, args ...string) {
		t.Helper()
		output, err := shell(t, `export ARCHS; ARCHS=$(go env GOARCH); "$1/tools/package/release.sh" "${@:2}"`,
			append([]string{tree}, args...)...)
		if err == nil || !strings.Contains(output, said) {
			t.Errorf("release.sh %q: %v, want %q in\n%s", args, err, said, output)
		}
		if _, err := os.Stat(filepath.Join(folder, "out")); err == nil {
			t.Errorf("release.sh %q has left files", args)
		}
	}
	out := filepath.Join(folder, "out")
	want("usage")
	want("usage", "0.2.0", out)
	want("there is no tag v0.2.0", "v0.2.0", out)
	tag(t, tree, false)
	want("is there already", "v0.2.0", tree)
	want("has no heading '## 0.2.0 (YEAR-MONTH-DAY)'", "v0.2.0", out)
	dateChangelog(t, tree)
	mustShell(t, `git -C "$1" commit --quiet --all --message day
git -C "$1" tag --force "v$2" >/dev/null`, tree, released)
	want("run make migrate-release before the tag", "v0.2.0", out)
	mustShell(
		t, `cd "$1/tools/package/parts" && rm -- * && printf '#!/bin/sh\nprintf x >"$OUT/velocityd-$VERSION-linux-amd64.tar.gz"\n' >1 &&
printf '#!/bin/sh\necho "$WORK" >"$OUT/random"\n' >2 && chmod +x 1 2`, tree)
	tag(t, tree, true)
	want("two runs have made different files", "v0.2.0", out)
	mustShell(
		t,
		`cd "$1" && rm tools/package/parts/2 && sed -i 's/^const release = .*/const release = "9.9.9"/' cmd/velocityd/version.go`, tree)
	tag(t, tree, true)
	want("calls itself by another version", "v0.2.0", out)
}
