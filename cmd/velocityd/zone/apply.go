package zone

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/handlers"
	"velocityd/service"
	"velocityd/service/lint"
)

// mostZoneBytes is the longest file of zones that is read.
const mostZoneBytes = 64 << 20

type applyCmd struct {
	File             string `arg:"" help:"YAML or JSON, as 'velocityd zone show' prints it."`
	shell.YesFlag    `embed:""`
	ask.Flags        `embed:""`
	shell.ReasonFlag `embed:""`
}

func (applyCmd) Help() string {
	return `Shows first how the zones of the file differ from those that are there, and asks. A setting that the file
leaves out has its default. Zones that the file does not name stay as they are.

A change by another program meanwhile is not overwritten: the command stops at a zone that is not as it was shown
any more. If the file has a zone's revision, the zone must still have it, unless it was deleted; leave revision out to
overwrite the present settings.

Example:

  velocityd zone show >zones.yaml
  velocityd zone apply zones.yaml`
}

// Run shows the changes, asks, and makes them.
func (c *applyCmd) Run(ctx context.Context, p *shell.Process) error {
	text, err := shell.ReadFile(c.File, mostZoneBytes)
	if err != nil {
		return shell.UsageError{Err: err}
	}
	wanted, err := readZones(text)
	if err != nil {
		return shell.Usagef("%s: %w", c.File, err)
	}
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	there, err := store.Zones(ctx)
	if err != nil {
		return err
	}
	changes, err := changesOf(there, wanted)
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		fmt.Fprintln(p.Stdout, "nothing to do: the zones are as in the file")
		return nil
	}
	for _, change := range changes {
		change.print(p.Stdout)
		printFindings(p.Stderr, lint.Brought(time.Now(), change.now, change.wanted))
	}
	if err := c.Confirm(ctx, p, "Write "+shell.Counted(len(changes), "zone")+"?"); err != nil {
		return err
	}
	return putZones(ctx, p, store, changes)
}

// changesOf returns how zones that are there must change to be as wanted. The error names all zones
// whose revision is not the wanted one.
func changesOf(there, wanted []service.Zone) ([]zoneChange, error) {
	var changes []zoneChange
	var stale []string
	for _, zone := range wanted {
		change := zoneChange{wanted: zone}
		if i := slices.IndexFunc(there, func(z service.Zone) bool { return z.ID == zone.ID }); i >= 0 {
			change.now = there[i]
		}
		switch {
		case change.isNone():
			continue
		case change.now.ID != 0 && zone.Revision != 0 && zone.Revision != change.now.Revision:
			stale = append(stale,
				fmt.Sprintf("zone %d has revision %d, and the file is about %d", zone.ID, change.now.Revision, zone.Revision))
		}
		changes = append(changes, change)
	}
	if len(stale) > 0 {
		return nil, fmt.Errorf(
			"%w: %s: it was changed since the file was made; leave revision out of the file to overwrite the change",
			service.ErrPrecondition, strings.Join(stale, "; "))
	}
	return changes, nil
}

// putZones writes zones that are still as they were read, up to the first that is not.
func putZones(ctx context.Context, p *shell.Process, store handlers.Writer, changes []zoneChange) error {
	var put []service.Zone
	var failed error
	for _, change := range changes {
		zone, err := store.PutZone(ctx, change.wanted, change.match(), p.Principal)
		if err != nil {
			failed = explainStale(err)
			break
		}
		put = append(put, zone)
	}
	if len(put) > 0 {
		fmt.Fprintln(p.Stdout, "written:")
		Print(p.Stdout, put)
	}
	if failed != nil && len(put) < len(changes)-1 {
		return fmt.Errorf("%w; the zones after it were not written either", failed)
	}
	return failed
}
