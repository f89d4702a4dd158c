package main

import (
	"cmp"
	"context"
	"fmt"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
)

type attemptCmd struct {
	ID        string `arg:"" name:"attempt-id" help:"The attempt id that a check was asked with."`
	JSON      bool   `name:"json" env:"VELOCITY_JSON" help:"Print the attempt as the HTTP interface gives it."`
	ask.Flags `embed:""`
}

func (attemptCmd) Help() string {
	return `Shows the answer that the check got, and the outcome of the login as far as it was reported. An attempt id is
remembered for the longest window of the check's zones, and for ten minutes at least. With --url the token needs the
scope history.

Example:

  velocityd attempt 6f1d0c52-93e4-4d7a-b1f0-2c9c8b1e5a47`
}

// Run prints the attempt.
func (c *attemptCmd) Run(ctx context.Context, p *shell.Process) error {
	if err := service.ValidateAttemptID(c.ID); err != nil {
		return shell.UsageError{Err: err}
	}
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	found, err := store.Attempt(ctx, c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		return shell.JSON(p.Stdout, found)
	}
	printDecision(p.Stdout, found.Decision)
	fmt.Fprintf(p.Stdout, "decided at %s, remembered until %s; outcome: %s\n",
		found.Decision.CheckedAt, found.ExpiresAt, cmp.Or(string(found.Outcome), "not reported"))
	return nil
}
