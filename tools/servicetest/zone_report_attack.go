package servicetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/zonereport"
)

// reportReadsWorst: an attack stands behind newer attempts, of which there are more than a report may read.
func reportReadsWorst(t *testing.T, b reportSubject) {
	b.open(t, 3)
	tried := []service.Bucket{at(2, "192.0.2.1")}
	for i := range 4 {
		user := fmt.Sprint("user", i)
		b.tries(t, "192.0.2.1", failure, user)
		tried = append(tried, at(1, user))
	}
	b.age(t, 5*time.Hour, tried...)
	b.check(t, at(1, "quiet"))
	b.age(t, 3*time.Hour, at(1, "quiet"))
	b.of.RollUp(t)
	for i := range 20 {
		b.tries(t, fmt.Sprint("198.51.100.", i), success, fmt.Sprint("late", i))
	}
	q := pairedQuery(10 * time.Minute)
	q.MostRows = 16
	report, err := b.of.ZoneReport(t.Context(), b.user, ofLast(q, 8*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	burstsAre(t, report.Sprays, "192.0.2.1 4 others, 0 of 4 blocked, 0 []")
	if !report.IsCut || report.Rows != 16 || !report.IsWhole || report.Total.Attempts != 25 || len(report.Read) < 2 {
		t.Errorf("cut %v, %d rows of %v, %d attempts", report.IsCut, report.Rows, report.Read, report.Total.Attempts)
	}
	if before := time.Now().Add(-5 * time.Hour); report.ReadAt(before.Add(-time.Second)) == (zonereport.Part{}) ||
		!report.Read[len(report.Read)-1].Until.Equal(report.Until.Time) {
		t.Errorf("the newest attempts or those of %v were not read: %v", before, report.Read)
	}
}

func reportCountsExactly(t *testing.T, b reportSubject) {
	b.open(t, 9)
	for i := range 6 { // each attempt is 20 minutes older than the one before
		b.check(t, at(1, "alice"))
		b.check(t, at(1, fmt.Sprint("user", i)))
		for j := range i + 1 {
			b.age(t, 20*time.Minute, at(1, fmt.Sprint("user", j)))
		}
		b.age(t, 20*time.Minute, at(1, "alice"))
	}
	b.of.RollUp(t)
	until := time.Now()
	for _, ago := range []time.Duration{30, 70, 110} {
		since := until.Add(-ago * time.Minute)
		for _, most := range []int{1, 4, 100} {
			report, err := b.of.ZoneReport(t.Context(), b.user, zonereport.Query{
				Since: service.At(since), Until: service.At(until), MostRows: most,
			})
			if want := 2 * int64(ago/20); err != nil || report.Total.Attempts != want || !report.IsWhole {
				t.Errorf("of %d minutes, by %d rows: %d attempts, want %d; whole %v, %v", ago, most, report.Total.Attempts, want,
					report.IsWhole, err)
			}
		}
	}
}

// enteredAre compares accounts that were entered without their times.
func enteredAre(t *testing.T, got []zonereport.Entry, want ...string) {
	t.Helper()
	var all []string
	for _, e := range got {
		all = append(all, fmt.Sprintf("%s from %s, %s %d", e.User, e.Address, e.Cause, e.After))
		if e.TxnID == 0 || e.At.IsZero() {
			t.Errorf("%s at %v by txn %d", e.User, e.At.Time, e.TxnID)
		}
	}
	if slices.Sort(all); !slices.Equal(all, want) {
		t.Errorf("entered are %q\nwant %q", all, want)
	}
}

func reportOfEntered(t *testing.T, b reportSubject) {
	b.open(t, 100)
	b.tries(t, "198.51.100.1", failure, "honest", "honest")
	b.tries(t, "198.51.100.1", success, "honest")
	b.tries(t, "192.0.2.9", success, "owner")
	b.tries(t, "192.0.2.1", failure, "a", "b", "c", "d")
	b.tries(t, "192.0.2.1", success, "e")
	for i := range 4 { // many addresses at one user, who logs in from home meanwhile
		b.tries(t, fmt.Sprint("203.0.113.", i), failure, "owner")
	}
	b.tries(t, "192.0.2.9", success, "owner")
	b.tries(t, "203.0.113.1", success, "owner")
	for range 12 {
		b.tries(t, "203.0.113.77", failure, "guessed")
	}
	b.tries(t, "203.0.113.77", success, "guessed")
	b.tries(t, "198.51.100.9", failure, "f", "g", "h", "i") // an office
	b.tries(t, "198.51.100.9", success, "f", "g", "h", "i")
	enteredAre(t, b.report(t, 1, pairedQuery(10*time.Minute)).Entered,
		"e from 192.0.2.1, spray 4", "guessed from 203.0.113.77, guesses 12", "owner from 203.0.113.1, sources 4")
}

func reportOfDevices(t *testing.T, b reportSubject) {
	b.open(t, 3)
	b.set(t, service.Zone{ID: 1, Rate: 3, Window: 30 * time.Minute, Lockout: time.Hour})
	device, guesser := []service.Bucket{at(1, "greta"), at(2, "198.51.100.23")},
		[]service.Bucket{at(1, "victim"), at(2, "203.0.113.77")}
	for i := range 24 { // a try in ten minutes, and seven where it was woken
		for range 1 + 6*(i%8/7) {
			b.check(t, device...)
		}
		b.age(t, 10*time.Minute, device...)
	}
	for range 40 {
		b.check(t, guesser...)
	}
	report := b.report(t, 8, zonereport.Query{UsersZone: 1, AddressesZone: 2})
	if len(report.Devices) != 1 || len(report.Guesses) != 1 {
		t.Fatalf("devices are %+v, guesses %+v", report.Devices, report.Guesses)
	}
	for _, of := range []struct {
		s     zonereport.Series
		tries int64
		keys  []service.Bucket
	}{{report.Devices[0], 42, device}, {report.Guesses[0], 40, guesser}} {
		if of.s.User != of.keys[0].Key || of.s.Address != of.keys[1].Key || of.s.Tries != of.tries ||
			of.s.Attempts != of.tries || of.s.Blocked < 1 || of.s.TxnID != 0 {
			t.Errorf("%+v, want %d tries of %v", of.s, of.tries, of.keys)
		}
	}
	if pace := report.Devices[0].Pace.Duration; pace < 9*time.Minute || pace > 11*time.Minute {
		t.Errorf("the pace of the device is %v", pace)
	}
	enteredAre(t, report.Entered)
}

func reportOfBothZones(t *testing.T, b reportSubject) {
	b.open(t, 2)
	b.zone(t, 2, 3, time.Hour)
	for range 5 {
		b.check(t, at(1, "alice"), at(2, "192.0.2.1"))
	}
	for range 4 {
		b.check(t, at(2, "192.0.2.2"))
	}
	b.check(t, at(2, "192.0.2.3"))
	report := b.report(t, 1, zonereport.Query{UsersZone: 1, AddressesZone: 2})
	if len(report.Stopped) != 1 || report.Other == nil || report.Other.ZoneID != 2 || len(report.Other.Stopped) != 1 ||
		report.Other.Stopped[0].Key != "192.0.2.2" || report.Other.Stopped[0].WouldBlock != 1 {
		t.Errorf("stopped are %+v and %+v", report.Stopped, report.Other)
	}
	if alone := b.report(t, 1, zonereport.Query{}); alone.Other != nil {
		t.Errorf("a report of one zone has %+v of another", alone.Other)
	}
}
