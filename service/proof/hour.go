package proof

import (
	"fmt"
	"time"
)

// Hours counts the attempts of each zone and hour.
type Hours map[ZoneHour]int64

// ZoneHour is an hour of a zone, by its begin.
type ZoneHour struct {
	ZoneID int64
	Begin  time.Time
}

// Add counts a row.
func (h Hours) Add(row *Row) {
	h[ZoneHour{row.Bucket.ZoneID, row.CreatedAt.Truncate(time.Hour)}] += int64(row.Attempts)
}

// Judge returns a finding if the totals have counted another number of attempts in an hour, for the last time.
func (h Hours) Judge(hour ZoneHour, counted int64) (f Finding, differs bool) {
	there := h[hour]
	return Finding{
		Kind: KindCount, ZoneID: hour.ZoneID, At: hour.Begin,
		Text: fmt.Sprintf("the totals have counted %d attempts in this hour, and the txns are %d", counted, there),
	}, there != counted
}
