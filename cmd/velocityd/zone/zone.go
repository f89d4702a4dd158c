// Package zone has the commands about zones and their overrides. It must not know how they are stored.
package zone

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"velocityd/api"
	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
)

// Command is zone with its commands.
type Command struct {
	List    listCmd    `cmd:"" help:"List all zones."`
	Show    showCmd    `cmd:"" help:"Print zones with their settings, for a file."`
	Set     setCmd     `cmd:"" help:"Create or change a zone. It takes effect at the next check."`
	Apply   applyCmd   `cmd:"" help:"Make zones what a file says, after a look at the differences."`
	Delete  deleteCmd  `cmd:"" help:"Remove a zone and its overrides. Checks in it are answered with not found."`
	Restore restoreCmd `cmd:"" help:"Make a zone what it was before a change that zone_audit has; also after a deletion."`
	Totals  totalsCmd  `cmd:"" help:"Print how many attempts a zone had, by hour, day or month."`
	Lint    lintCmd    `cmd:"" help:"Look for settings that are probably not meant."`
}

// MakeFlags makes the flags of zone set, one for each setting. The parser of command lines needs them.
func (c *Command) MakeFlags() { c.Set.Settings = newSettingFlags().Interface() }

func (Command) Help() string {
	return `Zones are rows of zone_master; plain SQL changes them as well. zone_audit records the author of a change.

Example:

  velocityd zone set 1 --rate 5 --window 60 --description 'login per user'`
}

type listCmd struct {
	JSON      bool `name:"json" env:"VELOCITY_JSON" help:"Print what GET /v1/zones answers."`
	ask.Flags `embed:""`
}

func (listCmd) Help() string {
	return `The settings column names what differs from the defaults.`
}

// Run prints all zones.
func (c *listCmd) Run(ctx context.Context, p *shell.Process) error {
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	zones, err := store.Zones(ctx)
	if err != nil {
		return err
	}
	switch {
	case c.JSON:
		return shell.JSON(p.Stdout, api.Zones{Zones: zones})
	case len(zones) == 0:
		fmt.Fprintln(p.Stdout, "no zones; 'velocityd zone set' creates one")
	default:
		Print(p.Stdout, zones)
	}
	return nil
}

type deleteCmd struct {
	ID               int64 `arg:"" help:"The zone's id."`
	shell.YesFlag    `embed:""`
	ask.Flags        `embed:""`
	shell.ReasonFlag `embed:""`
}

func (deleteCmd) Help() string {
	return `Asks first. The zone's overrides are removed, too. Its txns stay, and count again if a zone of this id is
created within their window. 'velocityd zone restore' brings a zone back.`
}

// Run removes the zone and prints it.
func (c *deleteCmd) Run(ctx context.Context, p *shell.Process) error {
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	zone, err := store.Zone(ctx, c.ID)
	if err != nil {
		return err
	}
	overrides, err := service.AllOverrides(ctx, store, c.ID)
	if err != nil {
		return err
	}
	question := fmt.Sprintf("Delete zone %d (%s) with %s? Its checks are then answered with 404.",
		c.ID, shell.Printable(zone.Description), shell.Counted(len(overrides), "override"))
	if err := c.Confirm(ctx, p, question); err != nil {
		return err
	}
	if err := store.DeleteZone(ctx, c.ID, service.Match{Revision: zone.Revision}, p.Principal); err != nil {
		return explainStale(err)
	}
	fmt.Fprintf(p.Stdout, "removed, with %s:\n", shell.Counted(len(overrides), "override"))
	Print(p.Stdout, []service.Zone{zone})
	return nil
}

// explainStale adds advice to ErrPrecondition about a concurrent edit.
func explainStale(err error) error {
	if errors.Is(err, service.ErrPrecondition) {
		return fmt.Errorf(
			"%w: another program is changing this zone; this command has not changed it, look at the zone and try again", err)
	}
	return err
}

// Print writes zones as a table.
func Print(w io.Writer, zones []service.Zone) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  id\trate\twindow\tdescription\tsettings")
	for _, z := range zones {
		fmt.Fprintf(table, "  %d\t%d\t%d s\t%s\t%s\n", z.ID, z.Rate, service.WholeSeconds(z.Window),
			shell.Printable(z.Description),
			cmp.Or(strings.Join(differences(z), " "), "defaults"))
	}
	_ = table.Flush() // run tells of it
}

// differences returns the settings of a zone that differ from the defaults, but for those that
// have a column of their own.
func differences(z service.Zone) []string {
	z = z.WithDefaults()
	byDefault := service.Zone{Rate: z.Rate, Window: z.Window, Description: z.Description}.WithDefaults()
	var named []string
	for _, setting := range service.Settings {
		if value := setting.Text(&z); value != setting.Text(&byDefault) {
			named = append(named, setting.Name+"="+strings.Trim(value, `"`))
		}
	}
	return named
}
