package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
)

type outcomeCmd struct {
	Txn       string           `arg:"" help:"Id of a txn of the check, from its answer. Leave it out with --attempt-id."`
	Outcome   *service.Outcome `arg:"" optional:"" enum:"success,failure" help:"How the login ended: success or failure."`
	AttemptID *string          `name:"attempt-id" aliases:"attempt" env:"-" placeholder:"ID" help:"The attempt id that the check was asked with, in place of a txn."`
	JSON      bool             `name:"json" env:"VELOCITY_JSON" help:"Print what the HTTP interface answers."`
	ask.Flags `embed:""`
}

func (outcomeCmd) Help() string {
	return `The outcome holds for the whole check that the txn belongs to, or that had the attempt id. After a success,
the attempt does not count any more in zones that count failures, and in zones with reset_on_success nothing counts
any more in the bucket. The same outcome again changes nothing. It is an error to report another outcome, an outcome
of a blocked check or, in zones that count failures, a success after reserve_ttl. An attempt id is remembered for the
longest window of the check's zones, and for ten minutes at least.

Examples:

  velocityd outcome 981 success --url http://127.0.0.1:8080
  velocityd outcome --attempt-id 6f1d0c52-93e4-4d7a-b1f0-2c9c8b1e5a47 success`
}

// report returns the report, or a shell.UsageError.
func (c *outcomeCmd) report() (report service.Report, err error) {
	switch {
	case c.AttemptID == nil && c.Outcome == nil:
		return report, shell.Usagef("give a txn and then success or failure; or give --attempt-id and the outcome alone")
	case c.AttemptID == nil:
		report.Outcome = *c.Outcome
		if report.TxnID, err = strconv.ParseUint(c.Txn, 10, 64); err != nil {
			return report, shell.Usagef("%q is no id of a txn", c.Txn)
		}
	case c.Outcome != nil:
		return report, shell.Usagef("--attempt-id names the check: leave the txn out")
	default:
		report.AttemptID, report.Outcome = *c.AttemptID, service.Outcome(c.Txn)
		err = service.ValidateAttemptID(report.AttemptID)
	}
	if err = cmp.Or(err, report.Validate()); err != nil {
		return report, shell.UsageError{Err: err}
	}
	return report, nil
}

// Run reports the outcome.
func (c *outcomeCmd) Run(ctx context.Context, p *shell.Process) error {
	report, err := c.report()
	if err != nil {
		return err
	}
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
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
		return shell.JSON(p.Stdout, report)
	}
	check := "the attempt"
	if report.AttemptID == "" {
		check = fmt.Sprintf("txn %d", report.TxnID)
	}
	fmt.Fprintf(p.Stdout, "%s: %s\n", check, report.Outcome)
	return nil
}
