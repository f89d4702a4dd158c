package console

import (
	"bytes"
	"html/template"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestEachPageCanBeParsed(t *testing.T) {
	t.Parallel()
	all, err := new(console).parsePages()
	if err != nil || len(all) == 0 {
		t.Fatalf("%d pages, %v", len(all), err)
	}
	for name, parse := range all {
		if _, err := parse(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFailedPageTellsNothingOfTheProgram(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	c := console{Options: Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
	c.pages = pages{"broken": func() (*template.Template, error) {
		return template.New("broken").Parse(`{{define "frame"}}<p>{{.Content.Missing}}{{end}}`)
	}}
	w := httptest.NewRecorder()
	c.show(w, httptest.NewRequest("GET", "/", nil), 200, page{Name: "broken", Content: failure{}})
	if text := w.Body.String(); w.Code != 500 || strings.Contains(text, "Missing") || strings.Contains(text, "<p>") {
		t.Errorf("the reader gets %d, %s", w.Code, text)
	}
	if !strings.Contains(log.String(), "page=broken") || !strings.Contains(log.String(), "Missing") {
		t.Errorf("the log has %q", log.String())
	}
}
