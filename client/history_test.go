package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/api"
	"velocityd/client"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/memory"
	"velocityd/tools/servicetest"
)

func TestClientKeepsTheContractOfHistory(t *testing.T) {
	t.Parallel()
	servicetest.ExerciseHistory(t, func(t *testing.T) servicetest.HistorySubject {
		m := memory.New()
		c := connect(t, serve(t, newHandler(m)))
		return struct {
			servicetest.Subject
			service.HistoryStore
			service.CheckHistory
		}{servicetest.InMemory(m), c, c}
	})
}

// past is a store whose clock the test moves, with attempts that are behind the lag.
type past struct {
	*memory.Store
	moved atomic.Int64
	made  int
}

func newPast(t *testing.T) *past {
	t.Helper()
	p := &past{}
	p.Store = memory.NewAt(func() time.Time { return time.Now().Add(time.Duration(p.moved.Load())) })
	p.SetZone(t, service.Zone{ID: 1, Rate: 1_000_000, Window: time.Hour})
	return p
}

func (p *past) attempt(t *testing.T, n int) {
	t.Helper()
	for range n {
		p.made++
		if _, err := p.CheckAll(
			t.Context(), service.Call{Checks: []service.Check{one(fmt.Sprint("k", p.made))}}); err != nil {
			t.Fatal(err)
		}
	}
	p.moved.Add(int64(time.Minute))
}

func TestExportHasEachTxnOnceAndIsRecorded(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	const n = 2*service.MaxHistoryPage + 7
	p.attempt(t, n)
	c := connect(t, serve(t, newHandler(p.Store)))
	last := uint64(0)
	for txn, err := range c.Export(t.Context(), service.HistoryQuery{Order: service.OldestFirst}, "ann") {
		if err != nil || txn.ID != last+1 || txn.Bucket.Key != fmt.Sprint("k", txn.ID) {
			t.Fatalf("after %d: %+v, %v", last, txn, err)
		}
		last = txn.ID
	}
	audits := p.Audits()
	if last != n || len(audits) != 1 || audits[0].Principal != "ann" || audits[0].Reason != "ndjson" {
		t.Errorf("%d txns, and recorded %+v", last, audits)
	}
	for _, err := range c.Export(t.Context(), service.HistoryQuery{}, "") {
		if !errors.Is(err, service.ErrInvalid) {
			t.Errorf("without an order: %v", err)
		}
	}
}

const (
	txnLine     = `{"id":"1","zone_id":1,"bucket_key":"a","created_at":"2026-08-24T09:15:02.123456Z"}` + "\n"
	problemLine = `{"problem":{"title":"Service Unavailable","status":503,"detail":"x.","code":"busy"}}` + "\n"
)

func TestBrokenOffExportEndsWithError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    error
	}{
		"by a problem": {answer(api.MediaNDJSON, txnLine+problemLine), service.ErrBusy},
		"in a line":    {answer(api.MediaNDJSON, txnLine+txnLine[:20]), service.ErrBusy},
		"with its connection": {func(w http.ResponseWriter, r *http.Request) {
			answer(api.MediaNDJSON, txnLine)(w, r)
			flush(w)
			cut(w, r)
		}, service.ErrBusy},
		"because it is too long":  {answer(api.MediaNDJSON, txnLine+strings.Repeat("x", 1<<17)+"\n"), nil},
		"because it is no JSON":   {answer(api.MediaNDJSON, txnLine+"<html>\n"), nil},
		"because it is no txn":    {answer(api.MediaNDJSON, txnLine+"{}\n"), nil},
		"before it begins":        {problem(http.StatusServiceUnavailable, "too_many_streams"), api.ErrTooManyStreams},
		"because it is no stream": {answer(api.MediaJSON, "{}"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := connect(t, serve(t, c.handler))
			txns, failed := 0, error(nil)
			for txn, err := range client.Export(t.Context(), service.HistoryQuery{Order: service.NewestFirst}, "") {
				if failed != nil {
					t.Errorf("after the error came %+v", txn)
				}
				if failed = err; err == nil {
					txns++
				}
			}
			if failed == nil || c.want != nil && !errors.Is(failed, c.want) || strings.Contains(failed.Error(), "html") ||
				txns > 1 {
				t.Errorf("%d txns, then %v", txns, failed)
			}
		})
	}
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

