package servicetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/zonereport"
)

// ZoneReportSubject is a Subject that makes reports.
type ZoneReportSubject interface {
	Subject
	zonereport.Store
	// RollUp counts all attempts that are due to be counted in totals.
	RollUp(tb testing.TB)
}

// ExerciseZoneReport tests that the store that open returns keeps the contract of zonereport.Store. It calls
// open once for each claim; open must return a ZoneReportSubject without zones and txns.
func ExerciseZoneReport(t *testing.T, open func(t *testing.T) ZoneReportSubject) {
	for name, holds := range map[string]func(*testing.T, reportSubject){
		"AReportCountsTheHoursOfItsZoneAndTime":       reportCountsHours,
		"KeysThatWereStoppedMostComeFirst":            reportOfStoppedKeys,
		"KeysNearTheRateThatWereNeverStoppedAreNamed": reportOfNearKeys,
		"AddressesThatGotInComeBeforeOtherSprays":     reportOfSprays,
		"ManyUsersInALongTimeAreNoSpray":              reportOfNoSpray,
		"AUserIsATargetOfManyAddresses":               reportOfTargets,
		"AReportOfTooManyTxnsLooksAtTheNewest":        reportIsCut,
		"TheWorstHoursOfTooManyTxnsAreRead":           reportReadsWorst,
		"TotalsOfAReportAreOfExactlyItsTime":          reportCountsExactly,
		"AccountsThatWereEnteredAfterGuessesAreNamed": reportOfEntered,
		"ADeviceWithAnOldPasswordIsNoGuesser":         reportOfDevices,
		"AReportNamesStoppedKeysOfBothZones":          reportOfBothZones,
		"TxnsOfOtherZonesCutNoReport":                 reportPassesOthers,
		"TimeWithoutTxnsBeforeTheOldestIsRead":        reportOfKept,
		"HoursBeforeTheNewestTxnsComeFromTheTotals":   reportHasWholeHours,
		"KeysNearTheRateOfAPeriodAreNamed":            reportOfNearKeysInPeriods,
		"WrongQueriesOfReportsAreRefused":             wrongReportQueries,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			holds(t, reportSubject{subject: subject{Subject: b}, of: b})
		})
	}
}

// reportSubject adds steps for claims to a ZoneReportSubject. Zone 1 is for users, and zone 2 for addresses.
type reportSubject struct {
	subject
	of   ZoneReportSubject
	user service.Zone
}

// open makes the two zones. userRate is that of users.
func (b *reportSubject) open(tb testing.TB, userRate int) {
	tb.Helper()
	b.user = b.set(tb, service.Zone{ID: 1, Rate: userRate, Window: time.Hour})
	b.zone(tb, 2, 100, time.Hour)
}

// report returns the report of the last hours.
func (b *reportSubject) report(tb testing.TB, hours int, q zonereport.Query) zonereport.Report {
	tb.Helper()
	q.Until.Time = time.Now().Add(time.Minute)
	q.Since.Time = q.Until.Add(-time.Duration(hours) * time.Hour)
	report, err := b.of.ZoneReport(tb.Context(), b.user, q)
	if err != nil {
		tb.Fatalf("report %+v: %v", q, err)
	}
	if report.ZoneID != 1 || report.IsCut || report.IsPart() || !report.IsWhole {
		tb.Errorf("report of zone %d: read %v, cut %v, whole %v", report.ZoneID, report.Read, report.IsCut, report.IsWhole)
	}
	return report
}

// tries makes one attempt for each user from an address, and reports how each ended, if that is not empty.
func (b *reportSubject) tries(tb testing.TB, address string, outcome service.Outcome, users ...string) {
	tb.Helper()
	for _, user := range users {
		d := b.check(tb, at(1, user), at(2, address))
		if outcome != "" {
			b.wantReport(tb, d.TxnID(), outcome, nil)
		}
	}
}

