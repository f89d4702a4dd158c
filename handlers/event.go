package handlers

import (
	"context"
	"iter"
	"net/http"

	"velocityd/api"
	"velocityd/service"
	"velocityd/service/event"
	"velocityd/service/feed"
)

// Paths of events.
const (
	pathEvents       = "/v1/events"
	pathFollowEvents = pathEvents + "/follow"
	pathEventSchema  = pathEvents + "/schema"
)

// mediaSchema is the media type of a JSON Schema.
const mediaSchema = "application/schema+json"

// eventParams are the parameters that choose among events.
func eventParams() []string { return []string{paramType, paramZone, paramKey} }

// eventPageParams are those that choose a page, too.
func eventPageParams() []string {
	return append(eventParams(), paramOrder, paramLimit, paramBefore, paramAfter)
}

// eventQuery returns the query of a request for events, whose keys are as they are recorded.
func (h historyRequest) eventQuery(q service.HistoryQuery) event.Query {
	return event.Query{Types: h.types, Zones: q.Zones, Keys: q.Keys, Order: q.Order, Cursor: q.Cursor, Limit: q.Limit}
}

// listEvents answers GET /v1/events with one page.
func (s *server) listEvents(x *exchange) error {
	h, err := decodeHistory(x.Request().URL.RawQuery, eventPageParams())
	if err != nil {
		return err
	}
	query, err := s.historyQuery(x, h)
	if err != nil {
		return err
	}
	return s.show(x, "", func(ctx context.Context) (any, error) {
		return s.Reader.Events(ctx, h.eventQuery(query))
	})
}

// followEvents answers GET /v1/events/follow, as followTxns does.
func (s *server) followEvents(x *exchange) error {
	h, err := s.decodeFollow(x, append(eventParams(), paramAfter))
	if err != nil {
		return err
	}
	return follow(s, x, func(ctx context.Context) iter.Seq2[feed.Step[event.Event], error] {
		return s.eventFeed.Follow(ctx, h.eventQuery(h.HistoryQuery))
	}, func(e event.Event) (uint64, any) { return e.ID, e })
}

// showEventSchema answers GET /v1/events/schema.
func (s *server) showEventSchema(x *exchange) error {
	x.respond(http.StatusOK, mediaSchema, api.EventSchema)
	return nil
}
