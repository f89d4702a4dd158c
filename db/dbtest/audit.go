package dbtest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"velocityd/service"
)

// auditedTxn is a row of zone_txn as an auditor sees it.
type auditedTxn struct {
	id, checkID, buckets         uint64 // checkID and buckets are 0 for a check of one bucket
	bucket                       service.Bucket
	at                           time.Time
	blocked, wouldBlock, counted bool
	outcome, attemptID           string
	repeats                      int
}

// Audit reads every txn and fails the test if the rows break the definition of a limit, whoever wrote them:
// no window or period of a bucket holds more counted txns than the rate, a check is blocked or charged as a whole,
// and blocked txns do not count. It knows nothing of decisions. It audits the velocity in the given zones
// alone, which nobody may have edited or overridden, and whose rows nobody may have aged; it believes the
// rows that released and succeeded txns do not count.
func (d *Database) Audit(tb testing.TB, zones ...service.Zone) {
	tb.Helper()
	audit(tb, d.auditedTxns(tb, 1, math.MaxInt32), zones)
}

// AuditZones is Audit for the txns of these zones alone, in a database that others use, too. No
// check may name buckets of one of them and of another zone.
func (d *Database) AuditZones(tb testing.TB, zones ...service.Zone) {
	tb.Helper()
	var own []auditedTxn
	for _, zone := range zones {
		own = append(own, d.auditedTxns(tb, zone.ID, zone.ID)...)
	}
	audit(tb, own, zones)
}

// LeaveUnaudited says that the test itself writes or deletes txns, so that they need not keep the
// definition, or that it leaves no table to read them from. They are not audited at its end.
func (d *Database) LeaveUnaudited() { d.isUnaudited = true }

// HasAgedRows says that the test has moved txns into the past, so that their instants mean nothing to
// the audit at its end.
func (d *Database) HasAgedRows() { d.hasAgedRows = true }

// auditAtEnd is Audit of all that a test has left, and of all zones that nobody has edited.
func (d *Database) auditAtEnd(tb testing.TB) {
	tb.Helper()
	if d.isUnaudited {
		return
	}
	txns, zones := d.auditedTxns(tb, 1, math.MaxInt32), d.zones(tb, unchangedZones)
	for _, zone := range d.zones(tb, keepingZones) {
		for _, breach := range uncounted(zone, txns) {
			tb.Errorf("audit: %s", breach)
		}
	}
	if d.hasAgedRows {
		zones = nil
		for i := range txns {
			txns[i].at = time.Time{}
		}
	}
	audit(tb, txns, zones)
}

// audit fails the test for each place where txns break the definition.
func audit(tb testing.TB, txns []auditedTxn, zones []service.Zone) {
	tb.Helper()
	for _, breach := range breaches(txns, zones) {
		tb.Errorf("audit: %s", breach)
	}
}

const (
	// unchangedZones are as they were made, and never had an override.
	unchangedZones = "SELECT z.id, z.rate, z.`window`, z.mode, z.period, z.period_offset, z.period_anchor FROM zone_master AS z WHERE z.revision = 1 AND NOT EXISTS (" +
		"SELECT 1 FROM zone_audit AS a WHERE a.zone_id = z.id AND (a.subject = 'override' OR a.subject = 'zone' AND a.action <> 'insert'))"
	// keepingZones are the ones in which a txn that counts goes on counting until its outcome.
	keepingZones = unchangedZones + " AND z.mode <> 'off' AND NOT z.reset_on_success AND NOT EXISTS (" +
		"SELECT 1 FROM zone_audit AS r WHERE r.zone_id = z.id AND r.action = 'release')"
)

// zones returns the zones that one of these queries finds.
func (d *Database) zones(tb testing.TB, query string) []service.Zone {
	tb.Helper()
	rows, err := d.SQL.Query(query)
	if err != nil {
		tb.Fatal(err)
	}
	defer rows.Close()
	var zones []service.Zone
	for rows.Next() {
		var zone service.Zone
		var window int64
		of := &zone.Calendar
		if err := rows.Scan(&zone.ID, &zone.Rate, &window, &zone.Mode, &of.Period, &of.Offset, &of.Anchor); err != nil {
			tb.Fatal(err)
		}
		zone.Window = service.Seconds(window)
		zones = append(zones, zone)
	}
	if err := rows.Err(); err != nil {
		tb.Fatal(err)
	}
	return zones
}

