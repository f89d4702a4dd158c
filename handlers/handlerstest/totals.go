package handlerstest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"velocityd/service"
)

type sums struct {
	Attempts   int64 `json:"attempts"`
	Allowed    int64 `json:"allowed"`
	Blocked    int64 `json:"blocked"`
	WouldBlock int64 `json:"would_block"`
	Successes  int64 `json:"successes"`
	Failures   int64 `json:"failures"`
}

// totals has the members of both answers with totals.
type totals struct {
	ZoneID       int64        `json:"zone_id"`
	BucketKey    string       `json:"bucket_key"`
	By           service.Span `json:"by"`
	Since        time.Time    `json:"since"`
	Until        time.Time    `json:"until"`
	RolledUpTo   time.Time    `json:"rolled_up_to"`
	CountedTo    time.Time    `json:"counted_to"`
	CountedSince time.Time    `json:"counted_since"`
	LastAt       time.Time    `json:"last_at"`
	All          sums         `json:"all"`
	Spans        []struct {
		BeginsAt time.Time `json:"begins_at"`
		sums
		Buckets *int64 `json:"buckets"`
		Final   bool   `json:"final"`
	} `json:"spans"`
}

// ZoneTotals asks GET /v1/zones/{id}/totals.
func (c *Client) ZoneTotals(ctx context.Context, zoneID int64, query service.TotalsQuery) (service.ZoneTotals, error) {
	t, err := c.totals(ctx, fmt.Sprintf("/v1/zones/%d", zoneID), query)
	return service.ZoneTotals{ZoneID: t.ZoneID, TotalsQuery: t.query(), CountedTo: t.counted(), Spans: t.spans()}, err
}

// BucketTotals asks GET /v1/zones/{id}/buckets/{key}/totals.
func (c *Client) BucketTotals(ctx context.Context, bucket service.Bucket, query service.TotalsQuery) (service.BucketTotals, error) {
	t, err := c.totals(ctx, pathOf(bucket), query)
	return service.BucketTotals{
		Bucket: service.Bucket{ZoneID: t.ZoneID, Key: t.BucketKey}, CountedSince: t.CountedSince, TotalsQuery: t.query(), CountedTo: t.counted(),
		All: service.Totals(t.All), LastAt: t.LastAt, Spans: t.spans(),
	}, err
}

func (c *Client) totals(ctx context.Context, path string, query service.TotalsQuery) (t totals, err error) {
	values := url.Values{"by": {string(query.By)}}
	if !query.Since.IsZero() {
		values.Set("since", query.Since.Format(time.RFC3339Nano))
	}
	if !query.Until.IsZero() {
		values.Set("until", query.Until.Format(time.RFC3339Nano))
	}
	status, answer, err := c.ask(ctx, http.MethodGet, path+"/totals?"+values.Encode(), nil, "")
	if err != nil {
		return t, err
	}
	if status != http.StatusOK {
		return t, problemIn(answer)
	}
	return t, decode(answer, &t)
}

func (t totals) query() service.TotalsQuery {
	return service.TotalsQuery{Since: t.Since, Until: t.Until, By: t.By}
}

func (t totals) counted() service.CountedTo {
	return service.CountedTo{RolledUpTo: t.RolledUpTo, CountedTo: t.CountedTo}
}

func (t totals) spans() []service.SpanTotals {
	spans := make([]service.SpanTotals, len(t.Spans))
	for i, s := range t.Spans {
		spans[i] = service.SpanTotals{BeginsAt: s.BeginsAt.UTC(), Totals: service.Totals(s.sums), Buckets: s.Buckets, Final: s.Final}
	}
	return spans
}
