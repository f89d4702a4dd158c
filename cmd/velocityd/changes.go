package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
	"velocityd/service/audit"
)

type changesCmd struct {
	Zone      []int64  `env:"-" sep:"," placeholder:"ID,..." help:"Only changes of these zones."`
	Key       string   `env:"-" placeholder:"KEY" help:"Only releases and overrides of this key of the zone, in any spelling."`
	Subject   []string `env:"-" sep:"," placeholder:"WORD,..." help:"Only changes of these: zone, override, bucket, history, token, webhook."`
	Action    []string `env:"-" sep:"," placeholder:"WORD,..." help:"Only these changes: insert, update, delete, release, export, erase."`
	By        string   `env:"-" placeholder:"NAME" help:"Only changes by this person, token or account."`
	Limit     int      `env:"-" default:"20" help:"How many at most."`
	From      uint64   `env:"-" placeholder:"ID" help:"Go on behind this change, as the line after a list says."`
	JSON      bool     `name:"json" env:"VELOCITY_JSON" help:"Print a line of JSON for each change, as the HTTP interface gives it, with the rows before and after."`
	ask.Flags `embed:""`
}

func (changesCmd) Help() string {
	return `Lists the rows of zone_audit, the newest first: changes of zones, overrides, tokens and webhooks, releases of
buckets, exports of the history and erasures. With --url the token needs the scope history. 'velocityd zone restore'
takes changes of a zone back.

Examples:

  velocityd changes --subject zone,override --by ann
  velocityd changes --zone 1 --key alice
  velocityd changes --zone 1 --limit 1 --json`
}

// Run lists the changes.
func (c *changesCmd) Run(ctx context.Context, p *shell.Process) error {
	query := audit.Query{
		Zones: c.Zone, Subjects: c.Subject, Actions: c.Action, By: c.By, Cursor: c.From,
		Limit: c.Limit,
	}
	if c.Key != "" {
		query.Keys = []string{c.Key}
	}
	if err := query.Validate(); err != nil {
		return shell.Usagef("%s", strings.TrimPrefix(err.Error(), service.ErrInvalid.Error()+": "))
	}
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	page, err := audit.Collect(ctx, store, query, func() bool { return true })
	if err != nil {
		return err
	}
	if c.JSON {
		err = printEntriesJSON(p.Stdout, page.Entries)
	} else {
		err = printEntries(p.Stdout, page.Entries)
	}
	if page.Next != 0 && err == nil {
		fmt.Fprintf(p.Stderr, "There may be more: go on by --from %d\n", page.Next)
	}
	return err
}

func printEntriesJSON(w io.Writer, found []audit.Entry) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	for _, e := range found {
		if err := out.Encode(e); err != nil {
			return err
		}
	}
	return nil
}

func printEntries(w io.Writer, found []audit.Entry) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "no changes")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  id\tat\tchange\tzone\tby\treason")
	for _, e := range found {
		zone := ""
		if e.ZoneID != 0 {
			zone = strconv.FormatInt(e.ZoneID, 10)
		}
		fmt.Fprintf(table, "  %d\t%s\t%s %s\t%s\t%s\t%s\n", e.ID, shell.InstantOr("", e.At.Time), e.Subject, e.Action, zone,
			shell.Printable(cmp.Or(e.Principal, e.Account)), shell.Printable(e.Reason))
	}
	return table.Flush()
}
