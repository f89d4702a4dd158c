package lockout

import (
	"cmp"
	"encoding/json"
	"slices"

	"velocityd/service"
	"velocityd/service/event"
)

// Spell is a lockout of a bucket as events tell of it: also one that has ended.
type Spell struct{ Since, Until service.Instant }

// Release is a release of a bucket as its event tells of it.
type Release struct {
	service.Bucket
	At     service.Instant
	By     string // on whose behalf, or the account
	Reason string
}

// Story returns the lockouts, the oldest first, and the releases, the newest first, of one bucket's events, which come
// with the newest first. Other events, and those that cannot be read, are left out.
func Story(events []event.Event) (spells []Spell, releases []Release) {
	for _, e := range slices.Backward(events) {
		var data struct {
			LockedUntil service.Instant `json:"locked_until"`
			LockedAt    service.Instant `json:"locked_at"`
			EndedAt     service.Instant `json:"ended_at"`
			By          string          `json:"by"`
			Account     string          `json:"account"`
			Reason      string          `json:"reason"`
		}
		if json.Unmarshal(e.Data, &data) != nil {
			continue
		}
		switch last := len(spells) - 1; {
		case e.Type == event.BucketReleased:
			releases = append(releases, Release{e.Bucket, e.At, cmp.Or(data.By, data.Account), data.Reason})
		case e.Type == event.BucketLocked:
			spells = append(spells, Spell{e.At, data.LockedUntil})
		case e.Type == event.BucketLockEnded && last >= 0:
			spells[last].Until = data.EndedAt
		case e.Type == event.BucketLockEnded:
			spells = append(spells, Spell{data.LockedAt, data.EndedAt})
		}
	}
	slices.Reverse(releases)
	return spells, releases
}
