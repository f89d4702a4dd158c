package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
	"velocityd/service/event"
)

type eventsCmd struct {
	List   eventsListCmd   `cmd:"" help:"List events, the newest first."`
	Follow eventsFollowCmd `cmd:"" help:"Write events as they come, a line of JSON for each, until Ctrl-C."`
}

func (eventsCmd) Help() string {
	return `An event is written when a lockout begins or ends, a bucket is released, and a zone, an override or a token
changes. Each is a line of JSON, in the form of events.schema.json (GET /v1/events/schema). With --url the token needs
the scope history.

Examples:

  velocityd events list --type bucket.locked --zone 1
  velocityd events follow --after 4711 | vector --config events.toml`
}

// eventFilter are the flags that choose among events.
type eventFilter struct {
	Types []event.Type `name:"type" env:"-" placeholder:"TYPE" help:"Only events of this type, such as bucket.locked, or of all types of a subject, such as zone.*; may be repeated."`
	Zones []int64      `name:"zone" env:"-" placeholder:"ID" help:"Only events of this zone; may be repeated."`
	Keys  []string     `name:"key" env:"-" sep:"none" placeholder:"KEY" help:"Only events of this bucket of the one zone, in any spelling that the zone takes; may be repeated."`
}

// query returns a query that stores take, or a shell.UsageError.
func (f eventFilter) query(order service.HistoryOrder, cursor uint64) (event.Query, error) {
	q := event.Query{Types: f.Types, Zones: f.Zones, Keys: f.Keys, Order: order, Cursor: cursor, Limit: event.MaxPage}
	if err := q.Validate(); err != nil {
		return q, shell.Usagef("%s", strings.TrimPrefix(err.Error(), service.ErrInvalid.Error()+": "))
	}
	return q, nil
}

type eventsListCmd struct {
	eventFilter `embed:""`
	Order       service.HistoryOrder `env:"-" enum:"desc,asc" default:"desc" help:"desc, the newest first, or asc."`
	Limit       int                  `env:"-" default:"100" help:"How many at most."`
	From        uint64               `env:"-" placeholder:"ID" help:"Go on behind this event, as the line after a list says."`
	ask.Flags   `embed:""`
}

func (eventsListCmd) Help() string {
	return `If there may be more, a line on standard error says how to go on. --order asc ends five seconds before now,
because events are committed a little after their instant.`
}

// Run lists the events.
func (c *eventsListCmd) Run(ctx context.Context, p *shell.Process) error {
	query, err := c.query(c.Order, c.From)
	if err != nil {
		return err
	}
	if c.Limit < 1 {
		return shell.Usagef("--limit must be 1 or more; it is %d", c.Limit)
	}
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	out := json.NewEncoder(p.Stdout)
	for left := c.Limit; ; {
		query.Limit = min(left, event.MaxPage)
		page, err := store.Client.Events(ctx, query)
		if err != nil {
			return ask.ExplainNoZone(err)
		}
		for _, e := range page.Events {
			if err := out.Encode(e); err != nil {
				return err
			}
		}
		if query.Cursor, left = page.Next, left-len(page.Events); page.Next == 0 {
			return nil
		}
		if left == 0 {
			fmt.Fprintf(p.Stderr, "There may be more: go on by --from %d\n", page.Next)
			return nil
		}
	}
}

type eventsFollowCmd struct {
	eventFilter `embed:""`
	After       uint64 `env:"-" placeholder:"ID" help:"Begin behind this event, in place of now."`
	ask.Flags   `embed:""`
}

func (eventsFollowCmd) Help() string {
	return `Events come five to seven seconds after they happened. A log shipper that reads the lines begins again with
--after and the id of the last line that it has kept. With --url, it goes on by itself when the connection breaks off;
without, it ends when the database is away.`
}

// Run follows until the context ends.
func (c *eventsFollowCmd) Run(ctx context.Context, p *shell.Process) error {
	query, err := c.query(service.OldestFirst, c.After)
	if err != nil {
		return err
	}
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	out := json.NewEncoder(p.Stdout)
	for e, err := range store.Client.FollowEvents(ctx, query) {
		if err == nil {
			err = out.Encode(e)
		}
		if err != nil {
			return ask.ExplainNoZone(err)
		}
	}
	return nil
}
