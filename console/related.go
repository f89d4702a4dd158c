package console

import (
	"net/url"
	"strconv"
	"time"

	"velocityd/service"
	"velocityd/service/zonereport"
)

// maxRelatedChecks bounds the checks of a key that the page of its related keys reads.
const maxRelatedChecks = 5000

// relatedPage is the content of the page of all keys that were named beside a key. Tried is the zone of the keys if
// only those of one zone are asked for, in checks without a success, and otherwise 0.
type relatedPage struct {
	Bucket service.Bucket
	Until  time.Time
	Tried  int64
	zonereport.RelatedKeys
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
	query, tried := f.query, int64(0)
	if len(query.Zones) > 0 {
		tried = query.Zones[0]
	}
	query.Zones, query.Keys, query.Limit = []int64{bucket.ZoneID}, []string{bucket.Key}, service.MaxHistoryPage
	all, err := v.pagesOfChecks(query, func(all service.CheckPage, _ int) bool {
		return len(all.Checks) >= maxRelatedChecks
	})
	if err != nil {
		return err
	}
	own := map[service.Bucket]bool{}
	for _, t := range zonereport.OwnTxns(all.Checks, bucket) {
		own[t.Bucket] = true
	}
	found := zonereport.TriedKeysOf(all.Checks, own, all.Next != 0, tried)
	return v.show("related", "", "Beside a key", relatedPage{bucket, query.Until, tried, found})
}

// triedPath returns the path of the keys of a zone that were named without a success beside a bucket's, from an instant
// on and before another one.
func (c *console) triedPath(bucket service.Bucket, zone int64, since, until service.Instant) string {
	return withQuery("keys/"+c.sealedKey(bucket)+"/beside", url.Values{
		"zone": {strconv.FormatInt(zone, 10)}, "since": {addressTime(since.Time)}, "until": {addressTime(until.Time)},
	})
}
