package main

import (
	"bytes"
	"io"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// port is the one of `listen` in the image's configuration file.
const port = "8080/tcp"

// newImage returns the image of one program, over the base that all architectures share.
func newImage(base []entry, p program) (v1.Image, error) {
	programEntries, err := programEntries(p)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, part := range []struct {
		holds   string
		entries []entry
	}{{"the user, the roots of TLS and the configuration file", base}, {"velocityd " + p.version, programEntries}} {
		layer, err := newLayer(part.entries, p.made)
		if err != nil {
			return nil, err
		}
		image, err = mutate.Append(image, mutate.Addendum{
			Layer: layer, History: v1.History{Created: v1.Time{Time: p.made}, CreatedBy: part.holds},
		})
		if err != nil {
			return nil, err
		}
	}
	described, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	described = described.DeepCopy()
	described.OS, described.Architecture, described.Created = "linux", p.architecture, v1.Time{Time: p.made}
	described.Config = runConfig(p)
	return mutate.ConfigFile(image, described)
}

func newLayer(entries []entry, made time.Time) (v1.Layer, error) {
	text, err := archive(entries, made)
	if err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// runConfig says how the image is run. The DSN is read from a secret named velocity-dsn, as container engines mount it,
// where no other setting names one: for velocityd that folder is one of credentials, like systemd's. OCI knows no check
// of health; Docker and Podman take theirs from the same file. It asks for life alone: orchestrators that restart what
// is not healthy must not restart every instance while the database is away.
func runConfig(p program) v1.Config {
	return v1.Config{
		User:         "65532:65532",
		Entrypoint:   []string{programPath},
		Cmd:          []string{"serve", "--config", configPath},
		Env:          []string{"PATH=/usr/bin", "CREDENTIALS_DIRECTORY=" + secretsPath},
		WorkingDir:   "/",
		ExposedPorts: map[string]struct{}{port: {}},
		StopSignal:   "SIGTERM",
		Labels:       labels(p),
		Healthcheck: &v1.HealthConfig{
			Test:     []string{"CMD", programPath, "health", "live"},
			Interval: 10 * time.Second, Timeout: 5 * time.Second, StartPeriod: 10 * time.Second, Retries: 3,
		},
	}
}

// labels returns the annotations of OCI's image specification that hold for every copy of the project. Addresses do
// not.
func labels(p program) map[string]string {
	all := map[string]string{
		"org.opencontainers.image.title":       "velocityd",
		"org.opencontainers.image.description": "May this login attempt go ahead? Exact limits on MySQL or MariaDB.",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     p.version,
		"org.opencontainers.image.created":     p.made.Format(time.RFC3339),
	}
	if p.revision != "" {
		all["org.opencontainers.image.revision"] = p.revision
	}
	return all
}

// newIndex returns the images as one, from which an engine takes that of its machine.
func newIndex(images []v1.Image, programs []program) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for i, p := range programs {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: images[i], Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: p.architecture}},
		})
	}
	annotated, _ := mutate.Annotations(index, labels(programs[0])).(v1.ImageIndex) // returns the type that it was given
	return annotated
}

// newImages returns the image of each program, in the order of their architectures, and sorts the programs so.
func newImages(tree string, programs []program) ([]v1.Image, error) {
	base, err := baseEntries(tree)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(programs, before)
	var images []v1.Image
	for _, p := range programs {
		image, err := newImage(base, p)
		if err != nil {
			return nil, err
		}
		images = append(images, image)
	}
	return images, nil
}
