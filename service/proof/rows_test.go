package proof_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/proof"
)

// start is the instant of the first txns.
func start() time.Time { return time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC) }

// txn returns a txn of bucket "a" of zone 1 that counts.
func txn(id uint64, after time.Duration, edits ...func(*proof.Row)) proof.Row {
	at := start().Add(after)
	row := proof.Row{Txn: service.Txn{
		ID: id, Bucket: service.Bucket{ZoneID: 1, Key: "a"}, CreatedAt: service.At(at), LastAt: service.At(at), Attempts: 1,
		Counted: true,
	}}
	for _, edit := range edits {
		edit(&row)
	}
	return row
}

func key(key string) func(*proof.Row) { return func(r *proof.Row) { r.Bucket.Key = key } }

func blocked(r *proof.Row) {
	r.Blocked, r.WouldBlock, r.Counted, r.Reason = true, true, false, service.ReasonFull
}

func elsewhere(r *proof.Row) { r.Blocked, r.Counted, r.Reason = true, false, service.ReasonElsewhere }

// givenBack gives the place back after so much time.
func givenBack(after time.Duration) func(*proof.Row) {
	return func(r *proof.Row) {
		r.Counted, r.UncountedAt.Time, r.Outcome = false, r.CreatedAt.Add(after), service.OutcomeSuccess
	}
}

// pair makes it a txn of a check of two buckets.
func pair(r *proof.Row) { r.CheckID, r.CheckBuckets = 7, 2 }

// zone returns a zone with two attempts a minute.
func zone(edits ...func(*service.Zone)) service.Zone {
	z := service.Zone{ID: 1, Rate: 2, Window: time.Minute}
	for _, edit := range edits {
		edit(&z)
	}
	return z
}

// rulesOf returns the rules of zones that were never changed.
func rulesOf(zones ...service.Zone) *proof.Rules {
	rules := proof.NewRules()
	for _, z := range zones {
		rules.AddZone(z)
	}
	return rules
}

// prove returns the findings about rows, with room for so many places, and how many of something is not known.
func prove(rules *proof.Rules, places int, rows []proof.Row) (
	found []proof.Finding, unknown map[proof.Cause]int64, readings int,
) {
	rules.Settle()
	windows := proof.NewWindows(rules, places, func(f proof.Finding) { found = append(found, f) })
	windows.Suspect = func(row proof.Row) { found = append(found, proof.LacksSuccess(&row)) }
	p := proof.New(rules, windows, func(check []proof.Row) { found = append(found, proof.JudgeCheck(check)...) })
	for i := range rows {
		p.Add(&rows[i])
	}
	p.End()
	for readings = 1; windows.Next(); readings++ {
		for i := range rows {
			windows.Add(&rows[i])
		}
	}
	return found, windows.Unknown, readings
}

// expect fails the test unless the findings about rows are of these kinds.
func expect(t *testing.T, name string, rules *proof.Rules, rows []proof.Row, want ...proof.Kind) {
	t.Helper()
	found, _, _ := prove(rules, proof.DefaultPlaces, rows)
	var kinds []proof.Kind
	for _, f := range found {
		kinds = append(kinds, f.Kind)
		if strings.Contains(f.String(), `"a"`) {
			t.Errorf("%s: a finding names the key: %s", name, f)
		}
	}
	if !slices.Equal(kinds, want) {
		t.Errorf("%s: found %v, want %v", name, found, want)
	}
}

// edits of zones and rows for the tables below.
func shadow(z *service.Zone)     { z.Mode = service.ModeShadow }
func off(z *service.Zone)        { z.Mode = service.ModeOff }
func series(z *service.Zone)     { z.RecordBlocked = 1 }
func failures(z *service.Zone)   { z.Counts = service.CountsFailures }
func resets(z *service.Zone)     { z.ResetOnSuccess = true }
func free(z *service.Zone)       { z.RepeatSecret = service.RepeatFree }
func lockout(z *service.Zone)    { z.Lockout = time.Hour }
func concurrent(z *service.Zone) { z.Concurrent, z.ReserveTTL, z.Rate = 1, 10*time.Second, 5 }

func uncounted(r *proof.Row) { r.Counted = false }
func imprint(r *proof.Row)   { r.HasImprint = true }
func passed(r *proof.Row)    { r.Blocked = false }
func success(r *proof.Row)   { r.Outcome = service.OutcomeSuccess }

// because gives the reason of a blocked row.
func because(reason service.Reason) func(*proof.Row) { return func(r *proof.Row) { r.Reason = reason } }

// standsFor lets a row stand for so many attempts, the last of which was so much later.
func standsFor(n int, later time.Duration) func(*proof.Row) {
	return func(r *proof.Row) { r.Attempts, r.LastAt.Time = n, r.CreatedAt.Add(later) }
}

// rowCase is some rows of a zone, and the kinds of the findings about them.
type rowCase struct {
	name string
	zone service.Zone
	rows []proof.Row
	want []proof.Kind
}

// filled returns two txns that fill the bucket, and others.
func filled(others ...proof.Row) []proof.Row {
	return append([]proof.Row{txn(1, 0), txn(2, 1000)}, others...)
}
