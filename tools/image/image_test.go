package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// buildPrograms builds a small static program for each architecture, because velocityd itself would take minutes.
func buildPrograms(t *testing.T) (paths []string) {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module small\n\ngo 1.26.0\n", "main.go": "package main\n\nfunc main() {}\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, architecture := range []string{"arm64", "amd64"} {
		path := filepath.Join(folder, architecture)
		build(t, folder, path, "GOARCH="+architecture, "CGO_ENABLED=0")
		paths = append(paths, path)
	}
	return paths
}

func build(t *testing.T, folder, path string, env ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", path, ".")
	cmd.Dir, cmd.Env = folder, append(append(os.Environ(), "GOFLAGS=", "GOWORK=off", "GOOS=linux"), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// makeImages carries out the command, and returns the folder of the images and their names.
func makeImages(t *testing.T, programs []string) (folder string, made []string) {
	t.Helper()
	folder = t.TempDir()
	var out bytes.Buffer
	if err := run(append([]string{"-tree", "../..", "-out", folder, "-version", "1.2.3+dirty"}, programs...),
		&out); err != nil {
		t.Fatal(err)
	}
	return folder, strings.Fields(out.String())
}

func TestTheSameProgramsMakeTheSameBytes(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1764115200")
	programs := buildPrograms(t)
	sums := func() map[string][32]byte {
		_, made := makeImages(t, programs)
		all := map[string][32]byte{}
		for _, path := range made {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all[filepath.Base(path)] = sha256.Sum256(text)
		}
		slices.Reverse(programs)
		return all
	}
	first, second := sums(), sums()
	if len(first) != 3 {
		t.Errorf("made %d files, want 3", len(first))
	}
	for name, sum := range first {
		if second[name] != sum {
			t.Errorf("%s has other bytes the second time", name)
		}
	}
}

func TestTheLayoutHasAnImageForEachArchitecture(t *testing.T) {
	t.Parallel()
	folder, _ := makeImages(t, buildPrograms(t))
	index := readOCI(t, filepath.Join(folder, "velocityd-1.2.3+dirty-oci.tar"))
	if err := validate.Index(index); err != nil {
		t.Fatal(err)
	}
	top, err := index.IndexManifest()
	if err != nil || len(top.Manifests) != 1 ||
		top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "1.2.3-dirty" {
		t.Fatalf("got %+v (%v), want one index under the version", top, err)
	}
	nested, err := index.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	images, err := nested.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, found := range images.Manifests {
		platforms = append(platforms, found.Platform.String())
	}
	want, title := []string{"linux/amd64", "linux/arm64"}, images.Annotations["org.opencontainers.image.title"]
	if !slices.Equal(platforms, want) || title != "velocityd" {
		t.Errorf("got %q and %v, want %q", platforms, images.Annotations, want)
	}
}

// readOCI unpacks a layout and reads it.
func readOCI(t *testing.T, path string) v1.ImageIndex {
	t.Helper()
	folder := t.TempDir()
	for name, text := range readArchive(t, path) {
		file := filepath.Join(folder, filepath.Clean("/"+name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	found, err := layout.FromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	index, err := found.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func readArchive(t *testing.T, path string) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return entriesOf(t, bytes.NewReader(text))
}

// entriesOf returns the files of a tar file by their names.
func entriesOf(t *testing.T, from io.Reader) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for r := tar.NewReader(from); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		if _, isTwice := all[header.Name]; isTwice {
			t.Errorf("%s is there twice", header.Name)
		}
		if all[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDockerImageSaysHowItIsRun(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1764115200")
	folder, _ := makeImages(t, buildPrograms(t))
	image, err := tarball.ImageFromPath(filepath.Join(folder, "velocityd-1.2.3+dirty-linux-arm64-docker.tar"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(image); err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	created := time.Unix(1764115200, 0).UTC()
	if config.Architecture != "arm64" || config.OS != "linux" || !config.Created.Equal(created) {
		t.Errorf("got %s/%s of %s", config.OS, config.Architecture, config.Created)
	}
	run := config.Config
	if run.User != "65532:65532" || run.StopSignal != "SIGTERM" ||
		!slices.Equal(run.Entrypoint, []string{"/usr/bin/velocityd"}) ||
		strings.Join(run.Cmd, " ") != "serve --config /etc/velocityd/velocityd.yaml" {
		t.Errorf("got %+v", run)
	}
	if _, isExposed := run.ExposedPorts["8080/tcp"]; !isExposed || run.Healthcheck == nil {
		t.Errorf("got %+v, want the port and a check of health", run)
	}
	for _, label := range []string{"title", "description", "version", "created", "licenses"} {
		if run.Labels["org.opencontainers.image."+label] == "" {
			t.Errorf("there is no label %s", label)
		}
	}
	holdsTheFiles(t, image)
}

// holdsTheFiles wants these files in an image, and no others.
func holdsTheFiles(t *testing.T, image v1.Image) {
	t.Helper()
	extracted := mutate.Extract(image)
	defer extracted.Close()
	files := entriesOf(t, extracted)
	for name := range files {
		if !slices.Contains([]string{
			"etc/group", "etc/passwd", "etc/ssl/certs/ca-certificates.crt", "etc/velocityd/velocityd.yaml", "usr/bin/velocityd",
			"usr/share/doc/velocityd/LICENSE",
		}, name) {
			t.Errorf("the image has %s", name)
		}
	}
	if !strings.Contains(string(files["etc/passwd"]), "velocityd:x:65532:65532:") {
		t.Errorf("/etc/passwd does not know the user:\n%s", files["etc/passwd"])
	}
	known := 0
	for rest := files["etc/ssl/certs/ca-certificates.crt"]; ; known++ {
		block, after := pem.Decode(rest)
		if block == nil {
			break
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			t.Error(err)
		}
		rest = after
	}
	if known < 100 {
		t.Errorf("the image has %d roots of TLS, want a hundred at least", known)
	}
}

func TestProgramUnrunnableInImageIsRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	text := filepath.Join(folder, "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		text:                            "read the stamps of Go",
		filepath.Join(folder, "nobody"): "no such file",
	} {
		err := run([]string{"-tree", "../..", "-version", "1", "-out", folder, path}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
	if err := run([]string{"-out", folder}, io.Discard); err == nil || !strings.Contains(err.Error(), "name the version") {
		t.Errorf("without a program: got %v", err)
	}
}
