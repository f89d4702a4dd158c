package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"velocityd/api"
	"velocityd/service"
	"velocityd/service/explain"
)

// Peek returns the view of a bucket for its next attempt, without making one. The key may be in any
// spelling that the zone accepts; the answer has it normalised.
func (c *Client) Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error) {
	return c.bucket(ctx, bucket, "", request{
		action: fmt.Sprintf("look at a bucket of zone %d", bucket.ZoneID), method: http.MethodGet,
	})
}

// peeksAtOnce bounds the zones in which PeekIn looks at the same time.
const peeksAtOnce = 8

// PeekIn looks at a key in many zones, in a few of them at once, and returns a view or an error for each. When ctx
// ends, those that are left get its error.
func (c *Client) PeekIn(ctx context.Context, zones []service.Zone, key string) ([]service.Peek, []error) {
	peeks, errs := make([]service.Peek, len(zones)), make([]error, len(zones))
	var next atomic.Int64
	var group sync.WaitGroup
	for range peeksAtOnce {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(zones)); i = next.Add(1) - 1 {
				if errs[i] = ctx.Err(); errs[i] == nil {
					peeks[i], errs[i] = c.Peek(ctx, service.Bucket{ZoneID: zones[i].ID, Key: key})
				}
			}
		})
	}
	group.Wait()
	return peeks, errs
}

// Release empties a bucket and ends its lockout. principal is the caller's name, or
// empty. reason is the reason, in 1 to service.MaxReasonLength characters.
func (c *Client) Release(ctx context.Context, bucket service.Bucket, principal, reason string) error {
	if !utf8.ValidString(reason) {
		return fmt.Errorf("%w: release a bucket of zone %d: the reason must be valid UTF-8", service.ErrInvalid,
			bucket.ZoneID)
	}
	_, err := c.bucket(ctx, bucket, "/release", request{
		action: fmt.Sprintf("release a bucket of zone %d", bucket.ZoneID), method: http.MethodPost,
		body: api.ReleaseRequest{Reason: reason}, principal: principal,
	})
	return err
}

// ReleaseMany releases up to service.MaxReleases buckets of a zone, each by itself, and returns an error or nil for
// each. It asks once and repeats nothing.
func (c *Client) ReleaseMany(
	ctx context.Context, zoneID int64, keys []string, principal, reason string,
) ([]error, error) {
	r := request{
		action: fmt.Sprintf("release %d buckets of zone %d", len(keys), zoneID), method: http.MethodPost,
		path: zonePath(zoneID) + "/release", body: api.ReleasesRequest{BucketKeys: keys, Reason: reason},
		principal: principal,
	}
	if !utf8.ValidString(reason + strings.Join(keys, "")) {
		return nil, fmt.Errorf("%w: %s: the keys and the reason must be valid UTF-8", service.ErrInvalid, r.action)
	}
	answer, err := ask[api.Releases](ctx, c, r)
	if err == nil && len(answer.Results) != len(keys) {
		err = c.unreadable(r, fmt.Sprintf("%d answers to %d buckets", len(answer.Results), len(keys)))
	}
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(keys))
	for i, result := range answer.Results {
		if result.Problem != nil {
			errs[i] = result.Problem
		}
	}
	return errs, nil
}

// bucket sends a request whose answer is a bucket.
func (c *Client) bucket(ctx context.Context, bucket service.Bucket, verb string, r request) (service.Peek, error) {
	if err := bucket.Validate(); err != nil {
		return service.Peek{}, fmt.Errorf("%s: %w", r.action, err)
	}
	r.path = zonePath(bucket.ZoneID) + "/buckets/" + url.PathEscape(bucket.Key) + verb
	return askAbout(ctx, c, r, "zone", func(a service.Peek) bool { return a.ZoneID == bucket.ZoneID })
}

// Explain says why a recorded attempt was decided as it was, or returns an error that wraps service.ErrNotFound.
func (c *Client) Explain(ctx context.Context, txnID uint64) (explain.Explanation, error) {
	r := request{
		action: fmt.Sprintf("explain txn %d", txnID), method: http.MethodGet,
		path: fmt.Sprintf("/v1/txns/%d/explanation", txnID),
	}
	return askAbout(ctx, c, r, "txn", func(a explain.Explanation) bool { return a.Txn.ID == txnID })
}

// Txn returns one recorded attempt, or an error that wraps service.ErrNotFound.
func (c *Client) Txn(ctx context.Context, id uint64) (service.Txn, error) {
	r := request{action: fmt.Sprintf("read txn %d", id), method: http.MethodGet, path: fmt.Sprintf("/v1/txns/%d", id)}
	return askAbout(ctx, c, r, "txn", func(a service.Txn) bool { return a.ID == id })
}
