package console

import (
	"net/url"
	"time"

	"velocityd/service"
	"velocityd/service/zonereport"
)

// maxRelatedChecks bounds the attempts of a key whose other keys a page of its own counts.
const maxRelatedChecks = 5000

// relatedPage is the content of the page of all keys that were named beside a key.
type relatedPage struct {
	Bucket service.Bucket
	Until  time.Time
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
	query := f.query
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
	return v.show("related", "", "Beside a key",
		relatedPage{bucket, query.Until, zonereport.RelatedKeysOf(all.Checks, own, all.Next != 0)})
}

// relatedPath returns the path of the keys beside a bucket's, from an instant on and up to another one, as addresses
// have it.
func (c *console) relatedPath(bucket service.Bucket, since time.Time, until string) string {
	return withQuery("keys/"+c.sealedKey(bucket)+"/beside", url.Values{"since": {addressTime(since)}, "until": {until}})
}