func (d *Database) auditedTxns(tb testing.TB, firstZone, lastZone int64) []auditedTxn {
	tb.Helper()
	rows, err := d.SQL.Query("SELECT id, COALESCE(check_id, 0), COALESCE(check_buckets, 0), zone_id, bucket_key, created_at, "+
		"blocked, would_block, counted, COALESCE(outcome, ''), COALESCE(attempt_id, ''), "+
		"COALESCE(repeats, 0) FROM zone_txn "+
		"WHERE zone_id BETWEEN ? AND ? ORDER BY id", firstZone, lastZone)
	if err != nil {
		tb.Fatal(err)
	}
	defer rows.Close()
	var txns []auditedTxn
	for rows.Next() {
		var x auditedTxn
		if err := rows.Scan(&x.id, &x.checkID, &x.buckets, &x.bucket.ZoneID, &x.bucket.Key, &x.at,
			&x.blocked, &x.wouldBlock, &x.counted, &x.outcome, &x.attemptID, &x.repeats); err != nil {
			tb.Fatal(err)
		}
		txns = append(txns, x)
	}
	if err := rows.Err(); err != nil {
		tb.Fatal(err)
	}
	return txns
}

// breaches says where txns break the definition.
func breaches(txns []auditedTxn, zones []service.Zone) []string {
	var found []string
	counted := map[service.Bucket][]time.Time{}
	checks := map[uint64][]auditedTxn{}
	ids := map[uint64]bool{}
	// The bucket that was the cause may count the attempt in a txn of an earlier check.
	isElsewhere := slices.ContainsFunc(txns, func(x auditedTxn) bool { return x.repeats > 0 && x.wouldBlock })
	for _, x := range txns {
		if x.repeats > 0 && !x.blocked {
			found = append(found, fmt.Sprintf("%+v passed and stands for other attempts", x))
		}
		if ids[x.id] {
			found = append(found, fmt.Sprintf("id %d is recorded twice", x.id))
		}
		ids[x.id] = true
		if x.counted {
			counted[x.bucket] = append(counted[x.bucket], x.at)
			if x.blocked || x.wouldBlock {
				found = append(found, fmt.Sprintf("%+v counts and had no room", x))
			}
		}
		if x.checkID == 0 && x.blocked && !x.wouldBlock && !isElsewhere {
			found = append(found, fmt.Sprintf("%+v is blocked by nothing", x))
		}
		if x.checkID != 0 {
			checks[x.checkID] = append(checks[x.checkID], x)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(checks)) {
		if !isWhole(checks[id], isElsewhere) {
			found = append(found, fmt.Sprintf("check %d is not all or nothing: %+v", id, checks[id]))
		}
	}
	for _, zone := range zones {
		found = append(found, breachesOf(zone, counted, txns)...)
	}
	return found
}

// isWhole says that the txns of a check of several buckets are all there, happened
// at once, and are blocked together if any bucket had no room to give. That one may be elsewhere.
func isWhole(check []auditedTxn, isElsewhere bool) bool {
	first := check[0]
	named := map[service.Bucket]bool{}
	wouldBlock := false
	for _, x := range check {
		named[x.bucket] = true
		wouldBlock = wouldBlock || x.wouldBlock
		if x.blocked != first.blocked || !x.at.Equal(first.at) || x.attemptID != first.attemptID ||
			x.outcome != first.outcome || x.buckets != first.buckets {
			return false
		}
	}
	return len(named) == len(check) && uint64(len(check)) == first.buckets && (wouldBlock || !first.blocked || isElsewhere)
}

// uncounted says which txns of a zone passed with room and do not count, although no outcome, release
// or reset gave their places back.
func uncounted(zone service.Zone, txns []auditedTxn) []string {
	var found []string
	for _, x := range txns {
		if x.bucket.ZoneID == zone.ID && x.outcome == "" && !x.blocked && !x.wouldBlock && !x.counted {
			found = append(found, fmt.Sprintf("%+v passed and does not count", x))
		}
	}
	return found
}

// breachesOf looks at the windows of one zone, half-open intervals of the window's length, or at its periods.
func breachesOf(zone service.Zone, counted map[service.Bucket][]time.Time, txns []auditedTxn) []string {
	var found []string
	byKey := func(a, b service.Bucket) int { return cmp.Compare(a.Key, b.Key) }
	for _, bucket := range slices.SortedFunc(maps.Keys(counted), byKey) {
		if bucket.ZoneID != zone.ID {
			continue
		}
		instants := slices.SortedFunc(slices.Values(counted[bucket]), time.Time.Compare)
		for i := 0; i+zone.Rate < len(instants); i++ {
			first, last := instants[i], instants[i+zone.Rate]
			if zone.Term().Until(first).After(last) {
				found = append(found, fmt.Sprintf("%+v holds %d txns from %s to %s, more than %d in %s",
					bucket, zone.Rate+1, first, last, zone.Rate, zone.Window))
				break
			}
		}
	}
	if zone.WithDefaults().Mode != service.ModeEnforce {
		return found
	}
	for _, x := range txns {
		if x.bucket.ZoneID == zone.ID && x.wouldBlock && !x.blocked {
			found = append(found, fmt.Sprintf("%+v had no room in an enforced zone and passed", x))
		}
	}
	return found
}
