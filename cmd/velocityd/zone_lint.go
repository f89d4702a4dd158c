package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"velocityd/service"
)

// errFindings makes run end with exitFindings. It is an answer, not a fault.
var errFindings = errors.New("findings")

type zoneLintCmd struct {
	IDs           []int64 `arg:"" optional:"" name:"id" help:"Zones to look at. Without it, all zones."`
	endpointFlags `embed:""`
}

// Help is the longer explanation of the command.
func (zoneLintCmd) Help() string {
	return `Prints a line for each setting that is allowed but probably not meant. Examples are a rate that no bucket can reach, a lockout shorter than the window, addresses or user names in a zone whose keys are opaque, a zone that does not enforce, and an override that has expired or matches no bucket. Changes nothing.

Exit code 0 means no findings, 4 findings.

Example:

  velocityd zone lint 1 2`
}

// Run prints the findings about the zones.
func (c *zoneLintCmd) Run(ctx context.Context, p *process) error {
	store, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer store.release()
	zones, err := c.zones(ctx, store)
	if err != nil {
		return err
	}
	found := 0
	for _, zone := range zones {
		overrides, err := overridesOf(ctx, store, zone.ID)
		if err != nil {
			return err
		}
		for _, finding := range service.Lint(time.Now(), zone, overrides) {
			found++
			fmt.Fprintln(p.stdout, describeFinding(finding))
		}
	}
	if found > 0 {
		return errFindings
	}
	fmt.Fprintf(p.stdout, "no findings in %s\n", counted(len(zones), "zone"))
	return nil
}

// describeFinding writes a finding of lint in one line.
func describeFinding(finding service.Finding) string {
	where := fmt.Sprintf("zone %d", finding.ZoneID)
	if finding.OverrideID != 0 {
		where += fmt.Sprintf(", override %d", finding.OverrideID)
	}
	return fmt.Sprintf("%s: %s: %s", where, finding.Field, finding.Text)
}

// counted writes a number of things whose plural ends in s: "1 zone", "2 zones".
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func (c *zoneLintCmd) zones(ctx context.Context, store endpoint) ([]service.Zone, error) {
	if len(c.IDs) == 0 {
		return store.Zones(ctx)
	}
	zones := make([]service.Zone, len(c.IDs))
	for i, id := range c.IDs {
		zone, err := store.Zone(ctx, id)
		if err != nil {
			return nil, err
		}
		zones[i] = zone
	}
	return zones, nil
}
