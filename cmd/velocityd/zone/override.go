package zone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"velocityd/api"
	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
	"velocityd/service/lint"
)

// OverrideCommand is override with its commands.
type OverrideCommand struct {
	List   overrideListCmd   `cmd:"" help:"List the overrides of a zone, or of all zones."`
	Set    overrideSetCmd    `cmd:"" help:"Make an exception for a key or a network. It replaces an earlier one."`
	Delete overrideDeleteCmd `cmd:"" help:"Remove an override."`
}

func (OverrideCommand) Help() string {
	return `An override is an exception from a zone's limit, and a row of zone_override. An override of the exact key
wins over those of networks, and a longer network over a shorter one. zone_audit records the author of a change.

Example:

  velocityd override set 2 203.0.113.0/24 --action deny --expires 24h --reason 'guessing since noon'`
}

type overrideListCmd struct {
	Zone      *int64 `arg:"" optional:"" help:"Zone whose overrides to list. Without it, those of all zones are listed."`
	JSON      bool   `name:"json" env:"VELOCITY_JSON" help:"Print the overrides as the HTTP interface gives them."`
	ask.Flags `embed:""`
}

// Run prints the overrides by zone and id. Expired overrides are marked as expired.
func (c *overrideListCmd) Run(ctx context.Context, p *shell.Process) error {
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	overrides, err := c.overrides(ctx, store)
	if err != nil {
		return err
	}
	switch {
	case c.JSON:
		return shell.JSON(p.Stdout, api.Overrides{Overrides: overrides})
	case len(overrides) == 0:
		fmt.Fprintln(p.Stdout, "no overrides; 'velocityd override set' makes one")
	default:
		printOverrides(p.Stdout, time.Now(), overrides)
	}
	return nil
}

// overrides returns the overrides of the named zone, or of all zones.
func (c *overrideListCmd) overrides(ctx context.Context, store ask.Endpoint) ([]service.Override, error) {
	if c.Zone != nil {
		return service.AllOverrides(ctx, store, *c.Zone)
	}
	zones, err := store.Zones(ctx)
	if err != nil {
		return nil, err
	}
	var all []service.Override
	for _, zone := range zones {
		overrides, err := service.AllOverrides(ctx, store, zone.ID)
		if err != nil && !errors.Is(err, service.ErrNotFound) { // not found: the zone was deleted meanwhile
			return nil, err
		}
		all = append(all, overrides...)
	}
	return all, nil
}

type overrideDeleteCmd struct {
	Zone             int64  `arg:"" help:"Zone of the override."`
	Override         string `arg:"" name:"id-key-or-prefix" help:"The override's id, as override list shows it; or else its key or network."`
	ask.Flags        `embed:""`
	shell.ReasonFlag `embed:""`
	SameReason       bool `env:"-" help:"Remove the override only if it was made for --reason. Otherwise nothing is removed, and the exit code is 0."`
}

