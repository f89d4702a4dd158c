package proof

import (
	"fmt"
	"time"

	"velocityd/service"
)

// Hours counts the attempts of each zone and hour.
type Hours map[ZoneHour]Counts

// ZoneHour is an hour of a zone, by its begin.
type ZoneHour struct {
	ZoneID int64
	Begin  time.Time
}

// Counts are the attempts of an hour.
type Counts struct {
	Attempts, Blocked, WouldBlock, Successes, Failures int64
	// late are attempts that txns of the hour stand for, and may have come after they were counted.
	late int64
}

// finalAfter is how long after the begin of an hour it is counted for the last time, at the earliest.
const finalAfter = 2 * time.Hour

// Add counts a row.
func (h Hours) Add(row *Row) {
	hour, n := ZoneHour{row.Bucket.ZoneID, row.CreatedAt.Truncate(time.Hour)}, int64(row.Attempts)
	counts := h[hour]
	counts.Attempts += n
	if row.LastAt.Sub(hour.Begin) >= finalAfter {
		counts.late += n - 1
	}
	if row.Blocked {
		counts.Blocked += n
	}
	if row.WouldBlock {
		counts.WouldBlock += n
	}
	switch row.Outcome {
	case service.OutcomeSuccess:
		counts.Successes++
	case service.OutcomeFailure:
		counts.Failures++
	}
	h[hour] = counts
}

// Judge returns a finding if the totals have counted other attempts in an hour, for the last time. Outcomes may have
// come since, and attempts that txns of the hour stand for.
func (h Hours) Judge(hour ZoneHour, counted Counts) (f Finding, differs bool) {
	there := h[hour]
	f = Finding{Kind: KindCount, ZoneID: hour.ZoneID, At: hour.Begin}
	for _, c := range []struct {
		what                 string
		counted, there, late int64
	}{
		{"attempts", counted.Attempts, there.Attempts, there.late},
		{"blocked attempts", counted.Blocked, there.Blocked, there.late},
		{"attempts without room", counted.WouldBlock, there.WouldBlock, there.late},
		{"successes", counted.Successes, there.Successes, there.Successes},
		{"failures", counted.Failures, there.Failures, there.Failures},
	} {
		if c.counted > c.there || c.counted < c.there-c.late {
			f.Text = fmt.Sprintf("the totals have counted %d %s in this hour, and the txns are %d", c.counted, c.what, c.there)
			return f, true
		}
	}
	return f, false
}
