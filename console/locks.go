package console

import (
	"encoding/json"
	"slices"
	"time"

	"velocityd/console/figure"
	"velocityd/service"
	"velocityd/service/event"
)

// mostLocks bounds the lockouts of one zone that a page asks for.
const mostLocks = 50

// locks returns the newest lockouts of a key in a zone, the oldest first.
func (v *visit) locks(s standing) (locks []figure.Span, err error) {
	bucket := s.Peek.Bucket
	page, err := v.api.Events(v.r.Context(), event.Query{
		Types: []event.Type{event.BucketLocked, event.BucketLockEnded}, Zones: []int64{bucket.ZoneID}, Keys: []string{bucket.Key},
		Order: service.NewestFirst, Limit: mostLocks,
	})
	slices.Reverse(page.Events)
	for _, e := range page.Events {
		var data struct {
			LockedUntil time.Time `json:"locked_until"`
			LockedAt    time.Time `json:"locked_at"`
			EndedAt     time.Time `json:"ended_at"`
		}
		if json.Unmarshal(e.Data, &data) != nil {
			continue
		}
		switch {
		case e.Type == event.BucketLocked:
			locks = append(locks, figure.Span{From: e.At.Time, To: data.LockedUntil})
		case len(locks) > 0:
			locks[len(locks)-1].To = data.EndedAt
		default:
			locks = append(locks, figure.Span{From: data.LockedAt, To: data.EndedAt})
		}
	}
	return locks, err
}
