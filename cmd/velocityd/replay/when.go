package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"velocityd/service"
)

// Login is a login attempt of a log with its time. It stands for Times attempts.
type Login struct {
	At            time.Time
	User, Address string // empty if the log has none
	Outcome       service.Outcome
	Times         int
}

// ErrTimeless says that no attempt of a log has a time that can be read.
var ErrTimeless = errors.New("no login attempt in the log has a time that can be read")

// mostHeld is how many attempts are held back until their year is known, and to sort them.
const mostHeld = 1 << 20

// Skipped are the lines of a log that were left out, besides those that are no attempts.
type Skipped struct {
	Unread      int    // look like attempts and could not be read
	FirstUnread string // of them
	Timeless    int    // attempts without a time that can be read
}

// Logins reads a log and calls take for each login attempt, in the order of their times. latest is the latest time that a
// line without a year can mean; a time without a zone is UTC. If the context ends, it takes what was read until then.
// The error wraps ErrNoAttempt or ErrTimeless if there was nothing to take, and is that of the context if it ends.
func Logins(ctx context.Context, log io.Reader, latest time.Time, take func(Login)) (skipped Skipped, err error) {
	var lines reader
	queue := queue{calendar: calendar{latest: latest}, take: take}
	for text := range readLines(ctx, log) {
		if text.err != nil {
			return skipped, fmt.Errorf("read log: %w", text.err)
		}
		a := lines.read(text.text)
		if at, ok := queue.calendar.read(lines.time, a.times); ok && a.times > 0 {
			queue.add(at, Login{User: a.user, Address: a.address(), Outcome: a.outcome, Times: a.times})
		}
	}
	queue.flush(0)
	skipped = Skipped{lines.unread, lines.firstUnread, queue.calendar.timeless}
	switch {
	case ctx.Err() != nil:
		return skipped, ctx.Err()
	case !queue.hasTaken && skipped.Timeless > 0:
		return skipped, ErrTimeless
	case !queue.hasTaken:
		return skipped, ErrNoAttempt
	}
	return skipped, nil
}

// queue holds attempts back, because later lines tell the year of those before, and a log may go back in time.
type queue struct {
	calendar calendar
	take     func(Login)
	held     []heldLogin
	hasTaken bool
}

type heldLogin struct {
	at moment
	Login
}

func (q *queue) add(at moment, l Login) {
	if len(q.held) == mostHeld {
		q.flush(mostHeld / 2)
	}
	q.held = append(q.held, heldLogin{at, l})
}

// flush takes all attempts but the newest ones, so many of them.
func (q *queue) flush(left int) {
	q.calendar.decide(moment{})
	known := q.held[:0]
	for _, h := range q.held {
		var ok bool
		if h.At, ok = q.calendar.settle(h.at); ok {
			h.at = moment{at: h.At}
			known = append(known, h)
		}
	}
	slices.SortStableFunc(known, func(a, b heldLogin) int { return a.At.Compare(b.At) })
	ripe := max(len(known)-left, 0)
	for _, h := range known[:ripe] {
		q.hasTaken = true
		q.take(h.Login)
	}
	q.held = append(q.held[:0], known[ripe:]...)
}
