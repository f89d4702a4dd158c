package handlers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"time"

	"velocityd/service"
)

// smallBody is how long a body may be, in bytes, without taking a place. Some 180
// checks of 8 buckets each fit in, which are mostly decoded in 0.3 ms.
const smallBody = 64 << 10

// bodyPace is the longest that the rest of a large body may take once it has a
// place: the place of a slow sender is of no use to anybody.
const bodyPace = 3 * time.Second

// placeTime is how much longer than its body is read a request keeps its place at
// most: who is not told by then that there is no time for him is waited for by the
// database, and not by the cores. So who waits for a bucket that is held keeps no
// place from those who do not.
const placeTime = 100 * time.Millisecond

// placePatience is the longest that a caller waits for a place. Who would be told
// to come again after a second may as well wait for it, which costs nothing as long
// as nobody reads his body; and who comes again at once is slowed down by it.
const placePatience = service.BusyRetryAfter

// defaultPlaces is a place for every other core, so that large bodies are never
// decoded on all of them, and at least two, so that the database need not wait for
// a body to be decoded.
func defaultPlaces() int { return max(runtime.GOMAXPROCS(0)/2, 2) }

// places bound how many requests with a large body are worked on at once, from
// before the body is read until the answer is ready, or for placeTime. So what is
// decoded, and then refused for want of time, does not take the cores from small
// requests, and large bodies do not fill the memory.
type places struct {
	taken chan struct{} // one for each; who waits is served in turn

	mu      sync.Mutex
	waiting int
	kept    time.Duration // how long a place was kept of late
}

func newPlaces(n int) *places { return &places{taken: make(chan struct{}, n)} }

// take takes a place, which must be given back. The error wraps service.ErrBusy.
func (p *places) take(ctx context.Context) error {
	select {
	case p.taken <- struct{}{}:
		return nil
	default:
	}
	p.wait(1)
	defer p.wait(-1)
	patience := time.NewTimer(placePatience)
	defer patience.Stop()
	select {
	case p.taken <- struct{}{}:
		return nil
	case <-patience.C:
		return p.busy()
	case <-ctx.Done():
		return fmt.Errorf("%w: caller left before the body was read: %w", service.ErrBusy, ctx.Err())
	}
}

func (p *places) wait(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting += n
}

// busy says to come again when all who wait now have had a place.
func (p *places) busy() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	after := p.kept * time.Duration(p.waiting) / time.Duration(cap(p.taken))
	return service.NewBusyError(after, "too many large bodies at once")
}

// giveBack gives a place back that was taken at since.
func (p *places) giveBack(since time.Time) {
	took := time.Since(since)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept == 0 {
		p.kept = took
	}
	p.kept += (took - p.kept) / 8
	<-p.taken
}

// readBody reads the body of a request, if it is large as soon as there is a place
// for it.
func (s *server) readBody(x *exchange, body *bytes.Buffer) error {
	r := x.Request()
	rest := r.Body
	switch length := r.ContentLength; {
	case length > maxBody:
		return tooLarge()
	case length < 0: // otherwise it ends after that many bytes
		rest = http.MaxBytesReader(x.Response().Writer, r.Body, maxBody)
		_, err := io.CopyN(body, rest, smallBody+1)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return unread(err)
		}
	case length <= smallBody:
		_, err := body.ReadFrom(rest)
		return unread(err)
	}
	if err := s.takePlace(x, rest); err != nil {
		return err
	}
	connection := http.NewResponseController(x.Response())
	_ = connection.SetReadDeadline(time.Now().Add(bodyPace)) // or the server's holds
	body.Grow(int(max(r.ContentLength, 0)) + bytes.MinRead)
	if _, err := body.ReadFrom(rest); err != nil {
		return unread(err) // the deadline stays: net/http may look for the rest
	}
	_ = connection.SetReadDeadline(time.Time{}) // the server sets one for the next request
	if x.place.Stop() {
		x.place.Reset(placeTime)
	}
	return nil
}

// takePlace takes a place for x until x has its answer, or refuses it.
func (s *server) takePlace(x *exchange, rest io.Reader) error {
	if err := s.places.take(x.Request().Context()); err != nil {
		if r := x.Request(); r.Header.Get("Expect") == "" || r.ContentLength < 0 { // else he has not sent it
			// He may not look for an answer before he has sent all. To skip it costs a
			// tenth of what decoding would, and keeps the connection.
			_, _ = io.Copy(io.Discard, rest)
		}
		return err
	}
	since := time.Now()
	x.giveBack = func() { s.places.giveBack(since) }
	x.place = time.AfterFunc(bodyPace+placeTime, x.giveBack)
	return nil
}

// leavePlace gives the place back that x has, if it has one. err is how x ends.
func (x *exchange) leavePlace(err error) {
	switch {
	case x.place == nil || !x.place.Stop(): // it never had one, or not any more
	case errors.Is(err, service.ErrBusy):
		// The next one would be decoded in vain, too, and all who wait in turn.
		x.place.Reset(placePatience)
	default:
		x.giveBack()
	}
	x.place = nil
}
