package handlerstest

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Mount is a folder of secrets as Kubernetes makes it: the files are links into a folder
// that is a link, too, and is swapped as a whole.
type Mount struct{ folder string }

// NewMount returns a folder that holds pair.
func NewMount(t *testing.T, pair Pair) Mount {
	t.Helper()
	m := Mount{t.TempDir()}
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(m.folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	m.Swap(t, pair)
	return m
}

// Cert returns the path of the certificate.
func (m Mount) Cert() string { return filepath.Join(m.folder, "tls.crt") }

// Key returns the path of its key.
func (m Mount) Key() string { return filepath.Join(m.folder, "tls.key") }

// Swap makes the files be pair, all at once.
func (m Mount) Swap(t *testing.T, pair Pair) {
	t.Helper()
	version := filepath.Join(m.folder, "..version_"+rand.Text())
	link := filepath.Join(m.folder, "..data_tmp")
	if err := errors.Join(
		os.Mkdir(version, 0o700),
		os.WriteFile(filepath.Join(version, "tls.crt"), pair.Cert, 0o600),
		os.WriteFile(filepath.Join(version, "tls.key"), pair.Key, 0o600),
		os.Symlink(filepath.Base(version), link),
		os.Rename(link, filepath.Join(m.folder, "..data")),
	); err != nil {
		t.Fatal(err)
	}
}
