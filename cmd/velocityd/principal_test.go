package main

import (
	"strings"
	"testing"
)

func TestOperatorIsAUserAtAHost(t *testing.T) {
	t.Parallel()
	user, host, ok := strings.Cut(operator(), "@")
	if !ok || user == "" || host == "" {
		t.Errorf("got %q@%q", user, host)
	}
}
