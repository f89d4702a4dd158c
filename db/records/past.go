package records

import (
	"context"
	"database/sql"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/db/zonerow"
	"velocityd/service"
	"velocityd/service/audit"
	"velocityd/service/explain"
)

// Past returns the zones of some buckets and the overrides that may hold for them as they are now, their edits
// since an instant, and the engine's clock. It takes no lock and sees everything as it was at one instant. Errors are
// those of look-ups: service.ErrForbidden without the right to read zone_audit.
func (s *Tables) Past(
	ctx context.Context, buckets []service.Bucket, since time.Time,
) (r explain.Records, now time.Time, err error) {
	p := past{buckets: buckets, Records: explain.Records{Since: since}}
	for _, b := range buckets {
		if !slices.Contains(p.zones, b.ZoneID) {
			p.zones = append(p.zones, b.ZoneID)
		}
	}
	err = s.pool.InTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead}, func(tx *sqlx.Tx) error {
		for _, read := range []func(context.Context, *sqlx.Tx) error{p.readClock, p.readZones, p.readOverrides} {
			if err := read(ctx, tx); err != nil {
				return err
			}
		}
		for _, zone := range p.zones {
			if err := p.readEdits(ctx, tx, zone, since); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return explain.Records{}, time.Time{}, fmt.Errorf("read the past of %d zones: %w", len(p.zones),
			session.LookupError(err))
	}
	slices.SortStableFunc(p.Edits, func(a, b audit.Edit) int { return b.At.Compare(a.At) })
	return p.Records, p.now, nil
}

// past is the state of one call of Past.
type past struct {
	explain.Records
	buckets []service.Bucket
	zones   []int64
	now     time.Time
}

// readClock reads the clock, and for how long txns and zone_audit are kept.
func (p *past) readClock(ctx context.Context, tx *sqlx.Tx) error {
	var policy struct {
		Now     time.Time `db:"read_at"`
		Keep    int       `db:"keep_days"`
		Audit   int       `db:"audit_days"`
		Minimum int       `db:"minimum_days"`
	}
	err := tx.GetContext(ctx, &policy, `
SELECT UTC_TIMESTAMP(6) AS read_at, keep_days, audit_days, minimum_days
  FROM retention_policy`)
	if p.now = policy.Now; err == nil && policy.Audit > 0 {
		p.Since = later(p.Since, p.now.AddDate(0, 0, -max(policy.Audit, policy.Minimum)))
	}
	if err == nil && policy.Keep > 0 {
		p.KeepDays = max(policy.Keep, policy.Minimum)
	}
	return err
}

func (p *past) readZones(ctx context.Context, tx *sqlx.Tx) error {
	zones, err := zonerow.Zones(ctx, tx, `
 WHERE id IN (`+session.Placeholders(len(p.zones))+`)`, session.Arguments(p.zones)...)
	p.Zones = make(map[int64]service.Zone, len(zones))
	for _, zone := range zones {
		p.Zones[zone.ID] = zone
	}
	return err
}

// readOverrides reads the overrides of the keys and of the networks that the buckets are in.
func (p *past) readOverrides(ctx context.Context, tx *sqlx.Tx) (err error) {
	var where []string
	var args []any
	for _, b := range p.buckets {
		where, args = append(where, "zone_id = ? AND bucket_key = ?"), append(args, b.ZoneID, b.Key)
		network, isAddress := service.NetworkOf(b.Key)
		if !isAddress {
			continue
		}
		where = append(where, "zone_id = ? AND network IN ("+session.Placeholders(network.Bits()+1)+")")
		args = append(args, b.ZoneID)
		for bits := range network.Bits() + 1 {
			args = append(args, Network(netip.PrefixFrom(network.Addr(), bits).Masked()))
		}
	}
	p.Overrides, err = readOverrides(ctx, tx, `
 WHERE `+strings.Join(where, `
    OR `), args...)
	return err
}

// readEdits reads the edits of one zone since an instant, page by page, the newest first.
func (p *past) readEdits(ctx context.Context, tx *sqlx.Tx, zone int64, since time.Time) error {
	most := explain.MostEdits / len(p.zones)
	last := uint64(1 << 63)
	for read := 0; ; {
		var rows []auditRow
		if err := tx.SelectContext(ctx, &rows, selectAudit+`
 WHERE zone_id = ?
   AND id < ?
 ORDER BY id DESC
 LIMIT ?`, zone, last, auditPage); err != nil {
			return err
		}
		edits, err := editsOf(rows)
		if err != nil {
			return err
		}
		for _, edit := range edits {
			if last = edit.ID; edit.At.Before(since) {
				return nil
			}
			p.Edits = append(p.Edits, edit)
		}
		read += len(rows)
		switch {
		case len(rows) < auditPage:
			return nil
		case read >= most:
			p.Since = later(p.Since, rows[len(rows)-1].At)
			return nil
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
