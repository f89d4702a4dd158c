package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
)

// errBlocked makes run end with exitBlocked. It is an answer, not a fault.
var errBlocked = errors.New("blocked")

type checkCmd struct {
	Zone       int64    `arg:"" help:"Zone to ask in."`
	Key        string   `arg:"" help:"Bucket key, such as a user or an address."`
	More       []string `arg:"" optional:"" name:"zone-key" help:"Further pairs of zone and key, up to 8 buckets in all. The check is allowed if all of them have room."`
	AttemptID  *string  `name:"attempt-id" env:"-" placeholder:"ID" help:"A random id of the attempt, such as uuidgen prints. Asked again with it, the check is answered as the first time and counts once."`
	SecretHash *string  `name:"secret-hash" env:"-" placeholder:"HASH" help:"A keyed hash of the user and the password that are tried, 8 to 64 characters of hexadecimal or of base64 for URLs, for zones with --repeat-secret free."`
	JSON       bool     `name:"json" env:"VELOCITY_JSON" help:"Print the answer as the HTTP interface gives it."`
	ask.Flags  `embed:""`
}

func (checkCmd) Help() string {
	return `Exit code 0 means allowed, 3 blocked, also for an answer that the service has given without its database, by
the zone's on_failure: then the answer says so, and the attempt is recorded nowhere. A zone in shadow mode never
blocks: the answer says that it would. A key that begins with - must come after --.

Example:

  velocityd check 1 alice 2 203.0.113.9 --url http://127.0.0.1:8080`
}

// Run asks the check and prints the answer.
func (c *checkCmd) Run(ctx context.Context, p *shell.Process) error {
	check, err := c.question()
	if err != nil {
		return err
	}
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	decisions, err := store.CheckAll(ctx, []service.Check{check})
	if err == nil {
		err = decisions[0].Err
	}
	if err != nil {
		return ask.ExplainCheck(err)
	}
	if c.JSON {
		if err := shell.JSON(p.Stdout, decisions[0]); err != nil {
			return err
		}
	} else {
		printDecision(p.Stdout, decisions[0])
	}
	if decisions[0].Blocked {
		return errBlocked
	}
	return nil
}

// question returns the check, or a shell.UsageError.
func (c *checkCmd) question() (service.Check, error) {
	check := service.Check{Buckets: []service.Bucket{{ZoneID: c.Zone, Key: c.Key}}}
	if c.AttemptID != nil {
		if check.AttemptID = *c.AttemptID; check.AttemptID == "" {
			return check, shell.Usagef("--attempt-id must not be empty: leave it out if the attempt has no name")
		}
	}
	if c.SecretHash != nil {
		if check.SecretHash = *c.SecretHash; check.SecretHash == "" {
			return check, shell.Usagef("--secret-hash must not be empty: leave it out if there is none")
		}
	}
	if len(c.More)%2 != 0 {
		return check, shell.Usagef("zones and keys must come in pairs: the last zone has no key")
	}
	for i := 0; i < len(c.More); i += 2 {
		zone, err := strconv.ParseInt(c.More[i], 10, 64)
		if err != nil {
			return check, shell.Usagef("%q is not a zone's number: zones and keys must come in pairs", c.More[i])
		}
		check.Buckets = append(check.Buckets, service.Bucket{ZoneID: zone, Key: c.More[i+1]})
	}
	if err := check.Validate(); err != nil {
		return check, shell.UsageError{Err: err}
	}
	return check, nil
}

// printDecision prints the answer to a check in words.
func printDecision(w io.Writer, d service.Decision) {
	word := "allowed"
	if d.Blocked {
		word = fmt.Sprintf("blocked for %d s", service.WholeSeconds(d.RetryAfter()))
	}
	if d.Degraded {
		word += ", without the database: recorded nowhere"
	}
	fmt.Fprintf(w, "%s\n", word)
	for _, v := range d.Verdicts {
		note := ""
		if v.Reason != "" {
			note = ", " + string(v.Reason)
		}
		if d.Degraded {
			fmt.Fprintf(w, "  zone %d, %s: at most %d in %d s%s\n", v.Bucket.ZoneID, shell.Printable(v.Bucket.Key), v.Rate,
				service.WholeSeconds(v.Window.Duration), note)
			continue
		}
		if v.OverrideID != 0 {
			note += fmt.Sprintf(" by override %d", v.OverrideID)
		}
		if v.WouldBlock && !v.Blocked {
			note += ", would block if its zone were enforced"
		}
		left := unmetered(v.Reason)
		if !v.Unmetered {
			left = fmt.Sprintf("%d of %d left %s", v.Remaining(), v.Rate, spanOf(v.Window.Duration, v.ResetAfter.Duration))
		}
		fmt.Fprintf(w, "  zone %d, %s: %s (txn %d)%s\n", v.Bucket.ZoneID, shell.Printable(v.Bucket.Key), left, v.TxnID, note)
	}
}

// spanOf says in which time so many attempts are left: a sliding window, or a period that ends after resetAfter.
func spanOf(window, resetAfter time.Duration) string {
	if resetAfter > 0 {
		return fmt.Sprintf("in a period that ends in %d s", service.WholeSeconds(resetAfter))
	}
	return fmt.Sprintf("in %d s", service.WholeSeconds(window))
}

// unmetered says whether attempts pass where no limit decides.
func unmetered(reason service.Reason) string {
	if reason == service.ReasonDenied {
		return "nothing passes"
	}
	return "no limit applies"
}
