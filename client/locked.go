package client

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"velocityd/service/lockout"
)

var _ lockout.Store = (*Client)(nil)

// Locked implements lockout.Store: it returns a page of the buckets of a zone that are locked out, the newest lockout
// first.
func (c *Client) Locked(ctx context.Context, q lockout.Query) (lockout.Page, error) {
	r := request{
		action: fmt.Sprintf("list the locked buckets of zone %d", q.ZoneID), method: http.MethodGet,
		path: fmt.Sprintf("%s/locked?after=%d&limit=%d", zonePath(q.ZoneID), q.Cursor, cmp.Or(q.Limit, lockout.DefaultLimit)),
	}
	if err := q.Validate(); err != nil {
		return lockout.Page{}, fmt.Errorf("%s: %w", r.action, err)
	}
	return askAbout(ctx, c, r, "zone", func(a lockout.Page) bool { return a.ZoneID == q.ZoneID })
}
