package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"velocityd/api"
	"velocityd/service"
	"velocityd/service/event"
)

// pathEvents is the path of events.
const pathEvents = "/v1/events"

var _ event.Store = (*Client)(nil)

// Events implements event.Store. Keys may be in any spelling that the zone accepts. A token that is bound to zones gets
// the events of these zones alone.
func (c *Client) Events(ctx context.Context, query event.Query) (event.Page, error) {
	r := request{action: "read events", method: http.MethodGet}
	if err := query.Validate(); err != nil {
		return event.Page{}, fmt.Errorf("%s: %w", r.action, err)
	}
	values, cursor := choiceOf(query), "before"
	values.Set("limit", strconv.Itoa(query.Limit))
	values.Set("order", string(query.Order))
	if query.Order == service.OldestFirst {
		cursor = "after"
	}
	if query.Cursor != 0 {
		values.Set(cursor, strconv.FormatUint(query.Cursor, 10))
	}
	r.path = pathEvents + "?" + values.Encode()
	return ask[event.Page](ctx, c, r)
}

// FollowEvents yields the events of a query that are written from now on, or behind the query's Cursor if it is not 0,
// as Follow yields txns.
func (c *Client) FollowEvents(ctx context.Context, query event.Query) iter.Seq2[event.Event, error] {
	r := request{action: "follow events", method: http.MethodGet, accept: api.MediaEvents}
	r.path = pathEvents + "/follow?" + choiceOf(query).Encode()
	return follow(ctx, c, r, query.Cursor, func(text []byte) (event.Event, bool, error) {
		var e event.Event
		err := json.Unmarshal(text, &e)
		return e, e.ID != 0, err
	})
}

// choiceOf returns the parameters that choose among events.
func choiceOf(query event.Query) url.Values {
	values := filtersOf(service.HistoryQuery{Zones: query.Zones, Keys: query.Keys})
	for _, t := range query.Types {
		values.Add("type", string(t))
	}
	return values
}
