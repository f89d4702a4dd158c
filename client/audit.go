package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"velocityd/service/audit"
)

var _ audit.Reader = (*Client)(nil)

// AuditEntries implements audit.Reader. The token needs the scope history; one that is bound to zones gets the
// entries of these zones alone.
func (c *Client) AuditEntries(ctx context.Context, q audit.Query) (audit.Page, error) {
	r := request{action: "read the audit", method: http.MethodGet}
	if err := q.Validate(); err != nil {
		return audit.Page{}, fmt.Errorf("%s: %w", r.action, err)
	}
	values := url.Values{"limit": {strconv.Itoa(q.Limit)}}
	for _, zone := range q.Zones {
		values.Add("zone", strconv.FormatInt(zone, 10))
	}
	for _, subject := range q.Subjects {
		values.Add("subject", subject)
	}
	for _, action := range q.Actions {
		values.Add("action", action)
	}
	for _, key := range q.Keys {
		values.Add("key", key)
	}
	if q.By != "" {
		values.Set("by", q.By)
	}
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			values.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	if q.Cursor != 0 {
		values.Set("before", strconv.FormatUint(q.Cursor, 10))
	}
	r.path = "/v1/audit?" + values.Encode()
	return ask[audit.Page](ctx, c, r)
}
