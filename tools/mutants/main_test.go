package main

import (
	"errors"
	"os"
	"testing"
)

func TestListedFaultsFitTheCode(t *testing.T) {
	t.Parallel()
	more, err := os.ReadFile("../faults/mutants.txt")
	if err != nil {
		t.Fatal(err)
	}
	mutants := append(parse(faults), parse(string(more))...)
	var wrong error
	for _, m := range mutants {
		_, err := m.texts("../..")
		wrong = errors.Join(wrong, err)
	}
	if wrong != nil || len(mutants) == 0 {
		t.Errorf("of %d mutants: %v", len(mutants), wrong)
	}
}
