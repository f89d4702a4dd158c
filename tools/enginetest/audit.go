package enginetest

import (
	"context"
	"math"
	"slices"
	"testing"

	"velocityd/db/verify"
	"velocityd/db/zonerow"
	"velocityd/service"
	"velocityd/service/proof"
)

// Audit reads every txn and fails the test if the rows break the definition of a limit, as the
// command audit does. It knows the given zones alone, which were never edited or overridden, and whose rows
// were never aged.
func (d *Database) Audit(tb testing.TB, zones ...service.Zone) {
	tb.Helper()
	d.audit(tb, verify.Options{Rules: rulesOf(zones)})
}

// AuditZones is Audit for the txns of these zones alone, in a database that others use, too. No
// check may name buckets of one of them and of another zone. The test may set the clock and write rows of earlier
// instants, so the order of instants is not judged.
func (d *Database) AuditZones(tb testing.TB, zones ...service.Zone) {
	tb.Helper()
	var ids []int64
	for _, zone := range zones {
		ids = append(ids, zone.ID)
	}
	rules := rulesOf(zones)
	rules.ClockWasSet = true
	d.audit(tb, verify.Options{Rules: rules, Zones: ids}, proof.KindInstants)
}

// LeaveUnaudited says that the test itself writes or deletes txns, so that they need not keep the
// definition, or that it leaves no table to read them from. They are not audited at its end.
func (d *Database) LeaveUnaudited() { d.isUnaudited = true }

// HasAgedRows says that the test has moved txns into the past, so that their instants mean nothing to
// the audit at its end.
func (d *Database) HasAgedRows() { d.hasAgedRows = true }

// auditAtEnd is the audit of all that a test has left.
func (d *Database) auditAtEnd(tb testing.TB) {
	tb.Helper()
	if d.isUnaudited {
		return
	}
	if !d.hasAgedRows {
		d.audit(tb, verify.Options{})
		return
	}
	zones, err := Consistently(tb, d, d.unchangedZones)
	if err != nil {
		tb.Fatal(err)
	}
	rules := rulesOf(zones)
	rules.ClockWasSet = true
	d.audit(tb, verify.Options{Rules: rules}, proof.KindOverRate, proof.KindInstants, proof.KindLost,
		proof.KindRepeats, proof.KindCount, proof.KindLockout)
}

// rulesOf returns the rules of zones that were never changed.
func rulesOf(zones []service.Zone) *proof.Rules {
	rules := proof.NewRules()
	for _, zone := range zones {
		rules.AddZone(zone)
	}
	return rules
}

// audit fails the test for each finding that is not of one of some kinds.
func (d *Database) audit(tb testing.TB, o verify.Options, but ...proof.Kind) {
	tb.Helper()
	o.Findings, o.Places = math.MaxInt, proof.DefaultPlaces
	findings, err := Consistently(tb, d, func() (found []proof.Finding, err error) {
		_, err = verify.Run(context.Background(), d.SQL, o, func(f proof.Finding) { found = append(found, f) })
		return found, err
	})
	if err != nil {
		tb.Error("audit:", err)
	}
	for _, f := range findings {
		if !slices.Contains(but, f.Kind) {
			tb.Errorf("audit: %s", f)
		}
	}
}

// unchangedZones returns the zones that are as they were made, and never had an override.
func (d *Database) unchangedZones() (zones []service.Zone, err error) {
	const unchanged = " FROM zone_master WHERE revision = 1 AND id NOT IN (" +
		"SELECT zone_id FROM zone_audit WHERE subject = 'override' OR subject = 'zone' AND action <> 'insert')"
	rows, err := d.SQL.Query("SELECT id, " + zonerow.Settings.List("") + unchanged) //nolint:gosec // names of columns
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var zone service.Zone
		if err := rows.Scan(append([]any{&zone.ID}, zonerow.Settings.Into(&zone)...)...); err != nil {
			return nil, err
		}
		zones = append(zones, zone)
	}
	return zones, rows.Err()
}
