package retention

import (
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/jmoiron/sqlx"
)

const (
	day = 24 * time.Hour
	// attemptMargin is for how long expired attempt ids stay.
	attemptMargin = time.Hour
	// idleAtLeast is the time without a check after which the lock row of a bucket goes.
	idleAtLeast = day
)

// bounds say for how long rows are kept, on engines without procedures. The procedure retention_bounds says the same
// in SQL.
type bounds struct {
	now   time.Time // by the engine's clock
	final time.Time // no txn from it on may go: the totals have not counted it for the last time
	// policy is for how many days rows of every zone are kept, longest for how many those of the zone that is kept for
	// longest, and audit and events for how many zone_audit and zone_event are. 0 means for ever.
	policy, longest, audit, events int
	zones                          []zoneBounds
}

type zoneBounds struct {
	ID           int64 `db:"id"`
	Window       int64 `db:"window"`
	Reserve      int64 `db:"reserve_ttl"`
	Lockout      int64 `db:"lockout"`
	LockoutMax   int64 `db:"lockout_max"`
	LockoutDecay int64 `db:"lockout_decay"`
	KeepDays     int   `db:"keep_days"`
}

// needed is for how many seconds decisions need a txn of the zone.
func (z zoneBounds) needed() int64 {
	seconds := max(z.Window, z.Reserve)
	if z.Lockout > 0 {
		seconds = max(seconds, z.LockoutMax+z.LockoutDecay)
	}
	return seconds
}

// readBounds reads the policy, and the bounds of decisions.
func readBounds(ctx context.Context, on *sqlx.Conn) (b bounds, err error) {
	if err := on.SelectContext(ctx, &b.zones, `
SELECT id, `+"`window`"+`, COALESCE(reserve_ttl, 0) AS reserve_ttl, lockout, lockout_max, lockout_decay, keep_days
  FROM zone_master
 ORDER BY id`); err != nil {
		return b, fmt.Errorf("read the zones: %w", err)
	}
	if err := b.readOverrides(ctx, on); err != nil {
		return b, fmt.Errorf("read the overrides: %w", err)
	}
	var policies []struct {
		Keep    int       `db:"keep_days"`
		Minimum int       `db:"minimum_days"`
		Audit   int       `db:"audit_days"`
		Events  int       `db:"event_days"`
		Now     time.Time `db:"read_at"`
	}
	if err := on.SelectContext(ctx, &policies, `
SELECT keep_days, minimum_days, audit_days, event_days, UTC_TIMESTAMP(6) AS read_at
  FROM retention_policy
 WHERE id = 1`); err != nil || len(policies) == 0 {
		return b, err // without its row, rows are kept for ever
	}
	p := policies[0]
	b.now, b.final, b.events = p.Now, p.Now, p.Events
	if p.Audit > 0 {
		b.audit = max(p.Audit, p.Minimum)
	}
	if p.Keep > 0 {
		b.policy = max(p.Keep, p.Minimum, 1+int((b.needed()+86_399)/86_400))
		b.longest = b.policy
		for _, zone := range b.zones {
			b.longest = max(b.longest, zone.KeepDays)
		}
	}
	var finals []time.Time
	if err := on.SelectContext(ctx, &finals, "SELECT final_to FROM totals_progress WHERE id = 1"); err != nil {
		return b, fmt.Errorf("read how far attempts are counted: %w", err)
	}
	if len(finals) > 0 {
		b.final = finals[0]
	}
	return b, nil
}

// readOverrides lengthens the windows of zones to those of their overrides.
func (b *bounds) readOverrides(ctx context.Context, on *sqlx.Conn) error {
	var limits []struct {
		ZoneID int64 `db:"zone_id"`
		Window int64 `db:"longest"`
	}
	if err := on.SelectContext(ctx, &limits, `
SELECT zone_id, COALESCE(MAX(`+"`window`"+`), 0) AS longest
  FROM zone_override
 WHERE action = 'limit'
 GROUP BY zone_id`); err != nil {
		return err
	}
	for _, limit := range limits {
		if zone := b.zone(limit.ZoneID); zone != nil {
			zone.Window = max(zone.Window, limit.Window)
		}
	}
	return nil
}

// zone returns a zone, or nil if it is gone.
func (b *bounds) zone(id int64) *zoneBounds {
	at := slices.IndexFunc(b.zones, func(z zoneBounds) bool { return z.ID == id })
	if at < 0 {
		return nil
	}
	return &b.zones[at]
}

// needed is for how many seconds decisions need a txn of any zone.
func (b *bounds) needed() (seconds int64) {
	for _, zone := range b.zones {
		seconds = max(seconds, zone.needed())
	}
	return seconds
}

// days returns the different numbers of days for which zones are kept, in order; none if rows are kept for ever.
func (b *bounds) days() []int {
	if b.policy == 0 {
		return nil
	}
	list := []int{b.policy}
	for _, zone := range b.zones {
		list = append(list, max(b.policy, zone.KeepDays))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// keptLonger returns the zones that are kept for more days, and no zone if there are none.
func (b *bounds) keptLonger(days int) []int64 {
	zones := []int64{0} // for SQL, which takes no empty list
	for _, zone := range b.zones {
		if zone.KeepDays > days {
			zones = append(zones, zone.ID)
		}
	}
	return zones
}

// sum tells policies apart whose walks over the ids differ.
func (b *bounds) sum() int64 {
	sum := crc32.NewIEEE()
	for _, zone := range b.zones {
		if zone.KeepDays > b.policy {
			fmt.Fprintln(sum, b.policy, zone.ID, zone.KeepDays)
		}
	}
	return int64(sum.Sum32())
}

// cut returns the first instant at which txns are kept for so many days.
func (b *bounds) cut(days int) time.Time {
	cut := b.now.AddDate(0, 0, -days)
	if b.final.Before(cut) {
		return b.final
	}
	return cut
}
