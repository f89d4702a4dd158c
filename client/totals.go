package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"velocityd/service"
)

// ZoneTotals implements service.TotalsStore.
func (c *Client) ZoneTotals(ctx context.Context, zoneID int64, query service.TotalsQuery) (service.ZoneTotals, error) {
	r := request{
		action: fmt.Sprintf("read the totals of zone %d", zoneID), method: http.MethodGet,
		path: zonePath(zoneID) + totalsPath(query),
	}
	return askAbout(ctx, c, r, "zone", func(a service.ZoneTotals) bool { return a.ZoneID == zoneID })
}

// BucketTotals implements service.TotalsStore. The key may be in any spelling that the zone accepts; the answer has it
// normalised.
func (c *Client) BucketTotals(
	ctx context.Context, bucket service.Bucket, query service.TotalsQuery,
) (service.BucketTotals, error) {
	r := request{action: fmt.Sprintf("read the totals of a bucket of zone %d", bucket.ZoneID), method: http.MethodGet}
	if err := bucket.Validate(); err != nil {
		return service.BucketTotals{}, fmt.Errorf("%s: %w", r.action, err)
	}
	r.path = zonePath(bucket.ZoneID) + "/buckets/" + url.PathEscape(bucket.Key) + totalsPath(query)
	return askAbout(ctx, c, r, "zone", func(a service.BucketTotals) bool { return a.ZoneID == bucket.ZoneID })
}

// totalsPath is the end of the path of totals, with its query.
func totalsPath(query service.TotalsQuery) string {
	values := url.Values{}
	if query.By != "" {
		values.Set("by", string(query.By))
	}
	for name, at := range map[string]time.Time{"since": query.Since.Time, "until": query.Until.Time} {
		if !at.IsZero() {
			values.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	if len(values) == 0 {
		return "/totals"
	}
	return "/totals?" + values.Encode()
}
