package handlers

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"velocityd/handlers/problem"
	"velocityd/service"
)

// showZoneTotals answers GET /v1/zones/{id}/totals.
func (s *server) showZoneTotals(x *exchange, zoneID int64) error {
	query, err := totalsQuery(x.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	return s.show(x, noZone(zoneID), func(ctx context.Context) (any, error) {
		return s.Reader.ZoneTotals(ctx, zoneID, query)
	})
}

// showBucketTotals answers GET /v1/zones/{id}/buckets/{key}/totals.
func (s *server) showBucketTotals(x *exchange, given service.Bucket) error {
	query, err := totalsQuery(x.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	return s.show(x, noZone(given.ZoneID), func(ctx context.Context) (any, error) {
		bucket, err := s.normalBucket(ctx, given)
		if err != nil {
			return nil, err
		}
		return s.Reader.BucketTotals(ctx, bucket, query)
	})
}

// totalsQuery reads the parameters since, until and by of a query.
func totalsQuery(query string) (q service.TotalsQuery, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return q, problem.Invalid("The query is not percent-encoded correctly.")
	}
	q.By = service.Span(values.Get("by"))
	for name, instant := range map[string]*time.Time{"since": &q.Since.Time, "until": &q.Until.Time} {
		if !values.Has(name) {
			continue
		}
		at, err := time.Parse(time.RFC3339, values.Get(name))
		if err != nil || len(values[name]) > 1 || at.Year() < 1 || at.Year() > 9999 {
			return q, problem.Invalid(fmt.Sprintf("%s must be one instant by RFC 3339, such as 2026-08-24T09:00:00Z.", name))
		}
		*instant = at.UTC()
	}
	return q, nil
}
