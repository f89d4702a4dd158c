package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"velocityd/api"
	"velocityd/service"
)

// followPatience is for how long a follower asks again before he gives up.
const followPatience = time.Minute

// Follow yields the txns of a query that are recorded from now on, or behind the query's Cursor if it is not 0, by their
// ids and some seconds after they were recorded. It looks at no bound of time, Order and Limit. It ends when ctx does.
// When a connection breaks off, it asks again, and misses and repeats nothing; if a minute passes without an answer, the
// error of the last try is the last element. So is an error that another try would not mend, such as that of a token
// that was revoked, and any error of the very first try.
func (c *Client) Follow(ctx context.Context, query service.HistoryQuery) iter.Seq2[service.Txn, error] {
	r := request{action: "follow the history", method: http.MethodGet, accept: api.MediaEvents}
	return func(yield func(service.Txn, error) bool) {
		r.path = pathTxns + "/follow?" + filtersOf(query).Encode()
		f := follower{position: query.Cursor}
		for tries := 0; ctx.Err() == nil; tries++ {
			went, err := c.followOnce(ctx, r, &f, yield)
			var failed *failure
			switch {
			case !went || ctx.Err() != nil:
				return
			case f.heardAt.IsZero() || !errors.As(err, &failed) || !failed.again || time.Since(f.heardAt) > followPatience:
				yield(service.Txn{}, err)
				return
			case f.isFresh:
				tries = 0
			}
			if c.pause(ctx, max(failed.after, pauseAfter(tries))) != nil {
				return
			}
		}
	}
}

// follower is how far a caller has followed.
type follower struct {
	position uint64
	heardAt  time.Time // of the last part of a stream
	isFresh  bool      // the last try was answered
}

// followOnce follows until the stream ends. Its error is never nil, unless the caller of yield wants no more.
func (c *Client) followOnce(
	ctx context.Context, r request, f *follower, yield func(service.Txn, error) bool,
) (goesOn bool, err error) {
	last := ""
	if f.position != 0 {
		last = strconv.FormatUint(f.position, 10)
	}
	f.isFresh = false
	body, err := c.stream(ctx, r, last)
	if err != nil {
		return true, err
	}
	defer body.Close()
	f.isFresh = true
	for e, err := range eventsOf(body) {
		f.heardAt = time.Now()
		var txn service.Txn
		if err == nil {
			txn, err = e.txn()
		}
		switch {
		case err != nil:
			return true, c.brokenOff(r, err)
		case txn.ID != 0 && !yield(txn, nil):
			return false, nil
		}
		f.position = max(f.position, e.id)
	}
	return true, c.brokenOff(r, io.ErrUnexpectedEOF)
}

// event is one block of a stream of server-sent events.
type event struct {
	id         uint64 // 0 if it has none
	name, data string
}

// txn returns the txn of an event, or none if the event tells a position alone. The error is the problem that the event
// holds, or a formError.
func (e event) txn() (service.Txn, error) {
	switch {
	case e.name == api.EventProblem:
		problem := new(api.Problem)
		if json.Unmarshal([]byte(e.data), problem) != nil || problem.Title == "" {
			return service.Txn{}, formError{"an event is no problem"}
		}
		return service.Txn{}, problem
	case e.data == "" || e.name != "":
		return service.Txn{}, nil // a heartbeat, or an event that a later version sends
	}
	var txn api.Txn
	if err := json.Unmarshal([]byte(e.data), &txn); err != nil {
		return service.Txn{}, formError{describe(err)}
	}
	if txn.ID == 0 {
		return service.Txn{}, formError{"an event is no txn"}
	}
	return txn.Txn(), nil
}

// eventsOf yields the events of a stream, by the standard's rules for lines that a velocityd may write. An event that is
// cut off is not yielded.
func eventsOf(body io.Reader) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		var e event
		for line, err := range lines(body) {
			name, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch {
			case err != nil:
				yield(event{}, err)
				return
			case line == "":
				if !yield(e, nil) {
					return
				}
				e = event{}
			case name == "data":
				e.data += value
			case name == "event":
				e.name = value
			case name == "id":
				if e.id, err = strconv.ParseUint(value, 10, 64); err != nil {
					yield(event{}, formError{"the id of an event is no whole number"})
					return
				}
			}
		}
	}
}
