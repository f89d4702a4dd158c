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
type Counts struct{ Attempts, Blocked, WouldBlock, Successes, Failures int64 }

// Add counts a row.
func (h Hours) Add(row *Row) {
	hour, n := ZoneHour{row.Bucket.ZoneID, row.CreatedAt.Truncate(time.Hour)}, int64(row.Attempts)
	counts := h[hour]
	counts.Attempts += n
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
// come since.
func (h Hours) Judge(hour ZoneHour, counted Counts) (f Finding, differs bool) {
	there := h[hour]
	f = Finding{Kind: KindCount, ZoneID: hour.ZoneID, At: hour.Begin}
	for _, c := range []struct {
		what           string
		counted, there int64
		differs        bool
	}{
		{"attempts", counted.Attempts, there.Attempts, counted.Attempts != there.Attempts},
		{"blocked attempts", counted.Blocked, there.Blocked, counted.Blocked != there.Blocked},
		{"attempts without room", counted.WouldBlock, there.WouldBlock, counted.WouldBlock != there.WouldBlock},
		{"successes", counted.Successes, there.Successes, counted.Successes > there.Successes},
		{"failures", counted.Failures, there.Failures, counted.Failures > there.Failures},
	} {
		if c.differs {
			f.Text = fmt.Sprintf("the totals have counted %d %s in this hour, and the txns are %d", c.counted, c.what, c.there)
			return f, true
		}
	}
	return f, false
}
