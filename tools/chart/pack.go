package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"sigs.k8s.io/yaml"
)

// epoch returns the time that all files of a chart get: SOURCE_DATE_EPOCH (reproducible-builds.org), or 1970.
func epoch() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH must be seconds since 1970; it is %q", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// pack writes a chart as helm's own command does, but with one time for everything, and returns the name of the file.
func pack(folder, out, version string) (string, error) {
	made, err := epoch()
	if err != nil {
		return "", err
	}
	c, err := loader.LoadDir(folder)
	if err != nil {
		return "", err
	}
	c.Metadata.Version, c.Metadata.AppVersion = version, version
	if err := c.Validate(); err != nil {
		return "", err
	}
	files, err := filesOf(c)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(out, 0o755); err != nil { //nolint:gosec // for every account
		return "", err
	}
	file, err := os.CreateTemp(out, ".chart-*")
	if err != nil {
		return "", err
	}
	name := filepath.Join(out, fmt.Sprintf("%s-%s.tgz", c.Name(), c.Metadata.Version))
	err = errors.Join(archive(file, c.Name(), files, made), file.Chmod(0o644), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return name, nil
}

// filesOf returns the files of a chart in the order of their names, with its metadata as they are now.
func filesOf(c *chart.Chart) ([]*chart.File, error) {
	described, err := yaml.Marshal(c.Metadata)
	if err != nil {
		return nil, err
	}
	files := []*chart.File{{Name: chartutil.ChartfileName, Data: described}}
	for _, file := range c.Raw { // those of the folder, without what .helmignore names
		if file.Name != chartutil.ChartfileName {
			files = append(files, file)
		}
	}
	slices.SortFunc(files, func(a, b *chart.File) int { return strings.Compare(a.Name, b.Name) })
	// Helm reads the metadata first.
	slices.SortStableFunc(files, func(a, b *chart.File) int { return first(b) - first(a) })
	return files, nil
}

func first(file *chart.File) int {
	if file.Name == chartutil.ChartfileName {
		return 1
	}
	return 0
}

// archive writes files as a compressed tar file, inside of a folder.
func archive(to io.Writer, folder string, files []*chart.File, made time.Time) error {
	zipped := gzip.NewWriter(to)
	w := tar.NewWriter(zipped)
	for _, file := range files {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: path.Join(folder, file.Name), Mode: 0o644, Size: int64(len(file.Data)), ModTime: made,
			Format: tar.FormatPAX,
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(file.Data); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), zipped.Close())
}
