package main

import (
	"errors"
	"testing"
)

func TestListedFaultsFitTheCode(t *testing.T) {
	t.Parallel()
	mutants := parse(faults)
	var wrong error
	for _, m := range mutants {
		_, err := m.texts("../..")
		wrong = errors.Join(wrong, err)
	}
	if wrong != nil || len(mutants) == 0 {
		t.Errorf("of %d mutants: %v", len(mutants), wrong)
	}
}
