package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"velocityd/service"
)

var (
	// ErrNoAttempt says that a log holds no login attempt that can be replayed.
	ErrNoAttempt = errors.New("no login attempt in the log")
	// ErrUnread says that a log holds lines that look like attempts and could not be read.
	ErrUnread = errors.New("not all attempts were read")
)

// Login is a login attempt of a log with its time. It stands for Times attempts.
type Login struct {
	At            time.Time
	User, Address string // empty if the log has none
	Outcome       service.Outcome
	Times         int
}

// mostHeld is how many attempts are held back until their year is known, and to sort them.
const mostHeld = 1 << 20

// Skipped are the lines of a log, and those that were left out besides those that are no attempts.
type Skipped struct {
	Lines       int    // of the log
	Unread      int    // lines that look like attempts and could not be read
	FirstUnread string // of them
	Timeless    int    // attempts without a time that can be read
	isBinary    bool   // a line has a zero byte
}

// notRead returns an error that wraps ErrUnread if there are such lines, or nil.
func (s Skipped) notRead() error {
	if s.Unread == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d lines look like login attempts, and their form is not known; the first is %q", ErrUnread,
		s.Unread, s.FirstUnread)
}

// nothing returns an error that wraps ErrNoAttempt and says why the log holds nothing.
func (s Skipped) nothing() error {
	switch {
	case s.Lines == 0:
		return fmt.Errorf("%w: the log is empty", ErrNoAttempt)
	case s.Timeless > 0:
		return fmt.Errorf("%w has a time that can be read", ErrNoAttempt)
	case s.Unread > 0:
		return fmt.Errorf("%w that could be read: %w", ErrNoAttempt, s.notRead())
	case s.isBinary:
		return fmt.Errorf("%w: it is no text; unpack it first if it is compressed in another way than by gzip", ErrNoAttempt)
	}
	return fmt.Errorf("%w: its %d lines hold no login that sshd accepted or refused", ErrNoAttempt, s.Lines)
}

// Logins reads a log and calls take for each login attempt, in the order of their times, until it returns an error.
// latest is the latest time that a line without a year can mean; a time without a zone is UTC. If the log or the
// context ends too early, it takes the logins that were read until then. The error wraps ErrNoAttempt if there was
// none, is that of take, or that of the context.
func Logins(ctx context.Context, log io.Reader, latest time.Time, take func(Login) error) (Skipped, error) {
	var lines reader
	var fault error
	queue := queue{calendar: calendar{latest: latest}, take: take}
	for text, err := range linesOf(ctx, log) {
		if err != nil {
			fault = fmt.Errorf("read log: %w", err)
			break
		}
		a := lines.read(text)
		if at, ok := queue.calendar.read(lines.time, a.times); ok && a.times > 0 {
			if err := queue.add(at, Login{User: a.user, Address: a.address(), Outcome: a.outcome, Times: a.times}); err != nil {
				return lines.skipped, err
			}
		}
	}
	err := queue.flush(0)
	lines.skipped.Timeless = queue.calendar.timeless
	if err = cmp.Or(err, fault, ctx.Err()); err == nil && !queue.hasTaken {
		err = lines.skipped.nothing()
	}
	return lines.skipped, err
}

// linesOf yields the lines of a log, and its error as the last element, until the context ends. Another goroutine reads
// a few lines ahead, because a read of a pipe cannot be interrupted.
func linesOf(ctx context.Context, log io.Reader) iter.Seq2[string, error] {
	type line struct {
		text string
		err  error
	}
	return func(yield func(string, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop() // ends the reading goroutine
		lines := make(chan line, 64)
		go func() {
			defer close(lines)
			in, err := unpacked(log)
			for err == nil {
				var text string
				if text, err = nextLine(in); err != nil {
					break
				}
				select {
				case lines <- line{text: text}:
				case <-ctx.Done():
					return
				}
			}
			if !errors.Is(err, io.EOF) {
				select {
				case lines <- line{err: err}:
				case <-ctx.Done():
				}
			}
		}()
		for {
			select {
			case <-ctx.Done():
				return
			case next, more := <-lines:
				if !more || !yield(next.text, next.err) {
					return
				}
			}
		}
	}
}

// queue holds attempts back, because later lines tell the year of those before, and a log may go back in time.
type queue struct {
	calendar calendar
	take     func(Login) error
	held     []heldLogin
	hasTaken bool
}

type heldLogin struct {
	at moment
	Login
}

func (q *queue) add(at moment, l Login) error {
	q.held = append(q.held, heldLogin{at, l})
	if len(q.held) < mostHeld {
		return nil
	}
	return q.flush(mostHeld / 2)
}

// flush takes all attempts but the newest ones, so many of them.
func (q *queue) flush(left int) error {
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
		if err := q.take(h.Login); err != nil {
			return err
		}
	}
	q.held = append(q.held[:0], known[ripe:]...)
	return nil
}
