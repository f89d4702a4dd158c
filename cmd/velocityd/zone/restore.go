package zone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/server"
	"velocityd/cmd/velocityd/shell"
	"velocityd/db"
	"velocityd/service"
	"velocityd/service/audit"
	"velocityd/service/lint"
	"velocityd/service/undo"
)

// mostListedChanges is how many lines zone restore lists.
const mostListedChanges = 30

type restoreCmd struct {
	Change            uint64 `arg:"" optional:"" name:"audit-id" help:"Id of the change in zone_audit. Without it, the newest changes are listed."`
	shell.YesFlag     `embed:""`
	ask.DatabaseFlags `embed:""`
	shell.ReasonFlag  `embed:""`
}

func (restoreCmd) Help() string {
	return `The zone of the change gets the settings that it had before the change. Later changes are undone, too. Of
its overrides, those come back that have been deleted since. Overrides that were made since stay, also where another
one was deleted. The command shows first what it is about to do, and asks.

It needs the database, whose zone_audit it reads: the account is the schema owner's or one of 'velocityd migrate roles
--dba'. If overrides were deleted before their zone, name the first of these deletions.

Example:

  velocityd zone restore
  velocityd zone restore 4711`
}

// Run shows the differences, asks, and restores; or lists changes.
func (c *restoreCmd) Run(ctx context.Context, p *shell.Process) error {
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	if c.Change == 0 {
		groups, err := store.Records.NewestChanges(ctx, mostListedChanges)
		if err == nil {
			printChanges(p.Stdout, groups)
		}
		return err
	}
	zone, overrides, err := c.plan(ctx, store)
	if err != nil {
		return err
	}
	if zone.isNone() && len(overrides) == 0 {
		fmt.Fprintf(p.Stdout, "nothing to do: zone %d is as it was before change %d\n", zone.wanted.ID, c.Change)
		return nil
	}
	if !zone.isNone() {
		zone.print(p.Stdout)
		printFindings(p.Stderr, lint.Brought(time.Now(), zone.now, zone.wanted))
	}
	if len(overrides) > 0 {
		fmt.Fprintln(p.Stdout, "overrides that come back:")
		printOverrides(p.Stdout, time.Now(), overrides)
	}
	for _, o := range overrides {
		printFindings(p.Stderr, lint.OfOverride(time.Now(), zone.wanted, o))
	}
	if err := c.Confirm(ctx, p, fmt.Sprintf("Restore zone %d?", zone.wanted.ID)); err != nil {
		return err
	}
	return restore(ctx, p, store, zone, overrides)
}

// plan returns the change of the zone, and the overrides that are to come back.
func (c *restoreCmd) plan(
	ctx context.Context, store *db.Store,
) (zone zoneChange, overrides []service.Override, err error) {
	id, edits, err := store.Records.EditsSince(ctx, c.Change)
	if errors.Is(err, service.ErrNotFound) {
		err = fmt.Errorf("%w ('velocityd zone restore' lists the newest changes of zones and overrides)", err)
	}
	if err == nil {
		zone, err = zoneBefore(ctx, store, id, edits)
	}
	if err == nil {
		overrides, err = deletedOverrides(ctx, store, id, edits)
	}
	return zone, overrides, err
}

// zoneBefore returns the change that makes a zone what it was before the first of edits.
func zoneBefore(ctx context.Context, store *db.Store, id int64, edits []audit.Edit) (zoneChange, error) {
	now, err := store.Records.Zone(ctx, id)
	if err != nil && !errors.Is(err, service.ErrNotFound) {
		return zoneChange{}, err
	}
	before, madeBy := undo.Zone(edits)
	switch {
	case madeBy != 0:
		return zoneChange{}, fmt.Errorf(
			"%w: there was no zone %d before change %d, which made it; 'velocityd zone delete %d' removes it",
			service.ErrConflict, id, madeBy, id)
	case before != nil:
		return zoneChange{now: now, wanted: *before}, nil
	}
	return zoneChange{now: now, wanted: now}, nil // only overrides were changed
}

// deletedOverrides returns the overrides of a zone that come back.
func deletedOverrides(
	ctx context.Context, store *db.Store, zone int64, edits []audit.Edit,
) ([]service.Override, error) {
	now, err := store.Records.Now(ctx)
	if err != nil {
		return nil, err
	}
	there, err := service.AllOverrides(ctx, store.Records, zone)
	if err != nil && !errors.Is(err, service.ErrNotFound) {
		return nil, err
	}
	return undo.Overrides(edits, there, now), nil
}

// restore writes the zone and adds the overrides, which get new ids.
func restore(
	ctx context.Context, p *shell.Process, store *db.Store, zone zoneChange, overrides []service.Override,
) error {
	if !zone.isNone() {
		if err := putZones(ctx, p, server.WithPseudonyms(store, nil), []zoneChange{zone}); err != nil {
			return err
		}
	}
	for i, o := range overrides {
		if _, err := store.Records.AddOverride(ctx, o, p.Principal); err != nil {
			return fmt.Errorf("%d of %s came back, and override %d did not: %w", i, shell.Counted(len(overrides), "override"),
				o.ID, err)
		}
	}
	if len(overrides) > 0 {
		fmt.Fprintf(p.Stdout, "%s came back\n", shell.Counted(len(overrides), "override"))
	}
	return nil
}

func printChanges(w io.Writer, groups []audit.ChangeGroup) {
	if len(groups) == 0 {
		fmt.Fprintln(w, "no zone or override was ever changed")
		return
	}
	verbs := map[string]string{"insert": "made", "update": "changed", "delete": "deleted"}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  id\tfirst at\tchange\tby\ton behalf of")
	for _, g := range groups {
		what := fmt.Sprintf("zone %d", g.ZoneID)
		if g.OfOverride {
			what = fmt.Sprintf("%s of zone %d", shell.Counted(g.Number, "override"), g.ZoneID)
		} else if g.Number > 1 {
			what += fmt.Sprintf(", %d times,", g.Number)
		}
		fmt.Fprintf(table, "  %d\t%s\t%s %s\t%s\t%s\n", g.ID, shell.InstantOr("", g.At), what, verbs[g.Action],
			shell.Printable(g.By), shell.Printable(g.Principal))
	}
	_ = table.Flush() // run tells of it
}
