package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the number of the one user in the image, and of its group. Images without a shell have used 65532 for a user
// without rights since Google's distroless; Kubernetes wants a number to prove that it is not root.
const user = 65532

// Files of the image, and the folder for the files of a service, which belongs to the user: a new volume of Docker
// takes the owner from it.
const (
	programPath = "/usr/bin/velocityd"
	configPath  = "/etc/velocityd/velocityd.yaml"
	secretsPath = "/run/secrets"
	statePath   = "/var/lib/velocityd"
)

// entry is a file of the image, or a folder, whose mode says so.
type entry struct {
	path  string
	mode  os.FileMode
	owner int
	text  []byte
}

// folder returns a folder of root that everybody may read.
func folder(path string) entry { return entry{path: path, mode: os.ModeDir | 0o755} }

func file(path string, text []byte) entry { return entry{path: path, mode: 0o644, text: text} }

// baseEntries returns everything but the program. The configuration file and the licence are those of the tree.
func baseEntries(tree string) ([]entry, error) {
	config, err := os.ReadFile(filepath.Join(tree, "deploy", "containers", "velocityd.yaml"))
	if err != nil {
		return nil, err
	}
	licence, err := os.ReadFile(filepath.Join(tree, "LICENSE"))
	if err != nil {
		return nil, err
	}
	return []entry{
		folder("/etc"),
		file("/etc/group", fmt.Appendf(nil, "root:x:0:\nvelocityd:x:%d:\n", user)),
		file("/etc/passwd",
			fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\nvelocityd:x:%d:%d:velocityd:/:/sbin/nologin\n", user, user)),
		folder("/etc/ssl"), folder("/etc/ssl/certs"),
		file("/etc/ssl/certs/ca-certificates.crt", roots()),
		folder("/etc/velocityd"), file(configPath, config),
		folder("/run"), folder(secretsPath),
		folder("/usr"), folder("/usr/share"), folder("/usr/share/doc"), folder("/usr/share/doc/velocityd"),
		file("/usr/share/doc/velocityd/LICENSE", licence),
		folder("/var"), folder("/var/lib"),
		{path: statePath, mode: os.ModeDir | 0o700, owner: user},
	}, nil
}

// programEntries returns the program with its folders.
func programEntries(p program) ([]entry, error) {
	text, err := os.ReadFile(p.path)
	if err != nil {
		return nil, err
	}
	return []entry{folder("/usr"), folder("/usr/bin"), {path: programPath, mode: 0o755, text: text}}, nil
}

// roots returns the certificates that Mozilla trusts without reservation, as PEM. They come with a module, whose
// version go.sum holds, and not from the machine on which the image is made.
func roots() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil { // a file cannot express it
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a bytes.Buffer takes everything
		}
	}
	return text.Bytes()
}

// archive returns the entries as a tar file whose times are all made.
func archive(entries []entry, made time.Time) ([]byte, error) {
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	for _, e := range entries {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: e.path[1:], Mode: int64(e.mode.Perm()), Size: int64(len(e.text)),
			Uid: e.owner, Gid: e.owner, ModTime: made, Format: tar.FormatPAX,
		}
		if e.mode.IsDir() {
			header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("write %s: %w", e.path, err)
		}
		if _, err := w.Write(e.text); err != nil {
			return nil, fmt.Errorf("write %s: %w", e.path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}
