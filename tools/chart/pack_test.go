package main

import (
	"bytes"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
)

// packed packs the chart, and returns the name of the file.
func packed(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	if err := run([]string{"pack", "-version", "1.2.3", "-out", t.TempDir(), chartFolder}, &out); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out.String())
}

func TestTheSameTreePacksToTheSameBytes(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1764115200")
	var sums [2][32]byte
	for i := range sums {
		text, err := os.ReadFile(packed(t))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = sha256.Sum256(text)
	}
	if sums[0] != sums[1] {
		t.Error("the second file has other bytes")
	}
}

func TestThePackedChartRendersAsTheFolder(t *testing.T) {
	t.Parallel()
	file := packed(t)
	if filepath.Base(file) != "velocityd-1.2.3.tgz" {
		t.Errorf("got %s", file)
	}
	c, err := loader.LoadFile(file)
	if err != nil || c.Metadata.Version != "1.2.3" || c.Metadata.AppVersion != "1.2.3" || len(c.Schema) == 0 {
		t.Fatalf("got %+v (%v)", c.Metadata, err)
	}
	made, err := render(file, "../../deploy/helm/examples/minimal.yaml", "velocityd", "login")
	if err != nil {
		t.Fatal(err)
	}
	o := decode(t, made)
	if image := o.deployment.Spec.Template.Spec.Containers[0].Image; image != "velocityd:1.2.3" {
		t.Errorf("pods run %q, want the version of the chart", image)
	}
}

func TestWrongUseIsAnError(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		nil,
		{"unpack"},
		{"pack"},
		{"pack", chartFolder},
		{"pack", "-version", "one", chartFolder},
		{"render", chartFolder},
		{"render", "-x", chartFolder, "a"},
	} {
		if err := run(args, io.Discard); err == nil {
			t.Errorf("%q: got no error", args)
		}
	}
}
