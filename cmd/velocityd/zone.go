package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"velocityd/service"
)

type zoneCmd struct {
	List zoneListCmd `cmd:"" help:"List all zones."`
	Set  zoneSetCmd  `cmd:"" help:"Create or change a zone. It takes effect at the next check."`
}

// Help is the longer explanation of the command.
func (zoneCmd) Help() string {
	return `Zones are rows of zone_master; plain SQL changes them as well.

Example:

  velocityd zone set 1 --rate 5 --window 60 --description 'login per user'`
}

type zoneListCmd struct {
	databaseFlags `embed:""`
}

// Run prints all zones.
func (c *zoneListCmd) Run(ctx context.Context, p *process) error {
	pool, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	zones, err := pool.Zones(ctx)
	if err != nil {
		return err
	}
	if len(zones) == 0 {
		fmt.Fprintln(p.stdout, "no zones; 'velocityd zone set' creates one")
		return nil
	}
	printZones(p.stdout, zones)
	return nil
}

type zoneSetCmd struct {
	ID            int64   `arg:"" help:"The zone's id."`
	Rate          *int    `env:"-" placeholder:"N" help:"Most allowed attempts in a window; 0 allows none."`
	Window        *int64  `env:"-" placeholder:"SECONDS" help:"The window's length in seconds."`
	Description   *string `env:"-" placeholder:"TEXT" help:"What the zone is for."`
	databaseFlags `embed:""`
}

// Help is the longer explanation of the command.
func (zoneSetCmd) Help() string {
	return `A new zone needs --rate and --window. Of a zone that exists, what is not named stays as it is.`
}

// Run creates or changes the zone.
func (c *zoneSetCmd) Run(ctx context.Context, p *process) error {
	if c.Rate == nil && c.Window == nil && c.Description == nil {
		return usagef("nothing to set: name --rate, --window or --description")
	}
	pool, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	zone, err := pool.Zone(ctx, c.ID)
	if isNew := errors.Is(err, service.ErrNotFound); err != nil && !isNew {
		return err
	} else if isNew && (c.Rate == nil || c.Window == nil) {
		return usagef("zone %d does not exist: a new one needs --rate and --window", c.ID)
	}
	zone = c.apply(zone)
	if err := zone.Validate(); err != nil {
		return usageError{err: err}
	}
	if err := pool.SetZone(ctx, zone); err != nil {
		return err
	}
	printZones(p.stdout, []service.Zone{zone})
	return nil
}

// apply returns zone with what was named on the command line.
func (c *zoneSetCmd) apply(zone service.Zone) service.Zone {
	zone.ID = c.ID
	if c.Rate != nil {
		zone.Rate = *c.Rate
	}
	if c.Window != nil {
		zone.Window = time.Duration(*c.Window) * time.Second
		// Seconds beyond what a Duration holds must not come round as few.
		if zone.Window/time.Second != time.Duration(*c.Window) {
			zone.Window = service.MaxWindow + time.Second
		}
	}
	if c.Description != nil {
		zone.Description = *c.Description
	}
	return zone
}

func printZones(w io.Writer, zones []service.Zone) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  id\trate\twindow\tdescription")
	for _, z := range zones {
		fmt.Fprintf(table, "  %d\t%d\t%d s\t%s\n", z.ID, z.Rate, int64(z.Window/time.Second), printable(z.Description))
	}
	_ = table.Flush() // a reader that has gone needs no table
}
