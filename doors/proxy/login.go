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

	"velocityd/api"
	"velocityd/handlers/admission"
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

// login handles a login. It goes on if the client goes away, because the attempt is counted and its outcome has to be
// reported.
func (p *Proxy) login(w http.ResponseWriter, r *http.Request, a *attempt) {
	body, err := readLogin(w, r, p.MaxBody)
	var check service.Check
	if err == nil {
		check, err = p.question(r, body)
	}
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), p.CheckTimeout)
	decision, err := p.Service.Check(ctx, check)
	cancel()
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	a.id, a.isAsked = check.AttemptID, !decision.Degraded
	switch {
	case decision.Blocked:
		a.verdict = "blocked"
		p.Pages.write(w, r, pageOf(decision))
		return
	case decision.Degraded:
		a.verdict = "degraded"
	default:
		a.verdict = "allowed"
	}
	p.forwardLogin(w, r, a, body)
}

// forwardLogin passes a login on to the application, with the body as it was read.
func (p *Proxy) forwardLogin(w http.ResponseWriter, r *http.Request, a *attempt, body []byte) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), p.AnswerTimeout)
	defer cancel()
	w, r = wire.WithPartDeadlines(w, r.WithContext(context.WithValue(ctx, attemptKey{}, a)))
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
func readLogin(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	for _, coding := range r.Header.Values("Content-Encoding") {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return nil, fmt.Errorf("%w: the body of a login must have no Content-Encoding", api.ErrMediaType)
		}
	}
	for option := range strings.SplitSeq(strings.ToLower(strings.Join(r.Header.Values("Connection"), ",")), ",") {
		switch strings.TrimSpace(option) {
		case "", "close", "keep-alive", "te", "upgrade", "http2-settings":
		default:
			return nil, fmt.Errorf("%w: Connection names a field that a login needs", service.ErrInvalid)
		}
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout)) // fails if the connection has gone
	var text bytes.Buffer
	_, err := text.ReadFrom(http.MaxBytesReader(w, r.Body, most))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, fmt.Errorf("%w: the body of a login must be at most %d bytes", api.ErrTooLarge, most)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, fmt.Errorf("%w: the body of a login came too slowly", api.ErrTooSlow)
	case err != nil:
		return nil, fmt.Errorf("%w: the body of a login was cut off or malformed", service.ErrInvalid)
	}
	_ = control.SetReadDeadline(time.Time{})
	return text.Bytes(), nil
}

// question returns the check of a login.
func (p *Proxy) question(r *http.Request, body []byte) (service.Check, error) {
	asked, err := p.gate.Question(&gate.Request{
		HTTP: r,
		Client: func() (netip.Addr, error) {
			client, _, err := p.client(r)
			return client, err
		},
		Body: func() ([]byte, error) { return body, nil },
	}, true)
	if err != nil {
		return service.Check{}, err
	}
	isUser := len(asked.Check.Buckets) > 0 && asked.Check.Buckets[0].ZoneID == p.UserZone
	if p.UserZone != 0 && !isUser && !p.AnyUser {
		return service.Check{}, fmt.Errorf("%w: the login has no user", service.ErrInvalid)
	}
	asked.Check.AttemptID = rand.Text()
	if err := asked.Check.Validate(); err != nil {
		return service.Check{}, err
	}
	return asked.Check, nil
}

// refuse answers a login that the application does not get, other than for its limits: one that cannot be read, or that
// the service has not decided. err names no key.
func (p *Proxy) refuse(w http.ResponseWriter, r *http.Request, err error) {
	kind, _ := api.KindOf(err)
	status, fault, text := kind.Status, admission.Refused, "This log-in cannot be read."
	switch kind.Status {
	case http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType:
	default:
		status, fault, text = http.StatusServiceUnavailable, admission.Failed, "Log-ins are not possible at the moment."
	}
	p.report(r, fault, kind.Code, err.Error(), slog.Int("status", status))
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, text, status)
}

// report writes a fault to the log, the same at most once a second.
func (p *Proxy) report(r *http.Request, kind admission.Kind, code, text string, attrs ...slog.Attr) {
	p.faults.Report(r.Context(), admission.Fault{Kind: kind, Method: r.Method, Code: code, Text: text}, nil,
		func() []slog.Attr {
			return append([]slog.Attr{slog.String("method", r.Method)}, attrs...)
		})
}

// end keeps the outcome of a login, and reports it. It does not wait for the report.
func (p *Proxy) end(r *http.Request, a *attempt, outcome service.Outcome) {
	a.outcome = outcome
	if outcome == "" || !a.isAsked {
		return
	}
	shareKey := p.shareKey(r)
	if err := p.reporting.Take(shareKey, 1); err != nil {
		p.report(r, admission.Busy, "not_reported", "too many outcomes are being reported, and this one was not: "+
			err.Error())
		return
	}
	report := service.Report{AttemptID: a.id, Outcome: outcome}
	p.reports.Go(func() {
		defer p.reporting.GiveBack(shareKey, 1)
		ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
		defer cancel()
		if err := p.Service.Report(ctx, report); err != nil {
			p.report(r, admission.Failed, "not_reported", err.Error())
		}
	})
}
