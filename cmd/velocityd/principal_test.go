package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"velocityd/service"
)

func TestOperatorIsAUserAtAHost(t *testing.T) {
	t.Parallel()
	user, host, ok := strings.Cut(operator(), "@")
	if !ok || user == "" || host == "" {
		t.Errorf("got %q@%q", user, host)
	}
}

func TestPrincipalFitsIntoTheAudit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"ann@gate":                         "ann@gate",
		"ann\xff@gate":                     "ann?@gate",
		strings.Repeat("é", 200) + "@gate": strings.Repeat("é", service.MaxNameLength),
	} {
		if got := asPrincipal(text); got != want || !utf8.ValidString(got) {
			t.Errorf("%q became %q", text, got)
		}
	}
}