func TestFollowerMissesAndRepeatsNothingAcrossBrokenConnections(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.attempt(t, 3)
	breaks := &breaking{next: newHandler(p.Store)}
	noted := &pauses{}
	c := connect(t, serve(t, breaks), client.WithPause(noted.pause))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	last := uint64(1)
	for txn, err := range c.Follow(ctx, service.HistoryQuery{Cursor: 1}) {
		if err != nil || txn.ID != last+1 {
			t.Fatalf("after %d: %+v, %v", last, txn, err)
		}
		if last = txn.ID; last == 9 {
			break
		}
		if last%2 == 1 {
			p.attempt(t, 2)
			breaks.cut()
		}
	}
	if last != 9 || breaks.asked.Load() < 3 {
		t.Errorf("the last is %d, asked %d times", last, breaks.asked.Load())
	}
}

// breaking cuts the answers of next when the test says so.
type breaking struct {
	next  http.Handler
	asked atomic.Int64
	end   atomic.Pointer[context.CancelFunc]
}

func (b *breaking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.asked.Add(1)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	b.end.Store(&cancel)
	b.next.ServeHTTP(w, r.WithContext(ctx))
	panic(http.ErrAbortHandler)
}

func (b *breaking) cut() { (*b.end.Load())() }

func TestFollowerEndsWhenRetryWouldNotHelp(t *testing.T) {
	t.Parallel()
	const revoked = "event: problem\ndata: " +
		"{\"title\":\"Unauthorized\",\"status\":401,\"detail\":\"x.\",\"code\":\"unauthenticated\"}\n\n"
	event := "id: 1\ndata: " + txnLine + "\n"
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    error
		txns    int
	}{
		"the token is revoked":   {answer(api.MediaEvents, "retry: 1\n\n"+event+revoked), access.ErrUnauthenticated, 1},
		"the first try fails":    {problem(http.StatusServiceUnavailable, "too_many_streams"), api.ErrTooManyStreams, 0},
		"it is no velocityd":     {answer("text/html", "<html>"), nil, 0},
		"an event is no txn":     {answer(api.MediaEvents, event+"data: {}\n\n"), nil, 1},
		"an id is no number":     {answer(api.MediaEvents, "id: x\n\n"), nil, 0},
		"a problem has no title": {answer(api.MediaEvents, "event: problem\ndata: {}\n\n"), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := connect(t, serve(t, c.handler))
			txns, failed := 0, error(nil)
			for _, err := range client.Follow(t.Context(), service.HistoryQuery{}) {
				if failed = err; err == nil {
					txns++
				}
			}
			if failed == nil || c.want != nil && !errors.Is(failed, c.want) || txns != c.txns {
				t.Errorf("%d txns, then %v", txns, failed)
			}
		})
	}
}

// FuzzStreams holds that a caller of any stream gets txns with ids, or one error that does not quote it.
func FuzzStreams(f *testing.F) {
	for _, text := range []string{
		txnLine, txnLine + problemLine, "", "\n", "{}\n", "null\n", "[]\n", txnLine[:9], "\r\n" + txnLine,
		`{"problem":null}` + "\n",
		"retry: 3000\n\nid: 7\ndata: " + txnLine + "\n: alive\nid: 9\n\n",
		"event: problem\ndata: {\"title\":\"x\",\"status\":401}\n\n", "data\n\n",
		"id: 18446744073709551616\n\n", "data: {\ndata: }\n\n", ":\n\n", "event: other\ndata: x\n\n",
		strings.Repeat("x", 1<<17),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, body string) {
		noted := &pauses{}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, media := range []string{api.MediaNDJSON, api.MediaEvents} {
			c, err := client.New("http://service", client.WithHTTPClient(&http.Client{Transport: canned{200, media, body}}),
				client.WithPause(func(ctx context.Context, length time.Duration) error {
					cancel() // one more try would be the same
					return noted.pause(ctx, length)
				}))
			if err != nil {
				t.Fatal(err)
			}
			all := c.Export(ctx, service.HistoryQuery{Order: service.NewestFirst}, "")
			if media == api.MediaEvents {
				all = c.Follow(ctx, service.HistoryQuery{})
			}
			var failed error
			for txn, err := range all {
				if failed != nil || (err == nil) != (txn.ID != 0) {
					t.Fatalf("%s: after %v came %+v, %v", media, failed, txn, err)
				}
				failed = err
			}
		}
	})
}
