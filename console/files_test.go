package console

import (
	"crypto/sha256"
	"encoding/hex"
	"mime"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestUPlotFilesAreThoseOfItsRelease(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{ // of the package uplot 1.6.32
		"uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"uPlot.min.css":     "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
	} {
		text, err := static.ReadFile("static/uplot/" + name)
		sum := sha256.Sum256(text)
		if err != nil || hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s has the sum %x, %v", name, sum, err)
		}
	}
}

func TestFilesAreServedByTheirHashedNamesAlone(t *testing.T) {
	t.Parallel()
	f, err := readFiles()
	if err != nil {
		t.Fatal(err)
	}
	address, err := f.address("console.js")
	if err != nil {
		t.Fatal(err)
	}
	for name, status := range map[string]int{
		strings.TrimPrefix(address, Path+"static/"): 200, "console.js": 404,
		"..%2fconsole.go": 404, "": 404,
	} {
		r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
		r.SetPathValue("name", name)
		f.ServeHTTP(w, r)
		if w.Code != status {
			t.Errorf("%q is answered with %d", name, w.Code)
		}
	}
}

func TestFileMediaTypeIgnoresTheMachine(t *testing.T) {
	t.Parallel()
	if err := mime.AddExtensionType(".js", "text/plain"); err != nil {
		t.Fatal(err)
	}
	f, err := readFiles()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"console.js":  "text/javascript; charset=utf-8",
		"console.css": "text/css; charset=utf-8",
	} {
		if got := f.byName[f.names[name]].media; got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
}
