package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"velocityd/handlers/admission"
	"velocityd/handlers/gate"
)

// Limits of connections to the application.
const (
	connectTimeout = 5 * time.Second
	idleTimeout    = 90 * time.Second
	idleConns      = 256
	// continueTimeout is how long the application may take to ask for a body that its sender holds back.
	continueTimeout = time.Second
	// maxBegin is how much of an answer's body is looked at, in bytes.
	maxBegin = 64 << 10
)

// newForwarder returns the handler that passes requests on to the application. It writes each part of an answer on at
// once.
func (p *Proxy) newForwarder() *httputil.ReverseProxy {
	transport := &http.Transport{
		DialContext:           (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSHandshakeTimeout:   connectTimeout,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: p.Roots},
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   idleConns,
		IdleConnTimeout:       idleTimeout,
		ExpectContinueTimeout: continueTimeout,
		DisableCompression:    true,
	}
	return &httputil.ReverseProxy{
		Transport: transport, Rewrite: p.rewrite, ModifyResponse: p.readAnswer, ErrorHandler: p.answerLost, FlushInterval: -1,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // a client that goes away, and nothing else
	}
}

// rewrite makes the request to the application. ReverseProxy has removed the fields of one hop, and those that name the
// client.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = p.Upstream.Scheme, p.Upstream.Host, r.In.Host
	if attemptOf(r.In.Context()) == nil {
		r.Out.URL.RawQuery = r.In.URL.RawQuery // a login's query has lost the parameters that programs read differently
		r.Out.Trailer = r.In.Trailer           // the very map, into which trailers come with the end of the body
	}
	// Any other protocol, such as h2c, would carry requests past the checks.
	if upgrade := r.Out.Header.Get("Upgrade"); upgrade != "" && !strings.EqualFold(upgrade, "websocket") {
		r.Out.Header.Del("Upgrade")
		r.Out.Header.Del("Connection")
	}
	p.setForwarded(r)
}

// setForwarded names the client to the application. Of the fields of a proxy in front it adds to X-Forwarded-For, and
// keeps X-Forwarded-Proto and -Host. Those of others are removed.
func (p *Proxy) setForwarded(r *httputil.ProxyRequest) {
	client, isBehindProxy, err := p.client(r.In)
	isBehindProxy = isBehindProxy && err == nil
	for name := range r.Out.Header {
		switch plain := gate.PlainName(name); {
		case plain == "x-original-url", plain == "x-rewrite-url": // some frameworks take another path from these
			delete(r.Out.Header, name)
		case isBehindProxy && plain == strings.ToLower(name):
		case plain == "forwarded", plain == "x-real-ip", strings.HasPrefix(plain, "x-forwarded-"):
			delete(r.Out.Header, name)
		}
	}
	if !isBehindProxy {
		r.SetXForwarded()
		return
	}
	chain := r.In.Header["X-Forwarded-For"]
	if len(chain) == 0 && len(r.In.Header["Forwarded"]) > 0 {
		chain = []string{client.String()}
	}
	if len(chain) > 0 {
		r.Out.Header["X-Forwarded-For"] = chain
	}
	r.SetXForwarded()
	for _, name := range []string{"X-Forwarded-Proto", "X-Forwarded-Host"} {
		if said := r.In.Header[name]; len(said) > 0 {
			r.Out.Header[name] = said
		}
	}
}

// readAnswer looks at the answer to a login.
func (p *Proxy) readAnswer(response *http.Response) error {
	a := attemptOf(response.Request.Context())
	if a == nil {
		return nil
	}
	seen := answer{asked: response.Request.URL, status: response.StatusCode, header: response.Header.Clone()}
	if !p.Rules.looksAtBody() || response.StatusCode == http.StatusSwitchingProtocols {
		p.end(response.Request, a, p.Rules.outcome(seen))
		return nil
	}
	response.Body = &watchedBody{ReadCloser: response.Body, decide: func(begin []byte) {
		seen.body = begin
		p.end(response.Request, a, p.Rules.outcome(seen))
	}}
	return nil
}

// answerLost answers a request that the application did not.
func (p *Proxy) answerLost(w http.ResponseWriter, r *http.Request, err error) {
	status, text := http.StatusBadGateway, "The application cannot be reached."
	if errors.Is(err, context.DeadlineExceeded) {
		status, text = http.StatusGatewayTimeout, "The application does not answer."
	}
	if r.Context().Err() == nil || attemptOf(r.Context()) != nil { // otherwise the client has left
		p.report(r, admission.Failed, "application_away", reason(err))
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, text, status)
}

// reason returns an error as the log may have it: some of net/http's quote an answer.
func reason(err error) string {
	var dial *net.OpError
	switch {
	case errors.As(err, &dial):
		return dial.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "the application has not answered in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the application has closed the connection without an answer"
	}
	return "the application's answer is malformed, or its certificate is not trusted"
}

// watchedBody is the body of an answer whose beginning decides the outcome.
type watchedBody struct {
	io.ReadCloser
	begin     []byte
	isDecided bool
	decide    func(begin []byte)
}

// Read implements io.Reader. It decides once the beginning is there.
func (b *watchedBody) Read(part []byte) (int, error) {
	n, err := b.ReadCloser.Read(part)
	if b.isDecided {
		return n, err
	}
	b.begin = append(b.begin, part[:min(n, maxBegin-len(b.begin))]...)
	if len(b.begin) == maxBegin || errors.Is(err, io.EOF) {
		b.isDecided = true
		b.decide(b.begin)
	}
	return n, err
}

// Close implements io.Closer. A client that goes away does not take the outcome along: the rest of the beginning is
// read first, within the deadline of the request. An answer that is cut off decides nothing.
func (b *watchedBody) Close() error {
	if !b.isDecided {
		_, _ = io.CopyN(io.Discard, b, int64(maxBegin-len(b.begin)))
	}
	return b.ReadCloser.Close()
}
