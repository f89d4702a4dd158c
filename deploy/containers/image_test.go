//go:build packages

package containers_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"velocityd/db/localdb"
)

// image is an unpacked image, and the part of its configuration that runs it.
type image struct {
	root   string
	Config struct {
		User, StopSignal string
		Env              []string
		Entrypoint, Cmd  []string
		Healthcheck      struct{ Test []string }
	}
}

// unpackImage unpacks the file for `docker load` of this machine's architecture, with the owners and modes that it
// says.
func unpackImage(t *testing.T) image {
	t.Helper()
	blobs := readTar(t, built(t, "velocityd-*-linux-"+runtime.GOARCH+"-docker.tar"))
	var saved []struct {
		Config string
		Layers []string
	}
	if err := json.Unmarshal(blobs["manifest.json"], &saved); err != nil || len(saved) != 1 {
		t.Fatalf("manifest.json has %d images (%v)", len(saved), err)
	}
	made := image{root: filepath.Join(t.TempDir(), "root")}
	if err := json.Unmarshal(blobs[saved[0].Config], &made); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(made.root, 0o755); err != nil { //nolint:gosec // a root
		t.Fatal(err)
	}
	for _, layer := range saved[0].Layers {
		unpackLayer(t, made.root, string(blobs[layer]))
	}
	return made
}

func readTar(t *testing.T, path string) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	blobs := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return blobs
		}
		if err != nil {
			t.Fatal(err)
		}
		if blobs[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func unpackLayer(t *testing.T, root, layer string) {
	t.Helper()
	unzipped, err := gzip.NewReader(strings.NewReader(layer))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, filepath.Clean("/"+header.Name))
		switch header.Typeflag {
		case tar.TypeDir:
			if err = os.Mkdir(path, 0o700); errors.Is(err, os.ErrExist) {
				err = nil
			}
		case tar.TypeReg:
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, text, 0o600)
			}
		default:
			t.Fatalf("%s is neither a file nor a folder", header.Name)
		}
		if err = errors.Join(err, os.Chown(path, header.Uid, header.Gid),
			os.Chmod(path, header.FileInfo().Mode())); err != nil {
			t.Fatal(err)
		}
	}
}

// TestImageAnswersUnprivilegedOnReadOnlyRoot runs the image's command, with a DSN in the place where
// container engines put a secret of its name.
func TestImageAnswersUnprivilegedOnReadOnlyRoot(t *testing.T) {
	t.Parallel()
	alone(t)
	d, i := startDatabase(t, localdb.MySQL), unpackImage(t)
	token := d.prepare(t, i, "check,report")
	c := i.container(t, d.volume("service", "/run/secrets", false))
	if c.user != "65532:65532" || i.Config.StopSignal != "SIGTERM" {
		t.Errorf("got user %q and signal %q", c.user, i.Config.StopSignal)
	}
	health := func() (string, int) { return c.run(t, i.Config.Healthcheck.Test[1:]...) }
	if out, code := health(); code != 1 {
		t.Errorf("health before the start: got %d, %s", code, out)
	}
	p := c.start(t, append(i.Config.Entrypoint, i.Config.Cmd...)...)
	p.eventually(t, "the image is healthy", func() bool { _, code := health(); return code == 0 })
	status, body := ask(t, http.DefaultClient, "http://127.0.0.1:8080/v1/check", "", token, firstCheck)
	if status != 200 || !strings.Contains(body, `"blocked":false`) {
		t.Errorf("the first check: got %d %s", status, body)
	}
	if status, _ := ask(t, http.DefaultClient, "http://127.0.0.1:8080/v1/check", "", "", firstCheck); status != 401 {
		t.Errorf("without a token: got %d, want 401", status)
	}
	holdsTheConfinement(t, p)
	p.stop(t, 9*time.Second) // Docker kills after ten
}

// holdsTheConfinement looks from outside at the user, the root and the groups of a container's process.
func holdsTheConfinement(t *testing.T, p *process) {
	t.Helper()
	status, err := os.ReadFile(p.proc("status"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Uid:\t65532\t65532\t65532\t65532\n", "Gid:\t65532\t65532\t65532\t65532\n",
		"CapEff:\t0000000000000000\n",
	} {
		if !strings.Contains(string(status), want) {
			t.Errorf("the process lacks %q:\n%s", want, status)
		}
	}
	mounts, err := os.ReadFile(p.proc("mounts"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if part := strings.Fields(line); part[1] == "/" && !strings.HasPrefix(part[3], "ro,") && part[3] != "ro" {
			t.Errorf("the root can be written: %s", line)
		}
	}
}
