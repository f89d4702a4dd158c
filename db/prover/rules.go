package prover

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"

	"velocityd/db/zonerow"
	"velocityd/service"
	"velocityd/service/proof"
)

// readRules reads the changes of zones and overrides, the releases, and what there is now.
func readRules(ctx context.Context, on zonerow.Querier, rules *proof.Rules) error {
	if err := readChanges(ctx, on, rules); err != nil {
		return fmt.Errorf("zone_audit: %w", err)
	}
	zones, err := zonerow.Zones(ctx, on, "\n ORDER BY id")
	if err != nil {
		return fmt.Errorf("zone_master: %w", err)
	}
	for _, zone := range zones {
		rules.AddZone(zone)
	}
	if err := readOverrides(ctx, on, rules); err != nil {
		return fmt.Errorf("zone_override: %w", err)
	}
	return nil
}

// readChanges reads zone_audit.
func readChanges(ctx context.Context, on zonerow.Querier, rules *proof.Rules) (wrong error) {
	err := byPieces(ctx, on, `
SELECT id, `+microseconds("changed_at")+`, subject, zone_id, COALESCE(override_id, 0), state_before, state_after
  FROM zone_audit
 WHERE id > %d
   AND (subject IN ('zone', 'override') OR subject = 'bucket' AND action = 'release')
 ORDER BY id
 LIMIT %d`, func(id uint64, r reading) {
		if err := addChange(rules, r); err != nil && wrong == nil {
			wrong = fmt.Errorf("row %d: %w", id, err)
		}
	})
	return cmp.Or(err, wrong)
}

// addChange adds a row of zone_audit.
func addChange(rules *proof.Rules, r reading) (err error) {
	at, zoneID, id := r.instant(1), r.int(3), r.uint(4)
	switch r.text(2) {
	case "zone":
		var before, after *service.Zone
		if before, err = zoneOf(zoneID, r.values[5]); err == nil {
			after, err = zoneOf(zoneID, r.values[6])
		}
		rules.AddChange(at, zoneID, before, after)
	case "override":
		var before, after *service.Override
		if before, err = overrideOf(zoneID, id, r.values[5]); err == nil {
			after, err = overrideOf(zoneID, id, r.values[6])
		}
		rules.AddOverrideChange(at, id, before, after)
	default:
		rules.AddRelease(at, zoneID)
	}
	return err
}

// zoneOf returns the zone of a row in JSON, or nil for none.
func zoneOf(id int64, state []byte) (*service.Zone, error) {
	if len(state) == 0 {
		return nil, nil //nolint:nilnil // there was no zone
	}
	zone, err := service.ZoneOfState(id, state)
	return &zone, err
}

// overrideOf returns the override of a row in JSON, or nil for none.
func overrideOf(zoneID int64, id uint64, state []byte) (*service.Override, error) {
	if len(state) == 0 {
		return nil, nil //nolint:nilnil // there was no override
	}
	o, err := service.OverrideOfState(zoneID, id, state)
	return &o, err
}

// readOverrides reads zone_override.
func readOverrides(ctx context.Context, on zonerow.Querier, rules *proof.Rules) (wrong error) {
	err := byPieces(ctx, on, `
SELECT id, zone_id, COALESCE(bucket_key, ''), COALESCE(prefix, ''), action, rate, `+"`window`"+`, period_anchor, `+microseconds("expires_at")+`
  FROM zone_override
 WHERE id > %d
 ORDER BY id
 LIMIT %d`, func(id uint64, r reading) {
		o := service.Override{
			ID: id, ZoneID: r.int(1), Key: r.text(2), Action: service.OverrideAction(r.text(4)), Rate: int(r.int(5)),
			Window: service.Lasting(service.Seconds(r.int(6))), PeriodAnchor: int(r.int(7)), ExpiresAt: service.At(r.instant(8)),
		}
		if text := r.text(3); text != "" {
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				wrong = fmt.Errorf("the prefix of override %d cannot be read", id)
			}
			o.Prefix = prefix
		}
		rules.AddOverride(o)
	})
	return cmp.Or(err, wrong)
}
