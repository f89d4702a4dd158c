package zone

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"velocityd/cmd/velocityd/ask"
	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
	"velocityd/service/lint"
)

type lintCmd struct {
	IDs       []int64 `arg:"" optional:"" name:"id" help:"Zones to look at. Without it, all zones."`
	JSON      bool    `name:"json" env:"VELOCITY_JSON" help:"Print the findings as JSON."`
	ask.Flags `embed:""`
}

func (lintCmd) Help() string {
	return `Prints a line for each setting that is allowed but probably not meant, because it voids the limit or does
nothing, by itself or with another one. Examples are a rate that no bucket can reach, reset_on_success in a zone of
addresses, settings of lockouts where lockout is 0, a description of user names or addresses where keys are opaque, a
zone that does not enforce, and an override that has expired, matches no bucket, allows much of the Internet, or has
far more than the zone's rate. Of each override the weightiest finding is printed. That there are no zones at all is a
finding, too. Changes nothing.

Exit code 0 means no findings, 4 findings.

Example:

  velocityd zone lint 1 2`
}

// Run prints the findings about the zones.
func (c *lintCmd) Run(ctx context.Context, p *shell.Process) error {
	store, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	zones, err := zonesOf(ctx, store, c.IDs)
	if err != nil {
		return err
	}
	findings, err := c.findings(ctx, store, zones)
	if err != nil {
		return err
	}
	if err := c.print(p.Stdout, len(zones), findings); err != nil {
		return err
	}
	if len(findings) > 0 {
		return shell.ErrFindings
	}
	return nil
}

// findings returns the findings about zones. Without any of them every check is refused.
func (c *lintCmd) findings(ctx context.Context, store ask.Endpoint, zones []service.Zone) ([]lint.Finding, error) {
	if len(zones) == 0 {
		return []lint.Finding{{Field: "zones", Text: "there are none, so every check is answered with 404; " +
			"'velocityd zone set' makes one, and 'velocityd zone restore' brings deleted ones back"}}, nil
	}
	var findings []lint.Finding
	for _, zone := range zones {
		overrides, err := service.AllOverrides(ctx, store, zone.ID)
		if err != nil {
			return nil, err
		}
		findings = append(findings, lint.Findings(time.Now(), zone, overrides)...)
	}
	return findings, nil
}

// findingJSON is a finding as JSON.
type findingJSON struct {
	ZoneID     int64  `json:"zone_id,omitzero"`
	OverrideID uint64 `json:"override_id,string,omitzero"`
	Field      string `json:"field"`
	Text       string `json:"text"`
}

func (c *lintCmd) print(w io.Writer, zones int, findings []lint.Finding) error {
	if c.JSON {
		list := make([]findingJSON, len(findings))
		for i, f := range findings {
			list[i] = findingJSON{ZoneID: f.ZoneID, OverrideID: f.OverrideID, Field: f.Field, Text: f.Text}
		}
		return json.NewEncoder(w).Encode(struct {
			Zones    int           `json:"zones"`
			Findings []findingJSON `json:"findings"`
		}{zones, list})
	}
	for _, finding := range findings {
		fmt.Fprintln(w, finding)
	}
	if len(findings) == 0 {
		fmt.Fprintf(w, "no findings in %s\n", shell.Counted(zones, "zone"))
	}
	return nil
}

// zonesOf returns the zones with these ids, or all zones if there are no ids.
func zonesOf(ctx context.Context, store ask.Endpoint, ids []int64) ([]service.Zone, error) {
	if len(ids) == 0 {
		return store.Zones(ctx)
	}
	zones := make([]service.Zone, len(ids))
	for i, id := range ids {
		zone, err := store.Zone(ctx, id)
		if err != nil {
			return nil, err
		}
		zones[i] = zone
	}
	return zones, nil
}
