package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"velocityd/api"
	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
	"velocityd/service/event"
	"velocityd/service/webhook"
)

type webhookCmd struct {
	Add        webhookAddCmd        `cmd:"" help:"Send events to a URL from now on."`
	List       webhookListCmd       `cmd:"" help:"List webhooks, and how far they are."`
	Deliveries webhookDeliveriesCmd `cmd:"" help:"List the events that a webhook has not received: waiting or dead."`
	Resend     webhookResendCmd     `cmd:"" help:"Try dead deliveries of a webhook again."`
	Remove     webhookRemoveCmd     `cmd:"" help:"Send no more events to a webhook, and forget its deliveries."`
}

func (webhookCmd) Help() string {
	return `A webhook gets each event as a POST, signed as Standard Webhooks says, from one instance among all
('velocityd serve'). Events of one bucket come in order. What is not answered by 2xx within 10 seconds is tried again
for a day and a half; then it is dead, kept, and can be sent again. Receivers with addresses inside your network need
'serve --webhook-hosts'. With --url the token needs the scope admin.

Examples:

  velocityd webhook add https://hooks.example.com/velocityd --events bucket.locked,bucket.lock_ended --zone 1
  velocityd webhook resend 1`
}

type webhookAddCmd struct {
	To          string       `arg:"" name:"to" help:"The receiver, such as https://hooks.example.com/velocityd."`
	Events      []event.Type `env:"-" sep:"," placeholder:"TYPE,..." help:"Only events of these types, such as bucket.locked, or of all types of a subject, such as zone.*."`
	Zone        []int64      `env:"-" sep:"," placeholder:"ID,..." help:"Only events of these zones."`
	Description string       `env:"-" placeholder:"TEXT" help:"What the webhook is for."`
	ask.Flags   `embed:""`
}

func (webhookAddCmd) Help() string {
	return `The secret that signs the events is printed once, alone on standard output.`
}

// Run adds the webhook. Its secret is printed to stdout, and the rest to stderr.
func (c *webhookAddCmd) Run(ctx context.Context, p *shell.Process) error {
	wanted := webhook.Webhook{URL: c.To, Types: c.Events, Zones: c.Zone, Description: c.Description}
	if err := wanted.Validate(); err != nil {
		return shell.Usagef("%s", strings.TrimPrefix(err.Error(), service.ErrInvalid.Error()+": "))
	}
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	made, secret, err := store.Client.AddWebhook(ctx, wanted, p.Principal)
	if err != nil {
		return err
	}
	printWebhooks(p.Stderr, []webhook.Webhook{made})
	fmt.Fprintln(p.Stderr, "The secret, which is not shown again:")
	if _, err = fmt.Fprintln(p.Stdout, secret); err != nil {
		return fmt.Errorf("print the secret: %w; remove the webhook by 'velocityd webhook remove %d'", err, made.ID)
	}
	return nil
}

type webhookListCmd struct {
	JSON      bool `name:"json" env:"VELOCITY_JSON" help:"Print the webhooks as the HTTP interface gives them."`
	ask.Flags `embed:""`
}

// Run prints the webhooks by id.
func (c *webhookListCmd) Run(ctx context.Context, p *shell.Process) error {
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	list, err := store.Client.Webhooks(ctx)
	switch {
	case err != nil:
		return err
	case c.JSON:
		return shell.JSON(p.Stdout, api.Webhooks{Webhooks: list})
	case len(list) == 0:
		fmt.Fprintln(p.Stdout, "no webhooks; 'velocityd webhook add' makes one")
	default:
		printWebhooks(p.Stdout, list)
	}
	return nil
}

func printWebhooks(to io.Writer, list []webhook.Webhook) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "id\turl\tevents\tzones\twaiting\tdead\tlag\tlast success\tlast error\tdescription")
	for _, one := range list {
		types, zones := "all", "all"
		if len(one.Types) > 0 {
			types = strings.Trim(fmt.Sprint(one.Types), "[]")
		}
		if len(one.Zones) > 0 {
			zones = strings.Trim(fmt.Sprint(one.Zones), "[]")
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", one.ID, shell.Printable(one.URL), types, zones,
			one.State.Waiting, one.State.Dead,
			one.State.Lag.Round(time.Second), shell.InstantOr("-", one.State.SucceededAt.Time), shell.Printable(one.State.Error),
			shell.Printable(one.Description))
	}
	_ = w.Flush()
}

type webhookDeliveriesCmd struct {
	ID        uint64 `arg:"" help:"Id of the webhook."`
	After     uint64 `env:"-" placeholder:"ID" help:"Go on behind this event: at most a thousand are listed."`
	JSON      bool   `name:"json" env:"VELOCITY_JSON" help:"Print the deliveries as the HTTP interface gives them."`
	ask.Flags `embed:""`
}

// Run prints the deliveries by the ids of their events.
func (c *webhookDeliveriesCmd) Run(ctx context.Context, p *shell.Process) error {
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	list, err := store.Client.Deliveries(ctx, c.ID, c.After)
	switch {
	case err != nil:
		return err
	case c.JSON:
		return shell.JSON(p.Stdout, api.Deliveries{Deliveries: list})
	case len(list) == 0:
		fmt.Fprintln(p.Stdout, "the webhook has received everything")
		return nil
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "event\ttype\tzone\tkey\ttries\tnext try\terror")
	for _, d := range list {
		next := shell.InstantOr("dead", d.NextAt.Time)
		fmt.Fprintf(w, "%d\t%s\t%d\t%s\t%d\t%s\t%s\n", d.EventID, d.Type, d.Bucket.ZoneID, shell.Printable(d.Bucket.Key),
			d.Tries, next, shell.Printable(d.Error))
	}
	return w.Flush()
}

type webhookResendCmd struct {
	ID               uint64 `arg:"" help:"Id of the webhook."`
	Event            uint64 `env:"-" placeholder:"ID" help:"Only the delivery of this event. Left out: all dead ones."`
	shell.ReasonFlag `embed:""`
	ask.Flags        `embed:""`
}

// Run has dead deliveries tried again.
func (c *webhookResendCmd) Run(ctx context.Context, p *shell.Process) error {
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	n, err := store.Client.Resend(ctx, c.ID, c.Event, p.Principal)
	if err == nil {
		fmt.Fprintf(p.Stdout, "%s will be tried again\n", shell.Counted(n, "event"))
	}
	return err
}

type webhookRemoveCmd struct {
	ID        uint64 `arg:"" help:"Id of the webhook."`
	ask.Flags `embed:""`
}

// Run removes the webhook.
func (c *webhookRemoveCmd) Run(ctx context.Context, p *shell.Process) error {
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.Client.RemoveWebhook(ctx, c.ID, p.Principal); err != nil {
		return err
	}
	fmt.Fprintf(p.Stdout, "webhook %d gets no more events\n", c.ID)
	return nil
}
