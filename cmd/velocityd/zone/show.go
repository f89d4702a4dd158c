package zone

import (
	"context"

	"velocityd/api"
	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
)

type showCmd struct {
	IDs       []int64 `arg:"" optional:"" name:"id" help:"Zones to show. Without it, all zones."`
	JSON      bool    `name:"json" env:"VELOCITY_JSON" help:"Print JSON, as GET /v1/zones answers."`
	ask.Flags `embed:""`
}

func (showCmd) Help() string {
	return `Prints YAML, or JSON with --json. 'velocityd zone apply' reads both.

Example:

  velocityd zone show >zones.yaml`
}

// Run prints the zones with all their settings.
func (c *showCmd) Run(ctx context.Context, p *shell.Process) error {
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	zones, err := zonesOf(ctx, store, c.IDs)
	if err != nil {
		return err
	}
	if c.JSON {
		return shell.JSON(p.Stdout, api.Zones{Zones: zones})
	}
	writeZones(p.Stdout, zones)
	return nil
}
