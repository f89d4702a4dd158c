package verify

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"

	"velocityd/db/zonerow"
	"velocityd/service"
	"velocityd/service/audit"
	"velocityd/service/proof"
)

// readRules reads the changes of zones and overrides, the releases, and the present settings.
func readRules(ctx context.Context, on zonerow.Querier, rules *proof.Rules) error {
	const changes = "subject IN ('zone', 'override') OR " + releases
	if err := readChanges(ctx, on, rules, changes); err != nil {
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

// releases are the rows of zone_audit about buckets that were released.
const releases = "subject = 'bucket' AND action = 'release'"

// readReleases reads the releases alone.
func readReleases(ctx context.Context, on zonerow.Querier, rules *proof.Rules) error {
	return readChanges(ctx, on, rules, releases)
}

func readChanges(ctx context.Context, on zonerow.Querier, rules *proof.Rules, which string) (wrong error) {
	err := byPieces(ctx, on, `
SELECT id, `+microseconds("changed_at")+`, subject, zone_id, COALESCE(override_id, 0), state_before, state_after, action
  FROM zone_audit
 WHERE id > %d
   AND (`+which+`)
 ORDER BY id
 LIMIT %d`, func(id uint64, r reading) {
		if err := addChange(rules, r); err != nil && wrong == nil {
			wrong = fmt.Errorf("row %d: %w", id, err)
		}
	})
	return cmp.Or(err, wrong)
}

func addChange(rules *proof.Rules, r reading) error {
	at := r.instant(1)
	entry := audit.Entry{
		Subject: r.text(2), ZoneID: r.int(3), OverrideID: r.uint(4), Before: []byte(r.values[5]), After: []byte(r.values[6]),
	}
	entry.Action = r.text(7)
	edit, err := entry.Edit()
	switch {
	case err != nil:
		return err
	case edit.Released != nil:
		rules.AddRelease(at, *edit.Released)
	case entry.Subject == "bucket": // without a key
	case entry.Subject == "zone":
		rules.AddChange(at, entry.ZoneID, edit.ZoneBefore, edit.ZoneAfter)
	default:
		rules.AddOverrideChange(at, entry.OverrideID, edit.OverrideBefore, edit.OverrideAfter)
	}
	return nil
}

func readOverrides(ctx context.Context, on zonerow.Querier, rules *proof.Rules) (wrong error) {
	err := byPieces(ctx, on, `
SELECT id, zone_id, COALESCE(bucket_key, ''), COALESCE(prefix, ''), action, rate, `+"`window`"+`, period_anchor,
       `+microseconds("expires_at")+`
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
