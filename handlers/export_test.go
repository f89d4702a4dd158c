package handlers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"velocityd/service"
	"velocityd/service/memory"
)

// longHistory is a history of some pages, each full of made-up txns, before an error or the end.
type longHistory struct {
	*memory.Store
	pages int
	err   error
	asked atomic.Int64
	// hold, unless it is nil, is received from before each page but the first.
	hold chan struct{}
}

func (l *longHistory) History(ctx context.Context, q service.HistoryQuery) (service.HistoryPage, error) {
	l.asked.Add(1)
	n := int(q.Cursor)/q.Limit + 1
	if l.hold != nil && q.Cursor > 0 {
		select {
		case <-l.hold:
		case <-ctx.Done():
			return service.HistoryPage{}, ctx.Err()
		}
	}
	if l.err != nil && n > l.pages {
		return service.HistoryPage{}, l.err
	}
	var page service.HistoryPage
	for i := range q.Limit {
		t := service.Txn{
			ID: q.Cursor + uint64(i) + 1, Bucket: service.Bucket{ZoneID: 1, Key: strings.Repeat("é", 255)},
			Attempts: 1,
		}
		page.Txns = append(page.Txns, t)
	}
	if page.Last = q.Cursor + uint64(q.Limit); l.err != nil || n < l.pages {
		page.Next = page.Last
	}
	return page, nil
}

func TestStreamHasRequestedFormAndIsRecorded(t *testing.T) {
	t.Parallel()
	h := startHistoric(t)
	h.record(t, 1, "alice", "k7")
	for _, c := range []struct{ query, accept, form, last string }{ // more than there are places
		{"order=asc&format=ndjson", "", "ndjson", `"bucket_key":"k7"`},
		{"order=asc", "application/x-ndjson", "ndjson", `"bucket_key":"k7"`},
		{"order=asc&format=csv", "application/x-ndjson", "csv", `,"k7",`},
		{"order=asc", "text/csv, */*", "csv", `,"k7",`},
		{"zone=1&key=K7&format=csv", "", "csv", `,"k7",`},
	} {
		got := h.ask(t, "GET", "/v1/txns?"+c.query, "", "Accept", c.accept, "X-Forwarded-User", "ann")
		got.answered(t, http.StatusOK, c.last)
		if strings.Contains(got.body, "alice") == strings.Contains(c.query, "K7") ||
			!strings.Contains(got.header.Get("Content-Type"), c.form) {
			t.Errorf("%s %s: %v %s", c.query, c.accept, got.header, got.body)
		}
		audits := h.Audits()
		if last := audits[len(audits)-1]; last.Action != "export history" || last.Principal != "ann" ||
			last.Reason != c.form {
			t.Errorf("%s: recorded %+v", c.query, last)
		}
	}
	for _, headers := range [][]string{{"Accept", "text/csv;q=0"}, {"Accept", "*/*"}, {}} {
		h.ask(t, "GET", "/v1/txns?limit=1", "", headers...).page(t)
	}
}

func TestAStreamThatBreaksOffSaysSo(t *testing.T) {
	t.Parallel()
	store := func(o *Options) {
		o.Reader = &longHistory{Store: memory.New(), pages: 2, err: fmt.Errorf("%w: hidden", service.ErrBusy)}
	}
	got := start(t, store).get(t, "/v1/txns?order=asc&format=ndjson")
	lines := strings.Split(strings.TrimSpace(got.body), "\n")
	if last := lines[len(lines)-1]; len(lines) != 2*service.MaxHistoryPage+1 || !strings.HasPrefix(last, `{"problem":{`) ||
		!strings.Contains(last, `"code":"busy"`) || strings.Contains(last, "hidden") {
		t.Errorf("%d lines, the last is %s", len(lines), last)
	}
	r := start(t, store)
	response, err := http.Get(r.url + "/v1/txns?order=asc&format=csv")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); !errors.Is(err, io.ErrUnexpectedEOF) || len(text) == 0 {
		t.Errorf("CSV ends with %v after %d bytes", err, len(text))
	}
	if line := r.log.Last(t); line["code"] != "busy" {
		t.Errorf("the log has %v", line)
	}
}

func TestAStreamThatCannotBeginIsAProblem(t *testing.T) {
	t.Parallel()
	broken := &longHistory{Store: memory.New(), err: service.ErrBusy}
	r := start(t, func(o *Options) { o.Reader = broken })
	r.get(t, "/v1/txns?format=csv").refused(t, http.StatusServiceUnavailable, "busy")
	r = start(t, func(o *Options) { o.Reader, o.Exports = broken, unnoted{} })
	r.get(t, "/v1/txns?format=ndjson").refused(t, http.StatusForbidden, "forbidden")
	if n := broken.asked.Load(); n != 1 {
		t.Errorf("the history was read %d times, also for an export that could not be recorded", n)
	}
	request := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/txns?format=csv", http.NoBody)
	request.ProtoMajor, request.ProtoMinor = 1, 0
	answer := httptest.NewRecorder()
	New(Options{Reader: broken}).ServeHTTP(answer, request)
	if answer.Code != http.StatusBadRequest || !strings.Contains(answer.Body.String(), "HTTP/1.1") {
		t.Errorf("HTTP/1.0: %d %s", answer.Code, answer.Body)
	}
}

// unnoted cannot record exports.
type unnoted struct{}

func (unnoted) NoteExport(context.Context, service.Export, string) error { return service.ErrForbidden }

// slowCaller takes the parts of an answer one by one.
type slowCaller struct {
	header http.Header
	parts  chan int // bytes of each part; unbuffered
}

func (s *slowCaller) Header() http.Header { return s.header }
func (s *slowCaller) WriteHeader(int)     {}
func (s *slowCaller) Flush()              {}
func (s *slowCaller) Write(p []byte) (int, error) {
	s.parts <- len(p)
	return len(p), nil
}

func TestAStreamHoldsOnePageInMemory(t *testing.T) {
	t.Parallel()
	const pages = 50
	store := &longHistory{Store: memory.New(), pages: pages}
	caller := &slowCaller{header: http.Header{}, parts: make(chan int)}
	request := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/txns?order=asc&format=csv", http.NoBody)
	handler := New(Options{Reader: store, Exports: store.Store})
	go func() {
		defer close(caller.parts)
		handler.ServeHTTP(caller, request)
	}()
	taken := int64(0)
	for part := range caller.parts {
		taken++
		if part > streamBytes {
			t.Errorf("part %d has %d bytes", taken, part)
		}
		if asked := store.asked.Load(); asked > taken+1 {
			t.Fatalf("%d pages were read when the caller had %d", asked, taken)
		}
	}
	if taken != pages {
		t.Errorf("%d parts, want %d", taken, pages)
	}
}
