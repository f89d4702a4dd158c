package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// Follow yields the txns of a query that are recorded from now on, or behind the query's Cursor if it is not 0, by
// their ids and some seconds after they were recorded. It looks at no bound of time, Order and Limit. It ends when ctx
// does. When a connection breaks off, it asks again, and misses and repeats nothing; if a minute passes without an
// answer, the error of the last try is the last element. So is an error that another try would not mend, such as that
// of a token that was revoked, and any error of the very first try.
func (c *Client) Follow(ctx context.Context, query service.HistoryQuery) iter.Seq2[service.Txn, error] {
	r := request{action: "follow the history", method: http.MethodGet, accept: api.MediaEvents}
	r.path = pathTxns + "/follow?" + filtersOf(query).Encode()
	return follow(ctx, c, r, query.Cursor, func(text []byte) (service.Txn, bool, error) {
		var txn service.Txn
		err := json.Unmarshal(text, &txn)
		return txn, txn.ID != 0, err
	})
}

// follow yields the items of a stream of events, each of which read reads, that come behind a position.
func follow[T any](ctx context.Context, c *Client, r request, position uint64, read reader[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		f := follower{position: position}
		for tries := 0; ctx.Err() == nil; tries++ {
			went, err := followOnce(ctx, c, r, &f, read, yield)
			var failed *failure
			switch {
			case !went || ctx.Err() != nil:
				return
			case c.isInProcess && !f.heardAt.IsZero():
				yield(*new(T), fmt.Errorf("%w; the last position was %d", err, f.position))
				return
			case f.heardAt.IsZero() || !errors.As(err, &failed) || !failed.again || time.Since(f.heardAt) > followPatience:
				yield(*new(T), err)
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

// reader reads the data of an event, and reports whether it is an item.
type reader[T any] func(text []byte) (item T, isItem bool, err error)

// follower is how far a caller has followed.
type follower struct {
	position uint64
	heardAt  time.Time // of the last part of a stream
	isFresh  bool      // the last try was answered
}

// followOnce follows until the stream ends. Its error is never nil, unless the caller of yield wants no more.
func followOnce[T any](
	ctx context.Context, c *Client, r request, f *follower, read reader[T], yield func(T, error) bool,
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
	for e, err := range messagesOf(body) {
		f.heardAt = time.Now()
		var item T
		var isItem bool
		if err == nil {
			item, isItem, err = itemOf(e, read)
		}
		switch {
		case err != nil:
			return true, c.brokenOff(r, err)
		case isItem && !yield(item, nil):
			return false, nil
		}
		f.position = max(f.position, e.id)
	}
	return true, c.brokenOff(r, io.ErrUnexpectedEOF)
}

// message is one block of a stream of server-sent events.
type message struct {
	id         uint64 // 0 if it has none
	name, data string
}

// itemOf returns the item of a message, or none if the message tells a position alone. The error is the problem that
// the message holds, or a formError.
func itemOf[T any](m message, read reader[T]) (item T, isItem bool, err error) {
	switch {
	case m.name == api.EventProblem:
		problem := new(api.Problem)
		if json.Unmarshal([]byte(m.data), problem) != nil || problem.Title == "" {
			return item, false, formError{"an event is no problem"}
		}
		return item, false, problem
	case m.data == "" || m.name != "":
		return item, false, nil // a heartbeat, or an event that a later version sends
	}
	item, isItem, err = read([]byte(m.data))
	if err != nil {
		return item, false, formError{describe(err)}
	}
	if !isItem {
		return item, false, formError{"an event is not what was asked for"}
	}
	return item, true, nil
}

// messagesOf yields the events of a stream, by the standard's rules for lines that a velocityd may write. An event that
// is cut off is not yielded.
func messagesOf(body io.Reader) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		var e message
		for line, err := range lines(body) {
			name, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch {
			case err != nil:
				yield(message{}, err)
				return
			case line == "":
				if !yield(e, nil) {
					return
				}
				e = message{}
			case name == "data":
				e.data += value
			case name == "event":
				e.name = value
			case name == "id":
				if e.id, err = strconv.ParseUint(value, 10, 64); err != nil {
					yield(message{}, formError{"the id of an event is no whole number"})
					return
				}
			}
		}
	}
}
