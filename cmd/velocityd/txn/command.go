package txn

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
)

// Command is txn with its commands.
type Command struct {
	List    listCmd    `cmd:"" help:"List recorded attempts, the newest first."`
	Checks  checksCmd  `cmd:"" help:"List recorded checks with all their keys, the newest first."`
	Show    showCmd    `cmd:"" help:"Show one recorded attempt."`
	Explain explainCmd `cmd:"" help:"Say why an attempt was decided as it was."`
	Follow  followCmd  `cmd:"" help:"Show attempts as they are recorded, until Ctrl-C."`
	Export  exportCmd  `cmd:"" help:"Write all attempts that are asked for, as JSON lines or CSV, the oldest first."`
}

func (Command) Help() string {
	return `All filters that are given hold together. With --url the token needs the scope history.

Examples:

  velocityd txn list --zone 1 --key alice --since 2h
  velocityd txn export --since 7d --output csv >txns.csv`
}

// outputFlag chooses the form of txns.
type outputFlag struct {
	Output Output `env:"-" enum:",table,json,csv" default:"" help:"Form of the txns: table, json (a line for each) or csv. Left out, it is table on a terminal, and json elsewhere."`
}

// writer returns the writer of the chosen form for txns of a store.
func (f outputFlag) writer(p *shell.Process, store ask.Endpoint) *Writer {
	output := f.Output
	switch {
	case output != "":
	case shell.IsTerminal(p.Stdout):
		output = Table
	default:
		output = JSON
	}
	return NewWriter(p.Stdout, output, store.Origin)
}

// checkedQuery returns a query that stores take, or a shell.UsageError.
func checkedQuery(filter Filter, interval Interval, order service.HistoryOrder) (service.HistoryQuery, error) {
	query := filter.Query(order)
	if err := interval.Bound(&query); err != nil {
		return query, err
	}
	if err := query.Validate(); err != nil {
		return query, shell.Usagef("%s", strings.TrimPrefix(err.Error(), service.ErrInvalid.Error()+": "))
	}
	return query, nil
}

// pageFlags choose the part of a list that is shown.
type pageFlags struct {
	Filter   `embed:""`
	Interval `embed:""`
	Order    service.HistoryOrder `env:"-" enum:"desc,asc" default:"desc" help:"desc, the newest first, or asc."`
	Limit    int                  `env:"-" default:"100" help:"How many at most."`
	From     uint64               `env:"-" placeholder:"ID" help:"Go on behind this txn, as the line after a list says."`
}

// first returns the query of the first page, or a shell.UsageError.
func (f pageFlags) first() (service.HistoryQuery, error) {
	query, err := checkedQuery(f.Filter, f.Interval, f.Order)
	if err == nil && f.Limit < 1 {
		err = shell.Usagef("--limit must be 1 or more; it is %d", f.Limit)
	}
	query.Cursor, query.Limit = f.From, min(f.Limit, service.MaxHistoryPage)
	return query, err
}

// sayMore says on standard error how a list goes on behind a txn.
func sayMore(p *shell.Process, id uint64) {
	fmt.Fprintf(p.Stderr, "There may be more: go on by --from %d\n", id)
}

type listCmd struct {
	pageFlags        `embed:""`
	outputFlag       `embed:""`
	ask.LocatedFlags `embed:""`
}

func (listCmd) Help() string {
	return `If there may be more, a line on standard error says how to go on. --order asc ends five seconds before now,
because attempts are committed a little after their instant.`
}

// Run lists the txns.
func (c *listCmd) Run(ctx context.Context, p *shell.Process) error {
	query, err := c.first()
	if err != nil {
		return err
	}
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	out, left := c.writer(p, store), c.Limit
	if err := out.Begin(); err != nil {
		return err
	}
	for page, err := range service.Pages(ctx, store.Client, query) {
		if err != nil {
			return ask.ExplainNoZone(err)
		}
		for _, t := range page.Txns[:min(left, len(page.Txns))] {
			if err := out.Write(t); err != nil {
				return err
			}
			query.Cursor = t.ID
		}
		if left -= len(page.Txns); left <= 0 && (page.Next != 0 || left < 0) {
			sayMore(p, query.Cursor)
			return nil
		}
	}
	return nil
}

