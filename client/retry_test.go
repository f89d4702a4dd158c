package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/client"
	"velocityd/service"
	"velocityd/service/memory"
)

// afterwards carries a request out and then loses the answer.
func afterwards(handler http.Handler, lose http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(httptest.NewRecorder(), r)
		lose(w, r)
	}
}

func TestCheckRetriedAfterLostAnswerIsCountedOnce(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]http.HandlerFunc{
		"cut": cut, "undecided": problem(504, "undecided"), "internal": problem(500, "internal"),
		"a proxy": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "oops", 502) },
		"half of it": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"blocked":`)
		},
	} {
		m := memory.New()
		m.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
		handler := newHandler(m)
		f := &faults{list: []http.HandlerFunc{afterwards(handler, lose), afterwards(handler, lose)}, next: handler}
		p := &pauses{}
		d, err := connect(t, serve(t, f), client.WithPause(p.pause)).Check(t.Context(), one("alice"))
		if err != nil || d.Blocked || d.Verdicts[0].Velocity != 1 {
			t.Errorf("%s: got %+v, %v", name, d, err)
		}
		txns := m.Txns(service.Bucket{ZoneID: 1, Key: "alice"})
		if f.asked != 3 || len(txns) != 1 || txns[0].ID != d.TxnID() || txns[0].AttemptID == "" {
			t.Errorf("%s: asked %d times, recorded %+v", name, f.asked, txns)
		}
		for i, length := range p.lengths {
			if length < 20*time.Millisecond || length > 200*time.Millisecond {
				t.Errorf("%s: pause %d is %s", name, i, length)
			}
		}
	}
}

// One instance of several that hangs must not use up the time of a login, whether it takes the
// connection or not.
func TestUnansweredTryLeavesTimeForAnother(t *testing.T) {
	t.Parallel()
	m := memory.New()
	m.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	hang := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or net/http would not see the caller leave
		<-r.Context().Done()
	}
	f := &faults{list: []http.HandlerFunc{hang, problem(408, "request_timeout")}, next: newHandler(m)}
	c := connect(t, serve(t, f), client.WithTimeout(time.Hour), client.WithTryTime(100*time.Millisecond))
	if d, err := c.Check(t.Context(), one("alice")); err != nil || d.TxnID() == 0 {
		t.Errorf("got %+v, %v", d, err)
	}
	var dials atomic.Int32
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1) == 1 {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	c = connect(t, serve(t, newHandler(m)), client.WithTimeout(time.Hour), client.WithTryTime(100*time.Millisecond),
		client.WithHTTPClient(&http.Client{Transport: transport}))
	if d, err := c.Check(t.Context(), one("bob")); err != nil || d.TxnID() == 0 {
		t.Errorf("without a connection: got %+v, %v", d, err)
	}
}

func TestRetryAfterIsObeyed(t *testing.T) {
	t.Parallel()
	m := memory.New()
	m.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	f := &faults{next: newHandler(m), list: []http.HandlerFunc{
		problem(503, "busy", "Retry-After", "7"), problem(503, "busy", "Retry-After", "2"),
		problem(503, "busy", "Retry-After", time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)),
	}}
	p := &pauses{}
	if _, err := connect(t, serve(t, f), client.WithPause(p.pause)).Check(t.Context(), one("alice")); err != nil {
		t.Fatal(err)
	}
	if len(p.lengths) != 3 || p.lengths[0] != 7*time.Second || p.lengths[1] != 2*time.Second ||
		p.lengths[2] > time.Minute {
		t.Errorf("waited %v", p.lengths)
	}
}

func TestRetryAfterBeyondDeadlineEndsCallAtOnce(t *testing.T) {
	t.Parallel()
	f := &faults{list: []http.HandlerFunc{problem(503, "busy", "Retry-After", "3600")}}
	p := &pauses{}
	_, err := connect(t, serve(t, f), client.WithPause(p.pause)).Check(t.Context(), one("alice"))
	if !errors.Is(err, service.ErrBusy) || errors.Is(err, service.ErrUndecided) || len(p.lengths) != 0 || f.asked != 1 {
		t.Errorf("got %v after %d tries and %v", err, f.asked, p.lengths)
	}
}

func TestPossiblyCountedAttemptIsNotBusy(t *testing.T) {
	t.Parallel()
	f := &faults{list: []http.HandlerFunc{problem(504, "undecided"), problem(503, "busy", "Retry-After", "3600")}}
	_, err := connect(t, serve(t, f), client.WithPause((&pauses{}).pause)).Check(t.Context(), one("alice"))
	if !errors.Is(err, service.ErrUndecided) || errors.Is(err, service.ErrBusy) || f.asked != 2 {
		t.Errorf("got %v after %d tries", err, f.asked)
	}
}

func TestReportIsAskedAgain(t *testing.T) {
	t.Parallel()
	m := memory.New()
	m.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	handler := newHandler(m)
	f := &faults{next: handler}
	c := connect(t, serve(t, f), client.WithPause((&pauses{}).pause))
	d, err := c.Check(t.Context(), one("alice"))
	if err != nil {
		t.Fatal(err)
	}
	f.list = []http.HandlerFunc{problem(503, "busy"), afterwards(handler, cut)}
	if err := c.Report(t.Context(), service.Report{TxnID: d.TxnID(), Outcome: service.OutcomeSuccess}); err != nil {
		t.Error(err)
	}
	err = c.Report(t.Context(), service.Report{TxnID: d.TxnID(), Outcome: service.OutcomeFailure})
	if !errors.Is(err, service.ErrConflict) || f.asked != 5 {
		t.Errorf("another outcome: %v after %d requests", err, f.asked)
	}
}

func TestRefusedRequestsAreNotAskedAgain(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]http.HandlerFunc{
		"invalid": problem(400, "invalid_request"), "not found": problem(404, "not_found"),
		"conflict": problem(409, "conflict"), "HTML": answer("text/html", "<p>Log in"),
	} {
		f := &faults{list: []http.HandlerFunc{refusal}, next: http.NotFoundHandler()}
		if _, err := connect(t, serve(t, f)).Check(t.Context(), one("alice")); err == nil || f.asked != 1 {
			t.Errorf("%s: %v after %d tries", name, err, f.asked)
		}
	}
	f := &faults{list: []http.HandlerFunc{problem(503, "busy"), problem(503, "busy")}, next: http.NotFoundHandler()}
	c := connect(t, serve(t, f))
	if _, err := c.CheckAll(t.Context(), []service.Check{one("alice")}); !errors.Is(err, service.ErrBusy) || f.asked != 1 {
		t.Errorf("several at once: %v after %d tries", err, f.asked)
	}
	if _, err := c.Zones(t.Context()); !errors.Is(err, service.ErrBusy) || f.asked != 2 {
		t.Errorf("zones: %v after %d tries", err, f.asked)
	}
}

func TestCheckWaitsForAServiceThatStarts(t *testing.T) {
	t.Parallel()
	m := memory.New()
	m.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	url := serve(t, newHandler(m))
	var dialer net.Dialer
	dials := 0
	given := &http.Client{
		Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if dials++; dials <= 2 {
				address = "127.0.0.1:1" // without a listener
			}
			return dialer.DialContext(ctx, network, address)
		}},
	}
	c := connect(t, url, client.WithHTTPClient(given), client.WithPause((&pauses{}).pause))
	if d, err := c.Check(t.Context(), one("alice")); err != nil || d.TxnID() != 1 || dials != 3 {
		t.Errorf("got %+v, %v after %d tries to connect", d, err, dials)
	}
}

func TestCallerThatLeavesIsToldSo(t *testing.T) {
	t.Parallel()
	url := serve(t, problem(503, "busy", "Retry-After", "100"))
	for when, leaving := range map[string]func(leave func(), given *http.Response){
		"before the answer is read": func(leave func(), _ *http.Response) { leave() },
		"when it was read":          func(leave func(), given *http.Response) { given.Body = &closing{given.Body, leave} },
		"while the client waits":    func(leave func(), _ *http.Response) { time.AfterFunc(10*time.Millisecond, leave) },
	} {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		given := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
			response, err := http.DefaultTransport.RoundTrip(r)
			if err == nil {
				leaving(leave, response)
			}
			return response, err
		})}
		if _, err := connect(t, url, client.WithHTTPClient(given)).Check(ctx, one("alice")); !errors.Is(
			err, context.Canceled) {
			t.Errorf("%s: got %v", when, err)
		}
	}
}

// transport answers requests by a function.
type transport func(r *http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// closing calls then when the body was closed.
type closing struct {
	io.ReadCloser
	then func()
}

func (c *closing) Close() error {
	defer c.then()
	return c.ReadCloser.Close()
}

func TestCallsEndWithTheirDeadline(t *testing.T) {
	t.Parallel()
	silent := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server sees the caller leave
		<-r.Context().Done()
	}))
	own, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for name, c := range map[string]struct {
		ctx    context.Context
		client *client.Client
	}{
		"the caller's": {own, connect(t, silent)},
		"the client's": {t.Context(), connect(t, silent, client.WithTimeout(50*time.Millisecond))},
	} {
		if _, err := c.client.Check(c.ctx, one("alice")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: check: %v", name, err)
		}
		if _, err := c.client.CheckAll(c.ctx, []service.Check{one("alice")}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: checks: %v", name, err)
		}
		if _, err := c.client.Zone(c.ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: zone: %v", name, err)
		}
	}
}

func TestRefusingPortIsAskedThriceWithinQuarterSecond(t *testing.T) {
	t.Parallel()
	p := &pauses{}
	c := connect(t, "http://127.0.0.1:1", client.WithPause(p.pause), client.WithTimeout(time.Hour))
	if _, err := c.Check(t.Context(), one("alice")); !errors.Is(err, service.ErrBusy) {
		t.Errorf("got %v", err)
	}
	var sum time.Duration
	for _, length := range p.lengths {
		sum += length
	}
	if len(p.lengths) != 2 || sum > 250*time.Millisecond {
		t.Errorf("asked again after pauses of %v", p.lengths)
	}
}