func reportCountsHours(t *testing.T, b reportSubject) {
	b.open(t, 2)
	b.zone(t, 3, 9, time.Hour)
	for range 3 {
		b.check(t, at(1, "alice"))
	}
	b.check(t, at(3, "alice"))
	b.age(t, 4*time.Hour, at(1, "alice"), at(3, "alice"))
	b.check(t, at(1, "alice"))
	b.age(t, 2*time.Hour, at(1, "alice")) // 6 and 2 hours ago
	d := b.check(t, at(1, "bob"))
	b.wantReport(t, d.TxnID(), success, nil)
	b.wantReport(t, b.check(t, at(1, "bob")).TxnID(), failure, nil)
	report := b.report(t, 5, zonereport.Query{})
	if want := (service.Totals{Attempts: 3, Allowed: 3, Successes: 1, Failures: 1}); report.Total != want ||
		report.Rows != 3 {
		t.Errorf("%d rows, %+v; want 3, %+v", report.Rows, report.Total, want)
	}
	var sum service.Totals
	var busy int
	for i, hour := range report.Hours {
		if hour.Attempts > 0 {
			busy++
		}
		sum = sum.Plus(hour.Totals)
		if i > 0 && hour.BeginsAt.Sub(report.Hours[i-1].BeginsAt.Time) != time.Hour ||
			hour.BeginsAt.Time != hour.BeginsAt.UTC().Truncate(time.Hour) {
			t.Errorf("hour %d is %v", i, hour.BeginsAt.Time)
		}
	}
	// The attempts of now may lie in two hours.
	if n := len(report.Hours); n < 5 || n > 6 || sum != report.Total || busy < 2 || busy > 3 {
		t.Errorf("%d hours, %d with attempts: %+v", n, busy, report.Hours)
	}
	want := service.Totals{Attempts: 6, Allowed: 5, Blocked: 1, WouldBlock: 1, Successes: 1, Failures: 1}
	if all := b.report(t, 8, zonereport.Query{}); all.Total != want || all.Rows != 6 {
		t.Errorf("%d rows, %+v; want 6, %+v", all.Rows, all.Total, want)
	}
}

func reportOfStoppedKeys(t *testing.T, b reportSubject) {
	b.user = b.set(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour, RecordBlocked: 1})
	for key, n := range map[string]int{"<script>": 4, "bob": 3, "carol": 3, "dora": 1} {
		for range n {
			b.check(t, at(1, key))
		}
	}
	report := b.report(t, 1, zonereport.Query{Keys: 2})
	var got []string
	for _, key := range report.Stopped {
		got = append(got, fmt.Sprintf("%s %d of %d", key.Key, key.WouldBlock, key.Attempts))
		if since := time.Since(key.LastAt.Time); since > time.Hour || since < -time.Hour {
			t.Errorf("%s was last seen at %v", key.Key, key.LastAt.Time)
		}
	}
	if want := []string{"<script> 3 of 4", "bob 2 of 3"}; !slices.Equal(got, want) {
		t.Errorf("stopped are %q, want %q", got, want)
	}
}

func reportOfNearKeys(t *testing.T, b reportSubject) {
	b.open(t, 5)
	for key, n := range map[string]int{"full": 5, "near": 4, "far": 3, "stopped": 6} {
		for range n {
			b.check(t, at(1, key))
		}
	}
	for range 4 { // no two in one window
		b.check(t, at(1, "slow"))
		b.age(t, time.Hour+time.Second, at(1, "slow"))
	}
	var got []string
	for _, key := range b.report(t, 8, zonereport.Query{}).Near {
		got = append(got, fmt.Sprint(key.Key, key.Most))
	}
	if want := []string{"full5", "near4"}; !slices.Equal(got, want) {
		t.Errorf("near are %q, want %q", got, want)
	}
}

// pairedQuery asks for sprays and targets from three on.
func pairedQuery(within time.Duration) zonereport.Query {
	few := zonereport.Threshold{Least: 3, Within: service.Lasting(within)}
	return zonereport.Query{UsersZone: 1, AddressesZone: 2, Spray: few, Sources: few}
}

// burstsAre compares bursts without their times.
func burstsAre(t *testing.T, got []zonereport.Burst, want ...string) {
	t.Helper()
	var all []string
	for _, b := range got {
		all = append(all, fmt.Sprintf("%s %d others, %d of %d blocked, %d %v", b.Key, b.Others, b.Blocked, b.Attempts,
			b.Successes, b.Succeeded))
		if b.LastAt.Before(b.BeginsAt.Time) {
			t.Errorf("%s ends at %v and begins at %v", b.Key, b.LastAt.Time, b.BeginsAt.Time)
		}
	}
	if !slices.Equal(all, want) {
		t.Errorf("got %q\nwant %q", all, want)
	}
}