type showCmd struct {
	ID               uint64 `arg:"" help:"The txn's id."`
	outputFlag       `embed:""`
	ask.LocatedFlags `embed:""`
}

// Run shows the txn.
func (c *showCmd) Run(ctx context.Context, p *shell.Process) error {
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	found, err := store.Txn(ctx, c.ID)
	if err != nil {
		return err
	}
	return c.writer(p, store).Write(found)
}

type explainCmd struct {
	ID               uint64 `arg:"" help:"The txn's id."`
	JSON             bool   `name:"json" env:"VELOCITY_JSON" help:"Print the explanation as the HTTP interface gives it."`
	ask.LocatedFlags `embed:""`
}

func (explainCmd) Help() string {
	return `Decides the attempt again, by the rows that counted and by the zone, the overrides and the lockout as they
were, and says in a sentence why it was decided so. Rows follow that counted, with whether their places were given
back since. It also says which parts are not known any more. It records nothing and waits for no lock.

Example:

  velocityd txn explain 981`
}

// Run explains the decision.
func (c *explainCmd) Run(ctx context.Context, p *shell.Process) error {
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	found, err := store.Explain(ctx, c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		return shell.JSON(p.Stdout, found)
	}
	return WriteExplanation(p.Stdout, found)
}

type followCmd struct {
	Filter           `embed:""`
	After            uint64 `env:"-" placeholder:"ID" help:"Begin behind this txn, in place of now."`
	outputFlag       `embed:""`
	ask.LocatedFlags `embed:""`
}

func (followCmd) Help() string {
	return `Attempts come five to seven seconds after they were made, so the outcome of most is not known yet. With
--url, it goes on by itself when the connection breaks off; without, it ends when the database is away.`
}

// Run follows until the context ends.
func (c *followCmd) Run(ctx context.Context, p *shell.Process) error {
	query, err := checkedQuery(c.Filter, Interval{}, service.OldestFirst)
	if err != nil {
		return err
	}
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	query.Cursor = c.After
	out := c.writer(p, store)
	if err := out.Begin(); err != nil {
		return err
	}
	for t, err := range store.Client.Follow(ctx, query) {
		if err == nil {
			err = out.Write(t)
		}
		if err != nil {
			return ask.ExplainNoZone(err)
		}
	}
	return nil
}

type exportCmd struct {
	Filter           `embed:""`
	Interval         `embed:""`
	Output           Output `env:"-" enum:"json,csv" default:"json" help:"Form of the txns: json (a line for each) or csv."`
	ask.LocatedFlags `embed:""`
}

func (exportCmd) Help() string {
	return `It holds a thousand txns in memory, however many there are, and ends five seconds before now. zone_audit
records the author and the txns of an export. If the exit code is not 0, the output is not whole. Where standard error
is a terminal, it shows how far the export is.`
}

// Run writes all txns.
func (c *exportCmd) Run(ctx context.Context, p *shell.Process) error {
	query, err := checkedQuery(c.Filter, c.Interval, service.OldestFirst)
	if err != nil {
		return err
	}
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	out := NewWriter(p.Stdout, c.Output, store.Origin)
	shown := NewProgress(p.Stderr, shell.IsTerminal(p.Stderr) && !shell.IsTerminal(p.Stdout), query)
	defer shown.End()
	if err := out.Begin(); err != nil {
		return err
	}
	for t, err := range store.Client.Export(ctx, query, p.Principal) {
		switch {
		case errors.Is(err, service.ErrNotFound):
			return ask.ExplainNoZone(err)
		case err != nil:
			return fmt.Errorf("the export ended after %s, so the output is not whole: %w", shell.Counted(shown.Txns(), "txn"),
				err)
		}
		if err := out.Write(t); err != nil {
			return err
		}
		shown.At(t)
	}
	return nil
}
