package handlerstest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"velocityd/service"
)

type peek struct {
	ZoneID      int64        `json:"zone_id"`
	BucketKey   string       `json:"bucket_key"`
	CheckedAt   time.Time    `json:"checked_at"`
	Mode        service.Mode `json:"mode"`
	Rate        int          `json:"rate"`
	Window      int64        `json:"window"`
	Velocity    *int         `json:"velocity"`
	Remaining   *int         `json:"remaining"`
	RetryAfter  int64        `json:"retry_after"`
	ResetAfter  int64        `json:"reset_after"`
	Reason      string       `json:"reason"`
	LockedUntil time.Time    `json:"locked_until"`
	Override    *override    `json:"override"`
	Txns        []txn        `json:"txns"`
}

type override struct {
	ID        uint64                 `json:"id,string"`
	ZoneID    int64                  `json:"zone_id"`
	BucketKey string                 `json:"bucket_key"`
	Prefix    netip.Prefix           `json:"prefix"`
	Action    service.OverrideAction `json:"action"`
	Rate      int                    `json:"rate"`
	Window    int64                  `json:"window"`
	Anchor    int                    `json:"period_anchor"`
	ExpiresAt time.Time              `json:"expires_at"`
	Reason    string                 `json:"reason"`
	CreatedBy string                 `json:"created_by"`
}

type txn struct {
	ID         uint64          `json:"id,string"`
	ZoneID     int64           `json:"zone_id"`
	BucketKey  string          `json:"bucket_key"`
	CreatedAt  time.Time       `json:"created_at"`
	Blocked    bool            `json:"blocked"`
	WouldBlock bool            `json:"would_block"`
	Reason     string          `json:"reason"`
	OverrideID uint64          `json:"override_id,string"`
	Counted    bool            `json:"counted"`
	Outcome    service.Outcome `json:"outcome"`
	AttemptID  string          `json:"attempt_id"`
	Attempts   int             `json:"attempts"`
	LastAt     time.Time       `json:"last_at"`
	Uncounted  time.Time       `json:"uncounted_at"`
	CheckID    uint64          `json:"check_id,string"`
}

// Peek asks GET /v1/zones/{id}/buckets/{key}.
func (c *Client) Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error) {
	return c.look(ctx, http.MethodGet, pathOf(bucket), nil, "")
}

// Release asks POST /v1/zones/{id}/buckets/{key}/release. A principal travels as
// if a proxy had found it out.
func (c *Client) Release(ctx context.Context, bucket service.Bucket, principal, reason string) error {
	body, err := json.Marshal(map[string]string{"reason": reason})
	if err != nil {
		return err
	}
	_, err = c.look(ctx, http.MethodPost, pathOf(bucket)+"/release", body, principal)
	return err
}

func pathOf(bucket service.Bucket) string {
	return fmt.Sprintf("/v1/zones/%d/buckets/%s", bucket.ZoneID, url.PathEscape(bucket.Key))
}

// look asks what is answered with a bucket.
func (c *Client) look(ctx context.Context, method, path string, body []byte, principal string) (service.Peek, error) {
	status, answer, err := c.ask(ctx, method, path, body, principal)
	if err != nil {
		return service.Peek{}, err
	}
	if status != http.StatusOK {
		return service.Peek{}, problemIn(answer)
	}
	var p peek
	err = decode(answer, &p)
	return p.peek(), err
}

func (p peek) peek() service.Peek {
	seen := service.Peek{
		Bucket: service.Bucket{ZoneID: p.ZoneID, Key: p.BucketKey}, At: p.CheckedAt.UTC(), Mode: p.Mode,
		Rate: p.Rate, Window: seconds(p.Window), Unmetered: p.Velocity == nil,
		ResetAfter: seconds(p.ResetAfter),
		RetryAfter: seconds(p.RetryAfter), Reason: service.Reason(p.Reason), LockedUntil: p.LockedUntil.UTC(),
	}
	if p.Velocity != nil && p.Remaining != nil {
		seen.Velocity, seen.Remaining = *p.Velocity, *p.Remaining
	}
	if o := p.Override; o != nil {
		seen.Override = &service.Override{
			ID: o.ID, ZoneID: o.ZoneID, Key: o.BucketKey, Prefix: o.Prefix, Action: o.Action, Rate: o.Rate,
			Window: seconds(o.Window), PeriodAnchor: o.Anchor, ExpiresAt: o.ExpiresAt.UTC(), Reason: o.Reason, CreatedBy: o.CreatedBy,
		}
	}
	for _, t := range p.Txns {
		seen.Txns = append(seen.Txns, t.txn())
	}
	return seen
}

func (t txn) txn() service.Txn {
	return service.Txn{
		ID: t.ID, Bucket: service.Bucket{ZoneID: t.ZoneID, Key: t.BucketKey}, CreatedAt: t.CreatedAt.UTC(),
		Blocked: t.Blocked, WouldBlock: t.WouldBlock, Reason: service.Reason(t.Reason), OverrideID: t.OverrideID, Counted: t.Counted,
		Outcome: t.Outcome, AttemptID: t.AttemptID,
		Attempts: t.Attempts, LastAt: t.LastAt.UTC(), UncountedAt: t.Uncounted.UTC(), CheckID: t.CheckID,
	}
}
