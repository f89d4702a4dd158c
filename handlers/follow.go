package handlers

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"velocityd/api"
	"velocityd/handlers/problem"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/feed"
)

const (
	pathFollow       = pathTxns + "/follow"
	fieldLastEventID = "Last-Event-Id"
	// followPause is the time between two looks at the history, and at the credentials of followers.
	followPause = time.Second
	// heartbeat is the time after which a follower gets its position if no item has come.
	heartbeat = 10 * time.Second
)

// followTxns answers GET /v1/txns/follow: with an event for each txn that is recorded from now on, or since the last
// event that the caller had, until the caller goes, its credential ends, the service stops, or the history cannot be
// read.
func (s *server) followTxns(x *exchange) error {
	h, err := s.decodeFollow(x, followParams())
	if err != nil {
		return err
	}
	return follow(s, x, func(ctx context.Context) iter.Seq2[feed.Step[service.Txn], error] {
		return s.feed.Follow(ctx, h.HistoryQuery)
	},
		func(t service.Txn) (uint64, any) {
			shown := []service.Txn{t}
			x.hideAttempts(shown, h.AttemptID)
			return t.ID, shown[0]
		})
}

// decodeFollow reads the query of a follower, with keys as they are recorded.
func (s *server) decodeFollow(x *exchange, params []string) (h historyRequest, err error) {
	if h, err = decodeHistory(x.Request().URL.RawQuery, params); err != nil {
		return h, err
	}
	if err = h.resume(x.Request().Header); err != nil {
		return h, err
	}
	if h.HistoryQuery, err = s.historyQuery(x, h); err != nil {
		return h, err
	}
	return h, refuseOldHTTP(x.Request())
}

// follow sends the items of steps as they come. form returns the id of an item, and the form in which it is sent.
func follow[T any](
	s *server, x *exchange, steps func(context.Context) iter.Seq2[feed.Step[T], error], form func(T) (uint64, any),
) error {
	w := &stream{x: x, media: api.MediaEvents}
	switch {
	case x.Request().Method == http.MethodHead:
		w.begin()
		return nil
	case s.Running.Err() != nil:
		return errStopping()
	}
	leave, err := s.takePlace(x, s.follows, api.ErrTooManyStreams)
	if err != nil {
		return err
	}
	defer leave()
	return sendEvents(s, w, steps, form)
}

// resume takes the position of a caller that had events before. It wins over that in the address, because browsers ask
// again with the first address.
func (h *historyRequest) resume(header http.Header) (err error) {
	given := header[fieldLastEventID]
	if len(given) == 0 {
		return nil
	}
	if h.Cursor, err = strconv.ParseUint(given[0], 10, 64); err != nil || len(given) > 1 {
		return problem.Invalid("The header Last-Event-ID must be the id of one event, a whole number in decimal.")
	}
	return nil
}

// sendEvents sends the events of a follower. Its error is the last one of them, if the service is at fault.
func sendEvents[T any](
	s *server, w *stream, steps func(context.Context) iter.Seq2[feed.Step[T], error], form func(T) (uint64, any),
) error {
	ctx, cancel := s.whileRunning(w.x)
	defer cancel()
	// It says how long to wait before asking again.
	if w.send(fmt.Appendf(nil, "retry: %d\n\n", 3*followPause.Milliseconds())) != nil {
		return nil
	}
	var part bytes.Buffer
	var last time.Time // so that the first step tells the position
	for step, err := range steps(ctx) {
		if err == nil {
			err = s.recheckCaller(w.x)
		}
		if err != nil {
			return s.breakOff(w, endEvents, err)
		}
		part.Reset()
		for _, item := range step.Items {
			id, shown := form(item)
			if err := appendEvent(&part, id, shown); err != nil {
				return s.breakOff(w, endEvents, fmt.Errorf("encode item %d: %w", id, err))
			}
		}
		if time.Since(last) > heartbeat || len(step.Items) > 0 {
			last = time.Now()
			// A heartbeat is no event for the caller's program. A caller whose filter lets few txns pass does not begin far
			// behind when it asks again.
			fmt.Fprintf(&part, ": alive\nid: %d\n\n", step.Position)
		}
		if part.Len() > 0 && w.send(part.Bytes()) != nil {
			return nil // the caller has gone
		}
	}
	if s.Running.Err() != nil {
		_ = s.breakOff(w, endEvents, errStopping()) // no fault
	}
	return nil
}

// recheckCaller returns an error if the credential of a caller has ended, or has other rights than before.
func (s *server) recheckCaller(x *exchange) error {
	if s.Auth.IsOpen() {
		return nil
	}
	now, err := s.identify(x)
	if err == nil && (!slices.Equal(now.Zones, x.caller.Zones) || !slices.Equal(now.Scopes, x.caller.Scopes)) {
		err = access.ErrUnauthenticated
	}
	return err
}

// appendEvent appends a server-sent event, whose id is that of its txn or event, and tells the browser from where to go
// on.
func appendEvent(b *bytes.Buffer, id uint64, shown any) error {
	fmt.Fprintf(b, "id: %d\ndata: ", id)
	err := json.MarshalWrite(b, shown)
	b.WriteString("\n\n")
	return err
}

// endEvents is the ending of a follower's stream.
func endEvents(b *bytes.Buffer, p api.Problem) bool {
	b.WriteString("event: " + api.EventProblem + "\ndata: ")
	err := json.MarshalWrite(b, p)
	b.WriteString("\n\n")
	return err == nil
}