// Run removes the override and prints it.
func (c *overrideDeleteCmd) Run(ctx context.Context, p *shell.Process) error {
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	remove := store.DeleteOverride
	if c.SameReason {
		remove = store.EndOverride
	}
	override, err := c.find(ctx, store)
	if err == nil {
		err = remove(ctx, c.Zone, override.ID, p.Principal)
	}
	if c.SameReason && (errors.Is(err, service.ErrNotFound) || errors.Is(err, service.ErrConflict)) {
		fmt.Fprintln(p.Stdout, "no such override of this reason: nothing changes")
		return nil
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(p.Stdout, "removed:")
	printOverrides(p.Stdout, time.Now(), []service.Override{override})
	return nil
}

// find returns the override that is named. A number is an id, and never a key.
func (c *overrideDeleteCmd) find(ctx context.Context, store ask.Endpoint) (service.Override, error) {
	if id, err := strconv.ParseUint(c.Override, 10, 64); err == nil {
		return store.Override(ctx, c.Zone, id)
	}
	zone, err := store.Zone(ctx, c.Zone)
	if err != nil {
		return service.Override{}, err
	}
	key, prefix, err := zone.Keys.Target(c.Override)
	if err != nil {
		return service.Override{}, shell.UsageError{Err: err}
	}
	return overrideOf(ctx, store, c.Zone, key, prefix)
}

type overrideSetCmd struct {
	Zone          int64                  `arg:"" help:"Zone to make the exception in."`
	Target        string                 `arg:"" name:"key-or-prefix" help:"Bucket key. In a zone whose keys are addresses, also a network such as 203.0.113.0/24."`
	Action        service.OverrideAction `env:"-" required:"" enum:"allow,deny,limit" placeholder:"ACTION" help:"allow: always allowed and not counted; deny: always blocked; limit: --rate instead of the zone's, and --window or --period-anchor if given."`
	Rate          *int                   `env:"-" placeholder:"N" help:"With limit: most allowed attempts in a window."`
	Window        *shell.Duration        `env:"-" placeholder:"LENGTH" help:"With limit: the length of a sliding window: seconds, or 90s, 5m, 7d. Left out: the window or period of the zone."`
	PeriodAnchor  *int                   `env:"-" placeholder:"DAY" help:"With limit and without --window, in a zone with the period month: the day on which this bucket's months begin, such as the day of its subscription."`
	Expires       string                 `env:"-" placeholder:"WHEN" help:"When the override ends: a length from now by the database's clock (72h, 7d), a date (2026-12-31, its first instant in UTC), or a time (2026-12-31T23:59:59Z). Left out: never."`
	Reason        string                 `env:"-" required:"" placeholder:"TEXT" help:"The reason, which is stored with the override."`
	shell.YesFlag `embed:""`
	ask.Flags     `embed:""`
	SameReason    bool `env:"-" help:"For programs that share keys: of two overrides of the same action, the one that ends later stays, with its reason. One of another action stays, and the exit code is 1."`
}

func (overrideSetCmd) Help() string {
	return `An override of the same key or network is replaced as a whole. Keys are normalised by the rule of the zone.
In a zone whose keys are addresses, an address means its bucket (203.0.113.9 in a zone with ipv4_prefix 24 is
203.0.113.0/24), and the prefix of a network must not be longer than that of the zone's buckets. If the override is
probably not meant, such as a deny of 0.0.0.0/0, the command says so, and asks on a terminal before it saves it.

Examples:

  velocityd override set 1 alice --action limit --rate 50 --window 60 --reason 'load test' --expires 2h
  velocityd override set 2 192.0.2.0/24 --action allow --reason 'our office'
  velocityd override set 2 203.0.113.9 --action deny --expires 1h --reason 'scanner on web1: 203.0.113.9' --same-reason`
}

// Run makes the override, or replaces the one of the same key or network.
func (c *overrideSetCmd) Run(ctx context.Context, p *shell.Process) error {
	if err := c.validate(); err != nil {
		return err
	}
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	ctx = service.WithReason(ctx, c.Reason)
	override, err := c.override(ctx, p, store)
	if err != nil {
		return err
	}
	made, err := c.put(ctx, store, override, p.Principal)
	if errors.Is(err, service.ErrConflict) || errors.Is(err, service.ErrNotFound) {
		// Another program has just deleted the earlier override, or made one.
		made, err = c.put(ctx, store, override, p.Principal)
	}
	if err != nil {
		return err
	}
	printOverrides(p.Stdout, time.Now(), []service.Override{made})
	return nil
}

// validate returns a shell.UsageError for flags that are wrong in every database.
func (c *overrideSetCmd) validate() error {
	switch {
	case c.Action == service.OverrideLimit && c.Rate == nil:
		return shell.Usagef("--action limit needs --rate")
	case c.Action != service.OverrideLimit && (c.Rate != nil || c.Window != nil || c.PeriodAnchor != nil):
		return shell.Usagef("--rate, --window and --period-anchor belong to --action limit alone")
	case isZero(c.PeriodAnchor) || isZero(c.Window):
		return shell.Usagef("--window and --period-anchor must not be 0")
	case strings.TrimSpace(c.Reason) == "":
		return shell.Usagef("--reason must not be empty")
	}
	_, err := shell.ParseExpiry(c.Expires, time.Now())
	return err
}

// override returns the wanted override, its key normalised by the rule of the zone, unless a person is asked and says
// no. Its other errors are shell.UsageErrors or those of the store.
func (c *overrideSetCmd) override(ctx context.Context, p *shell.Process, store ask.Endpoint) (service.Override, error) {
	zone, err := store.Zone(ctx, c.Zone)
	if err != nil {
		return service.Override{}, err
	}
	o := service.Override{ZoneID: c.Zone, Action: c.Action, Reason: c.Reason, CreatedBy: p.Principal}
	if o.Key, o.Prefix, err = zone.Keys.Target(c.Target); err != nil {
		return o, shell.UsageError{Err: err}
	}
	replace(&o.Rate, c.Rate)
	replace(&o.Window.Duration, (*time.Duration)(c.Window))
	replace(&o.PeriodAnchor, c.PeriodAnchor)
	if c.Expires != "" {
		now, err := engineTime(ctx, store, zone.Keys, o)
		if err != nil {
			return o, err
		}
		if o.ExpiresAt.Time, err = shell.ParseExpiry(c.Expires, now); err != nil {
			return o, err
		}
	}
	if err := o.Validate(); err != nil {
		return o, shell.UsageError{Err: err}
	}
	return o, confirmFindings(ctx, p, c.YesFlag, lint.OfOverride(time.Now(), zone, o))
}

// engineTime returns the time of the database, whose clock decides when an override
// ends. It gets it by a peek at a bucket of the override.
func engineTime(
	ctx context.Context, store ask.Endpoint, keys service.KeyRule, o service.Override,
) (_ time.Time, err error) {
	bucket := service.Bucket{ZoneID: o.ZoneID, Key: o.Key}
	if o.Prefix.IsValid() {
		if bucket.Key, err = keys.Normalize(o.Prefix.Addr().String()); err != nil {
			return time.Time{}, err
		}
	}
	peek, err := store.Peek(ctx, bucket)
	return peek.At.Time, err
}

// put adds the override, or replaces the one of the same key or network.
func (c *overrideSetCmd) put(
	ctx context.Context, store ask.Endpoint, o service.Override, principal string,
) (service.Override, error) {
	if c.SameReason {
		return store.ExtendOverride(ctx, o, principal)
	}
	made, err := store.AddOverride(ctx, o, principal)
	if !errors.Is(err, service.ErrConflict) {
		return made, err
	}
	other, err := overrideOf(ctx, store, c.Zone, o.Key, o.Prefix)
	if errors.Is(err, service.ErrNotFound) {
		return o, fmt.Errorf("%w: another program has changed this override at the same time; try again", service.ErrConflict)
	}
	if err != nil {
		return o, err
	}
	o.ID = other.ID
	return store.SetOverride(ctx, o, principal)
}

// overrideOf returns the override of a key or a network. The error wraps
// service.ErrNotFound if there is none.
func overrideOf(
	ctx context.Context, store ask.Endpoint, zone int64, key string, prefix netip.Prefix,
) (service.Override, error) {
	if key != "" {
		// A peek reads one bucket, and knows the pseudonym of a key. It does not have overrides that have expired.
		peek, err := store.Peek(ctx, service.Bucket{ZoneID: zone, Key: key})
		if err != nil {
			return service.Override{}, err
		}
		if o := peek.Override; o != nil && !o.Prefix.IsValid() {
			return *o, nil
		}
	}
	all, err := service.AllOverrides(ctx, store, zone)
	if err != nil {
		return service.Override{}, err
	}
	for _, o := range all {
		if o.Key == key && o.Prefix == prefix {
			return o, nil
		}
	}
	return service.Override{}, fmt.Errorf("%w: zone %d has no such override ('velocityd override list %d' shows them)",
		service.ErrNotFound,
		zone, zone)
}

func printOverrides(w io.Writer, now time.Time, overrides []service.Override) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  zone\tid\tkey or network\taction\texpires\tby\treason")
	for _, o := range overrides {
		fmt.Fprintf(table, "  %d\t%d\t%s\t%s\t%s\t%s\t%s\n", o.ZoneID, o.ID, targetOf(o), actionOf(o),
			shell.Expiry(o.ExpiresAt.Time, now),
			shell.Printable(o.CreatedBy), shell.Printable(o.Reason))
	}
	_ = table.Flush() // run tells of it
}

// OverrideText returns an override in words, without its zone. Whether it has expired is told by now.
func OverrideText(o service.Override, now time.Time) string {
	return fmt.Sprintf("%d: %s, %s, expires %s, by %s: %s", o.ID, targetOf(o), actionOf(o),
		shell.Expiry(o.ExpiresAt.Time, now), shell.Printable(o.CreatedBy), shell.Printable(o.Reason))
}

func targetOf(o service.Override) string {
	if o.Prefix.IsValid() {
		return o.Prefix.String()
	}
	return shell.Printable(o.Key)
}

func actionOf(o service.Override) string {
	switch {
	case o.Action != service.OverrideLimit:
	case o.Window.Duration > 0:
		return fmt.Sprintf("limit %d in %d s", o.Rate, service.WholeSeconds(o.Window.Duration))
	case o.PeriodAnchor > 0:
		return fmt.Sprintf("limit %d, months from day %d", o.Rate, o.PeriodAnchor)
	default:
		return fmt.Sprintf("limit %d", o.Rate)
	}
	return string(o.Action)
}

func isZero[T comparable](named *T) bool {
	var zero T
	return named != nil && *named == zero
}

func replace[T any](setting, named *T) {
	if named != nil {
		*setting = *named
	}
}