func reportOfSprays(t *testing.T, b reportSubject) {
	b.open(t, 2)
	b.tries(t, "192.0.2.1", failure, "a", "b", "c")
	b.tries(t, "192.0.2.1", success, "b", "d")
	b.tries(t, "192.0.2.2", failure, "e", "f", "g", "h", "e")
	b.tries(t, "192.0.2.2", "", "e") // is blocked
	b.tries(t, "192.0.2.3", success, "i", "j", "k", "l")
	b.tries(t, "192.0.2.4", failure, "m", "n", "m")
	b.check(t, at(2, "192.0.2.4")) // without a user
	report := b.report(t, 1, pairedQuery(time.Minute*10))
	burstsAre(t, report.Sprays, "192.0.2.1 3 others, 0 of 5 blocked, 2 [b d]", "192.0.2.2 4 others, 1 of 6 blocked, 0 []")
	burstsAre(t, report.Targets)
	if alone := b.report(t, 1, zonereport.Query{}); len(alone.Sprays)+len(alone.Targets) > 0 {
		t.Errorf("without zones of users and addresses: %+v, %+v", alone.Sprays, alone.Targets)
	}
}

func reportOfNoSpray(t *testing.T, b reportSubject) {
	b.open(t, 9)
	b.tries(t, "192.0.2.1", success, "z") // before the others, and so no success of the spray
	tried := []service.Bucket{at(1, "z"), at(2, "192.0.2.1")}
	for _, user := range []string{"a", "b", "c", "d"} {
		b.age(t, 10*time.Minute, tried...)
		b.tries(t, "192.0.2.1", failure, user)
		tried = append(tried, at(1, user))
	}
	burstsAre(t, b.report(t, 2, pairedQuery(15*time.Minute)).Sprays)
	burstsAre(t, b.report(t, 2, pairedQuery(25*time.Minute)).Sprays, "192.0.2.1 3 others, 0 of 5 blocked, 0 []")
}

func reportOfTargets(t *testing.T, b reportSubject) {
	b.open(t, 9)
	for i := range 4 {
		b.tries(t, fmt.Sprint("192.0.2.", i), failure, "alice", "bob")
	}
	b.tries(t, "2001:db8::1", success, "bob")
	report := b.report(t, 1, pairedQuery(10*time.Minute))
	burstsAre(t, report.Targets, "bob 4 others, 0 of 5 blocked, 1 [2001:db8::1]", "alice 4 others, 0 of 4 blocked, 0 []")
	burstsAre(t, report.Sprays)
}

func reportIsCut(t *testing.T, b reportSubject) {
	b.open(t, 9)
	for i := range 5 {
		b.check(t, at(1, fmt.Sprint("user", i)))
		if i == 2 {
			b.age(t, 2*time.Hour, at(1, "user0"), at(1, "user1"), at(1, "user2"))
		}
	}
	until := time.Now().Add(time.Minute)
	q := zonereport.Query{Since: service.At(until.Add(-4 * time.Hour)), Until: service.At(until), MostRows: 2}
	report, err := b.of.ZoneReport(t.Context(), b.user, q)
	if err != nil {
		t.Fatal(err)
	}
	newest := report.Read[len(report.Read)-1]
	if !report.IsCut || report.Rows != 2 || !newest.Until.Equal(report.Until.Time) || !report.IsPart() {
		t.Errorf("cut %v, read %v, %d rows", report.IsCut, report.Read, report.Rows)
	}
	q.MostRows = 5
	if all, err := b.of.ZoneReport(t.Context(), b.user, q); err != nil || all.IsCut || all.Rows != 5 {
		t.Errorf("cut %v, %d rows, %v", all.IsCut, all.Rows, err)
	}
}

func reportHasWholeHours(t *testing.T, b reportSubject) {
	b.open(t, 9)
	for i := range 6 {
		b.check(t, at(1, fmt.Sprint("user", i%3)))
	}
	b.age(t, 3*time.Hour, at(1, "user0"), at(1, "user1"), at(1, "user2"))
	b.of.RollUp(t)
	for i := range 3 {
		b.check(t, at(1, fmt.Sprint("user", i)))
	}
	until := time.Now().Add(time.Minute)
	report, err := b.of.ZoneReport(t.Context(), b.user,
		zonereport.Query{Since: service.At(until.Add(-5 * time.Hour)), Until: service.At(until), MostRows: 2})
	if err != nil {
		t.Fatal(err)
	}
	var hours int64
	for _, hour := range report.Hours {
		hours += hour.Attempts
	}
	if !report.IsCut || report.Rows != 2 || !report.IsWhole || report.Total.Attempts != 9 || hours != 9 ||
		len(report.Hours) < 5 {
		t.Errorf("cut %v, %d rows, whole %v, %d attempts, and %d in hours %+v; want 2 rows, and 9", report.IsCut, report.Rows,
			report.IsWhole, report.Total.Attempts, hours, report.Hours)
	}
}

