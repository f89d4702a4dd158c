package retention_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/retention"
	"velocityd/internal/engine"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

const day = 24 * time.Hour

// policy is a random one, and the zones that it holds for.
type policy struct {
	keep, minimum, audit int
	zones                []service.Zone
}

func randomPolicy(r *rand.Rand) policy {
	pick := func(of ...int) int { return of[r.IntN(len(of))] }
	p := policy{keep: pick(0, 1, 20, 60, 100, 400), minimum: pick(1, 10, 30), audit: pick(0, 5, 50)}
	for id := range int64(4) {
		p.zones = append(p.zones, service.Zone{
			ID: id + 1, Rate: 5, Window: time.Duration(pick(60, 86_400, 40*86_400)) * time.Second,
			KeepDays:     pick(0, 0, 10, 90, 300, 700),
			Lockout:      time.Duration(pick(0, 0, 60)) * time.Second,
			LockoutDecay: time.Duration(pick(86_400, 50*86_400)) * time.Second,
		})
	}
	return p
}

// days is for how many days a zone is kept, as the docs say it; 0 means for ever.
func (p policy) days(zone service.Zone) int {
	if p.keep == 0 {
		return 0
	}
	days := max(p.keep, p.minimum, zone.KeepDays)
	for _, z := range p.zones {
		z = z.WithDefaults()
		needed := z.Window
		if z.Lockout > 0 {
			needed = max(needed, z.LockoutMax+z.LockoutDecay)
		}
		days = max(days, 1+int((needed+day-1)/day))
	}
	return days
}

func (p policy) longest() int {
	longest := 0
	for _, zone := range p.zones {
		longest = max(longest, p.days(zone))
	}
	return longest
}

// kept is a row of the made history.
type kept struct {
	id  uint64
	age time.Duration
	in  service.Zone
}

// made fills a history of 800 days, in the order of its ids, and returns its rows.
func (p policy) made(t *testing.T, r *rand.Rand, d *enginetest.Database, now time.Time) (rows []kept) {
	t.Helper()
	d.LeaveUnaudited()
	for _, zone := range p.zones {
		d.SetZone(t, zone)
	}
	enginetest.Exec(t, d.SQL, "UPDATE retention_policy SET keep_days = ?, minimum_days = ?, audit_days = ?", p.keep,
		p.minimum, p.audit)
	var values []string
	for age := 800 * day; age > 0; age -= time.Duration(r.Int64N(int64(day))) {
		zone := p.zones[r.IntN(len(p.zones))]
		rows = append(rows, kept{uint64(len(rows) + 1), age, zone})
		values = append(
			values, fmt.Sprintf("(%d, '%s', %d, 'k%d', 0, 0, 0)", len(rows), now.Add(-age).Format("2006-01-02 15:04:05.000000"),
				zone.ID, len(rows)))
	}
	enginetest.Exec(
		t, d.SQL, "INSERT INTO zone_txn (id, created_at, zone_id, bucket_key, blocked, would_block, counted) VALUES "+
			strings.Join(values, ","))
	return rows
}

// split partitions the history anew, into parts of random widths, and returns their ends.
func split(t *testing.T, r *rand.Rand, d *enginetest.Database, now time.Time) (ends []time.Time) {
	t.Helper()
	var parts []string
	for at := now.Add(-800 * day).Truncate(day); at.Before(now.Add(-day)); at = at.Add(time.Duration(1+r.IntN(40)) * day) {
		ends = append(ends, at)
		parts = append(
			parts, fmt.Sprintf("PARTITION p%s VALUES LESS THAN ('%s')", at.Format("20060102"), at.Format(time.DateOnly)))
	}
	enginetest.Exec(t, d.SQL, "ALTER TABLE zone_txn PARTITION BY RANGE COLUMNS (created_at) ("+strings.Join(parts, ", ")+
		", PARTITION later VALUES LESS THAN (MAXVALUE))")
	return ends
}

// leaves says whether a row leaves. ends are those of the partitions; nil means that there are none.
func (p policy) leaves(row kept, ends []time.Time, now time.Time) bool {
	days := p.days(row.in)
	if days == 0 || row.age <= time.Duration(days)*day {
		return false
	}
	if days < p.longest() || ends == nil {
		return true
	}
	at := now.Add(-row.age)
	return slices.ContainsFunc(
		ends, func(end time.Time) bool { return at.Before(end) && !end.After(now.Add(-time.Duration(days)*day)) })
}

// TestWhatLeavesIsWhatThePolicySays makes a history and random policies, and lets all leave that may: by the procedure,
// by the service, and by statements where there are no procedures; from tables with and without partitions.
func TestWhatLeavesIsWhatThePolicySays(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, e *enginetest.Engine) {
		for seed := range uint64(4) {
			d := e.Database(t)
			if seed%2 == 0 {
				holdsPolicy(t, seed, d, seed != 2, func() { enginetest.Exec(t, d.SQL, "CALL retain()") })
				continue
			}
			holdsPolicy(t, seed, d, true, func() { finish(t, d, "") })
		}
	})
	t.Run("portable", func(t *testing.T) {
		t.Parallel()
		for seed := range uint64(4) {
			d := enginetest.Portable(t)
			holdsPolicy(t, seed, d, false, func() { finish(t, d, engine.TiDB) })
		}
	})
}

// finish runs all tasks of the service to their end.
func finish(t *testing.T, d *enginetest.Database, of engine.Engine) {
	t.Helper()
	r := runnerOn(t, d.DSN, of, retention.Tasks(noOverrides)...)
	if err := r.Finish(t.Context(), func(run retention.Run) {
		if run.Err != nil {
			t.Errorf("%s: %v", run.Task, run.Err)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

func noOverrides(context.Context) (int64, bool, error) { return 0, false, nil }

func holdsPolicy(t *testing.T, seed uint64, d *enginetest.Database, isPartitioned bool, retain func()) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 36))
	p, now := randomPolicy(r), time.Now().UTC()
	rows := p.made(t, r, d, now)
	var ends []time.Time
	if isPartitioned {
		ends = split(t, r, d, now)
	} else if d.Count(
		t,
		"SELECT COUNT(*) FROM information_schema.partitions WHERE table_schema = DATABASE() AND partition_name = 'later'") > 0 {
		enginetest.Exec(t, d.SQL, "ALTER TABLE zone_txn REMOVE PARTITIONING")
	}
	// Another policy comes second, so that walks begin anew.
	gone := map[uint64]bool{}
	for range 2 {
		retain()
		left := idsIn(t, d.SQL)
		for _, row := range rows {
			gone[row.id] = gone[row.id] || p.leaves(row, ends, now)
			if _, isThere := slices.BinarySearch(left, row.id); isThere == gone[row.id] {
				t.Fatalf("seed %d, partitioned %t: a txn of zone %d that is %.2f days old is there: %t. Policy: %+v", seed,
					isPartitioned, row.in.ID,
					row.age.Hours()/24, isThere, p)
			}
		}
		p.zones[0].KeepDays, p.keep = 0, p.keep/2
		enginetest.Exec(t, d.SQL, "UPDATE zone_master SET keep_days = 0 WHERE id = 1")
		enginetest.Exec(t, d.SQL, "UPDATE retention_policy SET keep_days = ?", p.keep)
	}
}

func idsIn(t *testing.T, on *sql.DB) (ids []uint64) {
	t.Helper()
	if err := sqlx.NewDb(on, "mysql").Select(&ids, "SELECT id FROM zone_txn ORDER BY id"); err != nil {
		t.Fatal(err)
	}
	return ids
}
