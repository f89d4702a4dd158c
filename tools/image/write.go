package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// writeImages writes the files of the images into a folder, and returns their names.
func writeImages(out, tree string, programs []program) (made []string, err error) {
	images, err := newImages(tree, programs)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(out, 0o755); err != nil { //nolint:gosec // for every account
		return nil, err
	}
	for i, p := range programs {
		path := filepath.Join(out, fmt.Sprintf("velocityd-%s-linux-%s-docker.tar", p.version, p.architecture))
		if err := writeDocker(path, images[i], p); err != nil {
			return made, fmt.Errorf("write %s: %w", path, err)
		}
		made = append(made, path)
	}
	path := filepath.Join(out, fmt.Sprintf("velocityd-%s-oci.tar", programs[0].version))
	if err := writeOCI(path, images, programs); err != nil {
		return made, fmt.Errorf("write %s: %w", path, err)
	}
	return append(made, path), nil
}

// writeDocker writes an image for `docker load`, which then knows it as velocityd:VERSION.
func writeDocker(path string, image v1.Image, p program) error {
	tag, err := name.NewTag("velocityd:" + p.tag())
	if err != nil {
		return err
	}
	return write(path, func(w io.Writer) error { return tarball.Write(tag, image, w) })
}

// writeOCI writes all images as one OCI layout in a tar file, as `podman load` and `skopeo copy oci-archive:` read it.
// The layout has the index of the images under the version.
func writeOCI(path string, images []v1.Image, programs []program) error {
	p := programs[0]
	folder, err := os.MkdirTemp("", "velocityd-image-")
	if err != nil {
		return err
	}
	written, err := layout.Write(folder, empty.Index)
	if err == nil {
		err = written.AppendIndex(newIndex(images, programs),
			layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": p.tag()}))
	}
	if err == nil {
		err = write(path, func(w io.Writer) error { return archiveFolder(w, folder, p.made) })
	}
	return errors.Join(err, os.RemoveAll(folder))
}

// write makes a file, which appears under its name only when it is whole.
func write(path string, fill func(io.Writer) error) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".image-*")
	if err != nil {
		return err
	}
	err = errors.Join(fill(file), file.Chmod(0o644), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// archiveFolder writes a folder as a tar file, in the order of names, with one time for everything.
func archiveFolder(to io.Writer, folder string, made time.Time) error {
	w := tar.NewWriter(to)
	tree := os.DirFS(folder)
	err := fs.WalkDir(tree, ".", func(path string, found fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		header := &tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: 0o755, ModTime: made, Format: tar.FormatPAX}
		if found.IsDir() {
			return w.WriteHeader(header)
		}
		text, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}
		header.Typeflag, header.Name, header.Mode, header.Size = tar.TypeReg, path, 0o644, int64(len(text))
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