func reportPassesOthers(t *testing.T, b reportSubject) {
	b.open(t, 9)
	b.zone(t, 3, 100, time.Hour)
	b.check(t, at(1, "alice"), at(2, "192.0.2.1"))
	for range 9 {
		b.check(t, at(3, "other"))
	}
	q := pairedQuery(time.Minute)
	q.MostRows = 2
	report, err := b.of.ZoneReport(t.Context(), b.user, ofLast(q, time.Hour))
	if err != nil || report.IsCut || report.Rows != 2 || report.Total.Attempts != 1 {
		t.Errorf("cut %v, %d rows, %d attempts, %v; want 2 and 1 of all", report.IsCut, report.Rows, report.Total.Attempts,
			err)
	}
}

// ofLast returns a query about the last time.
func ofLast(q zonereport.Query, length time.Duration) zonereport.Query {
	q.Until.Time = time.Now().Add(time.Minute)
	q.Since.Time = q.Until.Add(-length)
	return q
}

func reportOfKept(t *testing.T, b reportSubject) {
	b.open(t, 9)
	b.check(t, at(2, "192.0.2.1"))
	b.age(t, 2*time.Hour, at(2, "192.0.2.1"))
	b.check(t, at(1, "alice"))
	for _, hours := range []int{1, 4} {
		if report := b.report(t, hours, zonereport.Query{}); report.Rows != 1 {
			t.Errorf("of %d hours: %d rows", hours, report.Rows)
		}
	}
}

func reportOfNearKeysInPeriods(t *testing.T, b reportSubject) {
	b.user = b.set(t, service.Zone{ID: 1, Rate: 5, Calendar: b.noonish(t, service.PeriodDay)})
	for key, n := range map[string]int{"full": 5, "near": 4, "far": 3, "stopped": 6} {
		for range n {
			b.check(t, at(1, key))
		}
	}
	for range 2 { // two and two in a day, although four in a row
		b.check(t, at(1, "midnight"))
		b.check(t, at(1, "midnight"))
		b.age(t, 24*time.Hour, at(1, "midnight"))
	}
	var got []string
	for _, key := range b.report(t, 72, zonereport.Query{}).Near {
		got = append(got, fmt.Sprint(key.Key, key.Most))
	}
	if want := []string{"full5", "near4"}; !slices.Equal(got, want) {
		t.Errorf("near are %q, want %q", got, want)
	}
}

func wrongReportQueries(t *testing.T, b reportSubject) {
	b.open(t, 1)
	now := time.Now()
	for name, q := range map[string]zonereport.Query{
		"no since":        {Until: service.At(now)},
		"nothing between": {Since: service.At(now), Until: service.At(now)},
		"too long":        {Since: service.At(now.Add(-400 * 24 * time.Hour)), Until: service.At(now)},
		"one zone":        {Since: service.At(now.Add(-time.Hour)), Until: service.At(now), UsersZone: 1},
		"the same zone":   {Since: service.At(now.Add(-time.Hour)), Until: service.At(now), UsersZone: 1, AddressesZone: 1},
		"few users": {
			Since: service.At(now.Add(-time.Hour)), Until: service.At(now),
			Spray: zonereport.Threshold{Least: 1},
		},
		"long": {
			Since: service.At(now.Add(-time.Hour)), Until: service.At(now),
			Sources: zonereport.Threshold{Within: service.Lasting(25 * time.Hour)},
		},
		"rows": {Since: service.At(now.Add(-time.Hour)), Until: service.At(now), MostRows: zonereport.MaxRows + 1},
		"keys": {Since: service.At(now.Add(-time.Hour)), Until: service.At(now), Keys: -1},
	} {
		if _, err := b.of.ZoneReport(t.Context(), b.user, q); !errors.Is(err, service.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
