package handlers

import (
	"net/http"
	"strings"
	"testing"
)

func TestRootTellsPersonWhereToReadOn(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	const html, text = "text/html; charset=utf-8", "text/plain; charset=utf-8"
	for accept, want := range map[string]string{
		"": text, "*/*": text, "application/json": text, "text/html;q=0": text, "text/htm": text, "text/html;q=x": text,
		";": text, "text/html": html, "Text/HTML": html, "application/xml, text/html;q=0.1": html,
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": html, // a browser's
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			got := r.ask(t, method, "/", "", "Accept", accept)
			if got.status != http.StatusOK || got.header.Get("Content-Type") != want || got.header.Get("Vary") != "Accept" ||
				!strings.HasPrefix(got.header.Get("Content-Security-Policy"), "default-src 'none'") {
				t.Errorf("%s, accepting %q: %d %v", method, accept, got.status, got.header)
			}
			if isWhole := strings.Contains(got.body, "openapi.yaml") &&
				strings.Contains(got.body, "readyz"); isWhole != (method == http.MethodGet) {
				t.Errorf("%s, accepting %q: %s", method, accept, got.body)
			}
		}
	}
	for _, foreign := range []string{"<script", "style", "src=", "http:", "https:", "//"} {
		if strings.Contains(string(welcomePage), foreign) {
			t.Errorf("the page has %q", foreign)
		}
	}
}
