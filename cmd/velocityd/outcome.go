package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"velocityd/api"
	"velocityd/service"
)

type outcomeCmd struct {
	Txn           uint64          `arg:"" help:"Id of a txn of the check, from its answer."`
	Outcome       service.Outcome `arg:"" enum:"success,failure" help:"How the login ended: success or failure."`
	JSON          bool            `name:"json" env:"VELOCITY_JSON" help:"Print what the HTTP interface answers."`
	endpointFlags `embed:""`
}

// Help is the longer explanation of the command.
func (outcomeCmd) Help() string {
	return `The outcome holds for the whole check that the txn belongs to. After a success, the attempt does not count any more in zones that count failures, and in zones with reset_on_success nothing counts any more in the bucket. The same outcome again changes nothing. It is an error to report another outcome, an outcome of a blocked check or, in zones that count failures, a success after reserve_ttl.

Example:

  velocityd outcome 981 success --url http://127.0.0.1:8080`
}

// Run reports the outcome.
func (c *outcomeCmd) Run(ctx context.Context, p *process) error {
	report := service.Report{TxnID: c.Txn, Outcome: c.Outcome}
	if err := report.Validate(); err != nil {
		return usageError{err: err}
	}
	store, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer store.release()
	results, err := store.ReportAll(ctx, []service.Report{report})
	if err == nil {
		err = results[0]
	}
	if errors.Is(err, service.ErrUndecided) {
		return fmt.Errorf("%w: the answer was lost; report the outcome again, which is harmless", err)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return json.NewEncoder(p.stdout).Encode(api.Report(report))
	}
	fmt.Fprintf(p.stdout, "txn %d: %s\n", c.Txn, c.Outcome)
	return nil
}
