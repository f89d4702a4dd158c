package client

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"velocityd/service/barred"
)

var _ barred.Store = (*Client)(nil)

// Locked implements barred.Store: it returns a page of the buckets of a zone that are locked out, the newest lockout first.
func (c *Client) Locked(ctx context.Context, q barred.Query) (barred.Page, error) {
	r := request{
		action: fmt.Sprintf("list the locked buckets of zone %d", q.ZoneID), method: http.MethodGet,
		path: fmt.Sprintf("%s/locked?after=%d&limit=%d", zonePath(q.ZoneID), q.Cursor, cmp.Or(q.Limit, barred.DefaultLimit)),
	}
	if err := q.Validate(); err != nil {
		return barred.Page{}, fmt.Errorf("%s: %w", r.action, err)
	}
	return askAbout(ctx, c, r, "zone", func(a barred.Page) bool { return a.ZoneID == q.ZoneID })
}
