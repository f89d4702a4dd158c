package main

import (
	"context"
	"errors"
	"fmt"

	"velocityd/service"
)

type outcomeCmd struct {
	Txn         uint64          `arg:"" help:"A txn of the check, as it was answered."`
	Outcome     service.Outcome `arg:"" enum:"success,failure" help:"How the login ended: success or failure."`
	targetFlags `embed:""`
}

// Help is the longer explanation of the command.
func (outcomeCmd) Help() string {
	return `It speaks for the whole check that the txn belongs to. In zones that count failures a success gives the attempt's place back; in zones with reset_on_success it gives back all that counts in the bucket. Saying the same again changes nothing; saying otherwise is an error, and so are the txn of a blocked check and, where failures count, a success that comes after reserve_ttl.

Example:

  velocityd outcome 981 success --url http://127.0.0.1:8080`
}

// Run reports the outcome.
func (c *outcomeCmd) Run(ctx context.Context, p *process) error {
	report := service.Report{TxnID: c.Txn, Outcome: c.Outcome}
	if err := report.Validate(); err != nil {
		return usageError{err: err}
	}
	target, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer target.release()
	results, err := target.ReportAll(ctx, []service.Report{report})
	if err == nil {
		err = results[0]
	}
	if errors.Is(err, service.ErrUndecided) {
		return fmt.Errorf("%w: the answer was lost; report again, which is harmless", err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "txn %d: %s\n", c.Txn, c.Outcome)
	return nil
}
