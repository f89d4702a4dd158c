package console

import (
	"cmp"
	"net/url"
	"slices"
	"time"

	"velocityd/service"
)

const (
	// maxRelatedChecks bounds the attempts of a key whose other keys a page of its own counts, and shownRelated the other
	// keys that the page of a key shows at once.
	maxRelatedChecks, shownRelated = 5000, 12
)

// relatedKeys are the other keys of the checks of a key: the addresses of a user, or the users of an address.
type relatedKeys struct {
	Checks  int // that were looked at
	Since   time.Time
	HasMore bool // there are older ones
	All     []relatedKey
}

type relatedKey struct {
	Bucket          service.Bucket
	Checks          int
	FirstAt, LastAt time.Time
	Origin          *service.Origin
}

// Shown are the keys of most checks, and Rest the others.
func (b relatedKeys) Shown() []relatedKey { return b.All[:min(shownRelated, len(b.All))] }

// Rest are those that are not Shown.
func (b relatedKeys) Rest() []relatedKey { return b.All[len(b.Shown()):] }

// relatedKeysOf counts the other keys of the checks of a key. own are the buckets of the key itself, in any form that
// zones keep it in.
func relatedKeysOf(checks []service.RecordedCheck, own map[service.Bucket]bool, hasMore bool) relatedKeys {
	found := relatedKeys{HasMore: hasMore}
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
					found.All, relatedKey{Bucket: t.Bucket, FirstAt: t.CreatedAt.Time, LastAt: t.CreatedAt.Time, Origin: t.Origin})
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
	slices.SortStableFunc(found.All, func(a, b relatedKey) int {
		return cmp.Or(cmp.Compare(b.Checks, a.Checks), b.LastAt.Compare(a.LastAt))
	})
	return found
}

// relatedPage is the content of the page of all keys that were named beside a key.
type relatedPage struct {
	Bucket service.Bucket
	Until  time.Time
	relatedKeys
}

// relatedToKey shows all keys that the checks of a key named in a time.
func (v *visit) relatedToKey() error {
	bucket, ok := v.openKey(v.r.PathValue("key"))
	if !ok || bucket.ZoneID == 0 {
		return v.failSealed()
	}
	f, err := v.filter(v.r.URL.Query())
	if err != nil {
		return err
	}
	query := f.query
	query.Zones, query.Keys, query.Limit = []int64{bucket.ZoneID}, []string{bucket.Key}, service.MaxHistoryPage
	all, err := v.pagesOfChecks(query, func(all service.CheckPage, _ int) bool {
		return len(all.Checks) >= maxRelatedChecks
	})
	if err != nil {
		return err
	}
	own := map[service.Bucket]bool{}
	for _, t := range ownTxns(all.Checks, bucket) {
		own[t.Bucket] = true
	}
	return v.show("related", "", "Beside a key",
		relatedPage{bucket, query.Until, relatedKeysOf(all.Checks, own, all.Next != 0)})
}

// ownTxns returns the txns of a bucket among those of its checks. Its key may be recorded in several forms, by the keys
// of pseudonyms: so the only txn of the zone in a check is one of the bucket, too.
func ownTxns(checks []service.RecordedCheck, bucket service.Bucket) (own []service.Txn) {
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

// relatedPath returns the path of the keys beside a bucket's, from an instant on and up to another one, as addresses
// have it.
func (c *console) relatedPath(bucket service.Bucket, since time.Time, until string) string {
	return withQuery("keys/"+c.sealedKey(bucket)+"/beside", url.Values{"since": {addressTime(since)}, "until": {until}})
}
