package main

import (
	"testing"
	"time"

	"velocityd/cmd/velocityd/shell"

	"github.com/alecthomas/kong"
)

func TestDurationFlagIsReadFromTheCommandLine(t *testing.T) {
	t.Parallel()
	var grammar struct {
		Window *shell.Duration
		Other  *shell.Duration
	}
	parser, err := kong.New(&grammar)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(joinValues([]string{"--window", "5m"})); err != nil ||
		*grammar.Window != shell.Duration(5*time.Minute) ||
		grammar.Other != nil {
		t.Errorf("got %+v, %v", grammar, err)
	}
	if _, err := parser.Parse(joinValues([]string{"--window", "-5"})); err == nil ||
		err.Error() != `--window: must not be negative; it is "-5"` {
		t.Errorf("got %v", err)
	}
}
