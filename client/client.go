// Package client asks a running velocityd over HTTP, for login servers and other
// programs. It takes and returns the types of package service. It must not know how a
// check is decided, and keeps nothing between calls but connections.
//
// Every method honours its context. A context without a deadline gets one, of
// DefaultTimeout or WithTimeout, so that no call lasts for ever.
//
// Errors wrap one of these errors of package service, for errors.Is. ErrInvalid,
// ErrNotFound, ErrConflict, ErrForbidden and ErrPrecondition mean that the service
// refuses the request; so do ErrUnauthenticated and ErrMissingScope of package access, because
// of the token. ErrBusy means that nothing was counted or changed. ErrUndecided means that
// the answer is lost, and that something may have been counted or changed.
// If the service has answered, errors.As finds its *api.Problem. No error names a
// bucket key.
package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"velocityd/client/inprocess"
	"velocityd/service"
)

// DefaultTimeout is the deadline of a call whose context has none. It is longer than the service's own
// deadline, so that the service gives up first.
const DefaultTimeout = 10 * time.Second

const (
	connectTimeout = 5 * time.Second
	// idleTimeout is shorter than the two minutes after which a service closes an idle
	// connection. Otherwise the service might close it while a request is on its way.
	idleTimeout = 90 * time.Second
	// idleConns connections are kept for the next calls. With net/http's default, which is two, many
	// callers would connect anew for every call.
	idleConns = 256
	// maxAnswer is above the longest answer to service.MaxChecks checks, in bytes.
	maxAnswer = 64 << 20
)

// Client asks one service. It may be used by many goroutines at once, and should
// be: they share its connections.
type Client struct {
	base        string // the beginning of all URLs, without a slash at its end
	shown       string // base as errors name it, without a password
	http        *http.Client
	userAgent   string
	token       string        // goes out with every request; "" means none
	timeout     time.Duration // of a call
	tryTime     time.Duration // of one of its tries
	maxAnswer   int64
	budget      budget
	onError     OnError    // nil: errors are returned
	observer    Observer   // nil: nobody
	coalescer   *coalescer // nil: each check is a request
	isInProcess bool       // the service is in this process
	pause       func(ctx context.Context, length time.Duration) error
}

var (
	_ service.Checker      = (*Client)(nil)
	_ service.OutcomeStore = (*Client)(nil)
	_ service.ZoneLister   = (*Client)(nil)
)

// Option changes what New makes.
type Option func(*Client)

// WithTimeout sets the deadline of calls whose context has none.
func WithTimeout(timeout time.Duration) Option {
	return func(c *Client) { c.timeout = timeout }
}

// WithHTTPClient makes the Client send its requests by h. The default is a client that
// keeps up to 256 idle connections and uses the proxies of the environment. Redirects
// are not followed with any h, because a check must not be asked elsewhere.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) {
		own := *h
		c.http = &own
	}
}

// InProcess makes the Client ask an HTTP interface in this process that has no other caller. Then calls have no deadline
// but that of their context, streams may be silent, and errors are those of the interface's stores, without an
// *api.Problem. See inprocess.Direct.
func InProcess(api http.Handler) Option {
	return func(c *Client) { c.http, c.isInProcess = &http.Client{Transport: inprocess.Direct{API: api}}, true }
}

// WithUserAgent sets the User-Agent of requests. The default is "velocityd-client".
func WithUserAgent(name string) Option {
	return func(c *Client) { c.userAgent = name }
}

// WithToken makes the Client prove who it is by a token of 'velocityd token create', in
// every request. An empty token means none. Redirects are not followed, so the token goes
// to the service of New alone. Use https for any service that is not on the same machine.
func WithToken(token string) Option {
	return func(c *Client) { c.token = token }
}

// WithRootCAs makes the Client trust services whose certificates are signed by one of roots, in
// place of those that the machine trusts. It replaces the HTTP client of an earlier
// WithHTTPClient by the default one.
func WithRootCAs(roots *x509.CertPool) Option {
	return func(c *Client) {
		transport := newTransport()
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
		c.http = &http.Client{Transport: transport}
	}
}

// New returns a client of the service at baseURL, such as "http://127.0.0.1:8080". The
// URL may end with a path, to which the service's paths are added. New connects to
// nothing. The error wraps service.ErrInvalid. Close ends idle connections.
func New(baseURL string, options ...Option) (*Client, error) {
	parsed, err := url.Parse(baseURL)
	if err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Host == "" ||
		strings.ContainsAny(baseURL, "?#") {
		return nil, fmt.Errorf("%w: the address of a service must be like http://127.0.0.1:8080", service.ErrInvalid)
	}
	c := &Client{
		base: strings.TrimRight(baseURL, "/"), shown: strings.TrimRight(parsed.Redacted(), "/"),
		http: &http.Client{Transport: newTransport()}, userAgent: "velocityd-client",
		timeout: DefaultTimeout, tryTime: longestTry, maxAnswer: maxAnswer, pause: pause,
	}
	for _, option := range options {
		option(c)
	}
	if !isHeaderValue(c.userAgent) {
		return nil, fmt.Errorf("%w: the User-Agent must not hold control characters", service.ErrInvalid)
	}
	if !isHeaderValue(c.token) {
		return nil, fmt.Errorf("%w: the token must not hold control characters", service.ErrInvalid)
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSHandshakeTimeout: connectTimeout,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: idleConns,
		IdleConnTimeout:     idleTimeout,
	}
}

// Close ends the connections that are idle. The client can still be used.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// limited returns ctx, with the client's timeout if it has no deadline.
func (c *Client) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, limited := ctx.Deadline(); limited || c.isInProcess {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}
