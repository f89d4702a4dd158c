package handlers

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/dunglas/httpsfv"

	"velocityd/service"
)

// setRateLimit sets RateLimit-Policy and RateLimit by
// draft-ietf-httpapi-ratelimit-headers-11, and Retry-After if d is blocked.
//
// In the draft's words a zone is a quota policy, named by the zone's id, and a
// bucket is a partition of it. Partition keys are left out, because they would
// have to be made from bucket keys, which belong in no header. An item for each
// of two buckets of one zone could then not be told apart, so a zone has one
// item: that of its strictest bucket. The body has every bucket.
func setRateLimit(header http.Header, d service.Decision) error {
	strictest := make([]service.Verdict, 0, service.MaxBuckets)
	for _, v := range d.Verdicts {
		i := slices.IndexFunc(strictest, func(s service.Verdict) bool { return s.Bucket.ZoneID == v.Bucket.ZoneID })
		switch {
		case i < 0:
			strictest = append(strictest, v)
		case v.RetryAfter > strictest[i].RetryAfter,
			v.RetryAfter == strictest[i].RetryAfter && v.Remaining() < strictest[i].Remaining():
			strictest[i] = v
		}
	}
	policies := make(httpsfv.List, len(strictest))
	limits := make(httpsfv.List, len(strictest))
	for i, v := range strictest {
		policies[i], limits[i] = rateLimitItems(v)
	}
	if err := setField(header, "RateLimit-Policy", policies); err != nil {
		return err
	}
	if err := setField(header, "RateLimit", limits); err != nil {
		return err
	}
	if d.Blocked {
		header.Set("Retry-After", decimal(seconds(d.RetryAfter())))
	}
	return nil
}

// rateLimitItems returns a zone's policy (quota, window) and its current limit
// (remaining, and the time until there is room if there is none).
func rateLimitItems(v service.Verdict) (policy, limit httpsfv.Item) {
	name := decimal(v.Bucket.ZoneID)
	policy, limit = httpsfv.NewItem(name), httpsfv.NewItem(name)
	policy.Params.Add("q", int64(v.Rate))
	policy.Params.Add("w", seconds(v.Window))
	limit.Params.Add("r", int64(v.Remaining()))
	if v.Blocked {
		limit.Params.Add("t", seconds(v.RetryAfter))
	}
	return policy, limit
}

func setField(header http.Header, name string, list httpsfv.List) error {
	value, err := httpsfv.Marshal(list)
	if err != nil {
		return fmt.Errorf("encode header %s: %w", name, err)
	}
	header.Set(name, value)
	return nil
}
