package report

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

// sample is a report with all kinds of entries and with keys that attackers choose.
func sample(t *testing.T, hours int) View {
	t.Helper()
	zone := service.Zone{ID: 1, Description: `login <b>per</b> "user"`, Rate: 5, Window: time.Minute}.WithDefaults()
	until := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	q := service.ZoneReportQuery{Since: until.Add(-time.Duration(hours) * time.Hour), Until: until, UsersZone: 1, AddressesZone: 2}
	reporter, err := service.NewZoneReporter(zone, q)
	if err != nil {
		t.Fatal(err)
	}
	id := uint64(0)
	add := func(at time.Time, user, address string, blocked bool, outcome service.Outcome) {
		id += 2
		reason := service.Reason("")
		if blocked {
			reason = service.ReasonFull
		}
		for i, bucket := range []service.Bucket{{ZoneID: 1, Key: user}, {ZoneID: 2, Key: address}} {
			reporter.Add(service.Txn{
				ID: id + uint64(i), CheckID: id, Bucket: bucket, CreatedAt: at, LastAt: at, Attempts: 1, Blocked: blocked, WouldBlock: blocked,
				Reason: reason, Counted: !blocked, Outcome: outcome,
			})
		}
	}
	for hour := range hours {
		at := q.Since.Add(time.Duration(hour) * time.Hour)
		for n := range 20 + (hour*7)%90 {
			add(at.Add(time.Duration(n)*17*time.Second), fmt.Sprint("user", n%40), fmt.Sprint("198.51.100.", n%50), (n+hour)%9 == 8, service.OutcomeSuccess)
		}
	}
	attack := until.Add(-30 * time.Minute)
	for n := range 31 {
		add(attack.Add(time.Duration(n)*time.Second), fmt.Sprint("staff", n), "203.0.113.9", false, service.OutcomeFailure)
		add(attack.Add(time.Duration(n)*time.Second), fmt.Sprint("other", n%17), "203.0.113.77", n > 25, service.OutcomeFailure)
		add(attack.Add(time.Duration(n)*time.Second), "<script>alert(1)</script>", fmt.Sprint("192.0.2.", n), n > 4, service.OutcomeFailure)
	}
	add(attack.Add(time.Minute), "\u202egro.elpmaxe' onload='x\"", "203.0.113.9", false, service.OutcomeSuccess)
	for range 5 {
		add(attack, "bob", "198.51.100.1", false, "")
	}
	return View{Zone: zone, Report: reporter.Report(time.Time{}), Key: strconv.Quote}
}

func TestNoHourIsLostWhereSeveralShareAColumn(t *testing.T) {
	t.Parallel()
	for _, hours := range []int{1, 95, 97, 500, 2000} {
		v := sample(t, hours)
		var sum service.Totals
		columns := v.columns()
		for _, c := range columns {
			sum = sum.Plus(c.Totals)
		}
		if sum != v.Report.Total || !columns[0].Begins.Equal(v.Report.Query.Since) || len(columns) > mostColumns {
			t.Errorf("%d hours: %d columns from %v, %+v", hours, len(columns), columns[0].Begins, sum)
		}
	}
}

func TestTableShowsEachListAndNoControlCharacter(t *testing.T) {
	t.Parallel()
	var table bytes.Buffer
	if err := sample(t, 24).Table(&table); err != nil {
		t.Fatal(err)
	}
	text := table.String()
	for _, wanted := range []string{
		"attempts by hour", "====", "#", "addresses that tried at least 15 users in 5 minutes", "users tried from at least 10",
		"stopped most", "near the limit of 5 in 1 minute", `1: "\u202egro`,
	} {
		if !strings.Contains(text, wanted) {
			t.Errorf("the table lacks %q:\n%s", wanted, text)
		}
	}
	if strings.ContainsRune(text, '\u202e') {
		t.Error("the table turns the direction of text")
	}
}

func TestAnEmptyReportSaysOfWhichTimeItIs(t *testing.T) {
	t.Parallel()
	until := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	reporter, err := service.NewZoneReporter(service.Zone{ID: 1, Rate: 5, Window: time.Minute},
		service.ZoneReportQuery{Since: until.Add(-time.Hour), Until: until, UsersZone: 1, AddressesZone: 2})
	if err != nil {
		t.Fatal(err)
	}
	v := View{Zone: service.Zone{ID: 1, Rate: 5, Window: time.Minute}, Report: reporter.Report(time.Time{}), Key: strconv.Quote}
	v.Report.IsCut, v.Report.Rows, v.Report.From = true, 2_000_000, until.Add(-20*time.Minute)
	var table bytes.Buffer
	if err := v.Table(&table); err != nil || strings.Count(table.String(), "  none since 2026-11-26 11:40:00; before that, nothing was looked at\n") != 4 ||
		!strings.Contains(table.String(), "Since 2026-11-26 11:40:00: 0 attempts") ||
		!strings.Contains(table.String(), "Only the newest 2,000,000 txns were looked at, from 2026-11-26 11:40:00 on") {
		t.Errorf("%v:\n%s", err, table.String())
	}
}
