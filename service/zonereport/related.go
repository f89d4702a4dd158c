package zonereport

import (
	"cmp"
	"slices"
	"time"

	"velocityd/service"
)

// shownRelated is how many of the other keys of a key are shown at once.
const shownRelated = 12

// RelatedKeys are the other keys of the checks of a key: the addresses of a user, or the users of an address.
type RelatedKeys struct {
	Checks  int // that were looked at
	Since   time.Time
	HasMore bool // there are older ones
	All     []RelatedKey
}

// RelatedKey is one of them, and its checks.
type RelatedKey struct {
	Bucket          service.Bucket
	Checks          int
	FirstAt, LastAt time.Time
	Origin          *service.Origin
}

// Shown are the keys of most checks, and Rest the others.
func (b RelatedKeys) Shown() []RelatedKey { return b.All[:min(shownRelated, len(b.All))] }

// Rest are those that are not Shown.
func (b RelatedKeys) Rest() []RelatedKey { return b.All[len(b.Shown()):] }

// RelatedKeysOf counts the other keys of the checks of a key. own are the buckets of the key itself, in any form that
// zones keep it in.
func RelatedKeysOf(checks []service.RecordedCheck, own map[service.Bucket]bool, hasMore bool) RelatedKeys {
	found := RelatedKeys{HasMore: hasMore}
	places, isSeen := map[service.Bucket]int{}, map[service.CheckKey]bool{}
	for _, check := range checks {
		of := check.Txns[0].Check()
		if isSeen[of] {
			continue // the key has a txn of it in another zone, too
		}
		isSeen[of] = true
		found.Checks++
		isCounted := map[service.Bucket]bool{}
		for _, t := range check.Txns {
			if found.Since.IsZero() || t.CreatedAt.Before(found.Since) {
				found.Since = t.CreatedAt.Time
			}
			if isCounted[t.Bucket] || own[t.Bucket] {
				continue
			}
			isCounted[t.Bucket] = true
			place, isKnown := places[t.Bucket]
			if !isKnown {
				place = len(found.All)
				places[t.Bucket] = place
				found.All = append(
					found.All, RelatedKey{Bucket: t.Bucket, FirstAt: t.CreatedAt.Time, LastAt: t.CreatedAt.Time, Origin: t.Origin})
			}
			n := &found.All[place]
			n.Checks++
			if t.CreatedAt.Before(n.FirstAt) {
				n.FirstAt = t.CreatedAt.Time
			}
			if t.CreatedAt.After(n.LastAt) {
				n.LastAt = t.CreatedAt.Time
			}
		}
	}
	slices.SortStableFunc(found.All, func(a, b RelatedKey) int {
		return cmp.Or(cmp.Compare(b.Checks, a.Checks), b.LastAt.Compare(a.LastAt))
	})
	return found
}

// OwnTxns returns the txns of a bucket among those of its checks. Its key may be recorded in several forms, by the keys
// of pseudonyms: so the only txn of the zone in a check is one of the bucket, too.
func OwnTxns(checks []service.RecordedCheck, bucket service.Bucket) (own []service.Txn) {
	for _, check := range checks {
		var ofZone []service.Txn
		for _, t := range check.Txns {
			if t.ZoneID == bucket.ZoneID {
				ofZone = append(ofZone, t)
			}
		}
		for _, t := range ofZone {
			if t.Bucket == bucket || len(ofZone) == 1 {
				own = append(own, t)
			}
		}
	}
	return own
}

// TriedKeysOf is RelatedKeysOf the checks without a success, and of the keys of one zone alone: the others of a Burst.
// For zone 0 it is RelatedKeysOf all checks.
func TriedKeysOf(checks []service.RecordedCheck, own map[service.Bucket]bool, hasMore bool, zone int64) RelatedKeys {
	if zone == 0 {
		return RelatedKeysOf(checks, own, hasMore)
	}
	found := RelatedKeysOf(slices.DeleteFunc(slices.Clone(checks),
		func(c service.RecordedCheck) bool { return c.Outcome == service.OutcomeSuccess }), own, hasMore)
	found.All = slices.DeleteFunc(found.All, func(k RelatedKey) bool { return k.Bucket.ZoneID != zone })
	return found
}
