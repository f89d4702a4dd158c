package txn

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
)

type checksCmd struct {
	pageFlags        `embed:""`
	JSON             bool `name:"json" env:"VELOCITY_JSON" help:"Print each check as the HTTP interface gives it."`
	ask.LocatedFlags `embed:""`
}

func (checksCmd) Help() string {
	return `Each line is a check: the decision, the outcome, and all keys that it named. So the addresses stand beside the
user. If there may be more, a line on standard error says how to go on.

Example:

  velocityd txn checks --zone 1 --key admin --since 1h`
}

// checkRow has columns of a fixed width, as row has.
const checkRow = "%-27s  %-24s  %-8s  %s\n"

// Run lists the checks.
func (c *checksCmd) Run(ctx context.Context, p *shell.Process) error {
	query, err := c.first()
	if err != nil {
		return err
	}
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	if !c.JSON {
		fmt.Fprintf(p.Stdout, checkRow, "time (UTC)", "decision", "outcome", "keys")
	}
	for left := c.Limit; left > 0; {
		query.Limit = min(left, service.MaxHistoryPage)
		page, err := store.Client.Checks(ctx, query)
		if err != nil {
			return ask.ExplainNoZone(err)
		}
		for _, check := range page.Checks {
			if err := c.write(p, check); err != nil {
				return err
			}
		}
		left -= len(page.Checks)
		if query.Cursor = page.Next; page.Next == 0 {
			return nil
		}
	}
	sayMore(p, query.Cursor)
	return nil
}

// write writes the line of a check.
func (c *checksCmd) write(p *shell.Process, check service.RecordedCheck) error {
	if c.JSON {
		line, err := json.Marshal(check)
		if err != nil {
			return fmt.Errorf("encode check %d: %w", check.CheckID, err)
		}
		_, err = fmt.Fprintf(p.Stdout, "%s\n", line)
		return err
	}
	decision := "allowed"
	switch {
	case check.Blocked:
		decision = "blocked, " + string(check.Reason)
	case check.WouldBlock:
		decision = "would block, " + string(check.Reason)
	}
	if check.Attempts > 1 {
		decision += ", " + strconv.Itoa(check.Attempts) + " times"
	}
	keys := make([]string, 0, len(check.Txns)+1)
	for _, t := range check.Txns {
		keys = append(keys, strconv.FormatInt(t.ZoneID, 10)+" "+shell.Printable(t.Key))
	}
	if check.LeftOut {
		keys = append(keys, "and keys of zones that the token does not reach")
	}
	_, err := fmt.Fprintf(p.Stdout, checkRow, check.CreatedAt, decision, string(check.Outcome), strings.Join(keys, ", "))
	return err
}
