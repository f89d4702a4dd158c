package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"velocityd/api"
	"velocityd/service"
)

// The paths of the history.
const (
	pathTxns   = "/v1/txns"
	pathChecks = "/v1/checks"
)

var _ service.HistoryStore = (*Client)(nil)

// History implements service.HistoryStore. Keys may be in any spelling that the zone accepts. A token that is bound to
// zones gets the txns of these zones alone.
func (c *Client) History(ctx context.Context, query service.HistoryQuery) (service.HistoryPage, error) {
	return askPage[service.HistoryPage](ctx, c, "read the history", pathTxns, query)
}

// Checks implements service.CheckHistory. Keys may be in any spelling that the zone accepts. A token that is bound to
// zones gets the checks of these zones, without their txns in other zones.
func (c *Client) Checks(ctx context.Context, query service.HistoryQuery) (service.CheckPage, error) {
	return askPage[service.CheckPage](ctx, c, "read the checks", pathChecks, query)
}

// askPage asks for a page of the answers to a query.
func askPage[T any](
	ctx context.Context, c *Client, action, path string, query service.HistoryQuery,
) (page T, err error) {
	if err := query.Validate(); err != nil {
		return page, fmt.Errorf("%s: %w", action, err)
	}
	values := HistoryValues(query)
	values.Set("limit", strconv.Itoa(query.Limit))
	return ask[T](ctx, c, request{action: action, method: http.MethodGet, path: path + "?" + values.Encode()})
}

// filtersOf returns the parameters that choose among txns.
func filtersOf(query service.HistoryQuery) url.Values {
	values := url.Values{}
	for _, zone := range query.Zones {
		values.Add("zone", strconv.FormatInt(zone, 10))
	}
	for _, key := range query.Keys {
		values.Add("key", key)
	}
	if query.Blocked != nil {
		values.Set("blocked", strconv.FormatBool(*query.Blocked))
	}
	if query.WouldBlock != nil {
		values.Set("would_block", strconv.FormatBool(*query.WouldBlock))
	}
	if query.Outcome != nil {
		values.Set("outcome", string(*query.Outcome))
		if *query.Outcome == "" {
			values.Set("outcome", api.OutcomeNone)
		}
	}
	if query.AttemptID != "" {
		values.Set("attempt_id", query.AttemptID)
	}
	return values
}

// HistoryValues returns the parameters by which GET /v1/txns is asked for a query. They do NOT have its Limit, which
// streams have none of.
func HistoryValues(query service.HistoryQuery) url.Values {
	values := filtersOf(query)
	for name, at := range map[string]time.Time{"since": query.Since, "until": query.Until} {
		if !at.IsZero() {
			values.Set(name, service.At(at).String())
		}
	}
	cursor := "before"
	values.Set("order", string(query.Order))
	if query.Order == service.OldestFirst {
		cursor = "after"
	}
	if query.Cursor != 0 {
		values.Set(cursor, strconv.FormatUint(query.Cursor, 10))
	}
	return values
}
