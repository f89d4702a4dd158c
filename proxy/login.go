package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"velocityd/front"
	"velocityd/handlers/gate"
	"velocityd/handlers/wire"
	"velocityd/service"
)

// attempt is a login that the proxy handles.
type attempt struct {
	id      string // "" if the request is no login, or was refused before its check
	verdict string // for the log: allowed, blocked, degraded, or "" before it is known
	outcome service.Outcome
	isAsked bool // its txn can be reported
}

// attemptKey is the key of an attempt in the context of its request.
type attemptKey struct{}

func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// refusal is why a login does not reach the application, other than by its limits.
type refusal struct {
	status int
	err    error // names no key
}

func refuse(status int, text string) *refusal { return &refusal{status, errors.New(text)} }

// login handles a login. It goes on if the client goes away: the attempt is counted, so its outcome is worth knowing.
func (p *Proxy) login(w http.ResponseWriter, r *http.Request, a *attempt) {
	body, refused := p.readLogin(w, r)
	var check service.Check
	if refused == nil {
		check, refused = p.question(r, body)
	}
	if refused != nil {
		p.refuse(w, r, refused)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), p.CheckTimeout)
	decision, err := p.Service.Check(ctx, check)
	cancel()
	if err != nil {
		p.refuse(w, r, refusalOf(err))
		return
	}
	a.id, a.isAsked = check.AttemptID, !decision.Degraded
	switch {
	case decision.Blocked:
		a.verdict = "blocked"
		p.Pages.write(w, r, toldOf(decision))
		return
	case decision.Degraded:
		a.verdict = "degraded"
	default:
		a.verdict = "allowed"
	}
	p.forwardLogin(w, r, a, body)
}

// forwardLogin hands a login to the application, with the body as it was read.
func (p *Proxy) forwardLogin(w http.ResponseWriter, r *http.Request, a *attempt, body []byte) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), p.AnswerTimeout)
	defer cancel()
	w, r = wire.ByParts(w, r.WithContext(context.WithValue(ctx, attemptKey{}, a)))
	r.Header = r.Header.Clone()
	r.Header.Del("Expect") // the body is here
	if p.Rules.looksAtBody() {
		r.Header.Del("Accept-Encoding") // so that the answer can be read
	}
	r.TransferEncoding, r.Trailer, r.ContentLength = nil, nil, int64(len(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	p.forwarder.ServeHTTP(w, r)
}

// readLogin returns the body of a login. An application might read another body than the proxy if that had a coding,
// or if the request asked for a part of its head to be left out on the way (RFC 9110, section 7.6.1).
func (p *Proxy) readLogin(w http.ResponseWriter, r *http.Request) ([]byte, *refusal) {
	for _, coding := range r.Header.Values("Content-Encoding") {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return nil, refuse(http.StatusUnsupportedMediaType, "the body of a login must have no Content-Encoding")
		}
	}
	for option := range strings.SplitSeq(strings.ToLower(strings.Join(r.Header.Values("Connection"), ",")), ",") {
		switch strings.TrimSpace(option) {
		case "", "close", "keep-alive", "te", "upgrade", "http2-settings":
		default:
			return nil, refuse(http.StatusBadRequest, "Connection names a field that a login needs")
		}
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout)) // fails if the connection has gone
	var text bytes.Buffer
	_, err := text.ReadFrom(http.MaxBytesReader(w, r.Body, p.MaxBody))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body of a login must be at most %d bytes", p.MaxBody))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, refuse(http.StatusRequestTimeout, "the body of a login came too slowly")
	case err != nil:
		return nil, refuse(http.StatusBadRequest, "the body of a login was cut off or malformed")
	}
	_ = control.SetReadDeadline(time.Time{})
	return text.Bytes(), nil
}

// question returns the check of a login.
func (p *Proxy) question(r *http.Request, body []byte) (service.Check, *refusal) {
	asked, err := p.gate.Question(&gate.Request{
		HTTP: r,
		Client: func() (netip.Addr, error) {
			client, _, err := p.client(r)
			return client, err
		},
		Body: func() ([]byte, error) { return body, nil },
	}, true)
	if err != nil {
		return service.Check{}, &refusal{http.StatusBadRequest, err}
	}
	isUser := len(asked.Check.Buckets) > 0 && asked.Check.Buckets[0].ZoneID == p.UserZone
	if p.UserZone != 0 && !isUser && !p.AnyUser {
		return service.Check{}, refuse(http.StatusBadRequest, "the login has no user")
	}
	asked.Check.AttemptID = rand.Text()
	if err := asked.Check.Validate(); err != nil {
		return service.Check{}, &refusal{http.StatusBadRequest, err}
	}
	return asked.Check, nil
}

// refusalOf returns the answer to a check that has failed.
func refusalOf(err error) *refusal {
	if errors.Is(err, service.ErrInvalid) {
		return &refusal{http.StatusBadRequest, err}
	}
	return &refusal{http.StatusServiceUnavailable, err}
}

// refuse answers a login that the application does not get.
func (p *Proxy) refuse(w http.ResponseWriter, r *http.Request, refused *refusal) {
	kind, text := front.Refused, "This log-in cannot be read."
	if refused.status == http.StatusServiceUnavailable {
		kind, text = front.Failed, "Nobody can log in at the moment."
	}
	p.report(r, kind, "login_refused", refused.err.Error())
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, text, refused.status)
}

// report writes a fault to the log, the same at most once a second.
func (p *Proxy) report(r *http.Request, kind front.Kind, code, text string) {
	p.faults.Report(r.Context(), front.Fault{Kind: kind, Method: r.Method, Code: code, Text: text}, nil, func() []slog.Attr { return nil })
}

// end notes how a login ended, and reports it. It waits for nobody.
func (p *Proxy) end(r *http.Request, a *attempt, outcome service.Outcome) {
	a.outcome = outcome
	if outcome == "" || !a.isAsked {
		return
	}
	select {
	case p.reporting <- struct{}{}:
	default:
		p.report(r, front.Busy, "not_reported", "too many outcomes are being reported: this one was not")
		return
	}
	report := service.Report{AttemptID: a.id, Outcome: outcome}
	p.reports.Go(func() {
		defer func() { <-p.reporting }()
		ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
		defer cancel()
		if err := p.Service.Report(ctx, report); err != nil {
			p.report(r, front.Failed, "not_reported", err.Error())
		}
	})
}
