// Package client asks a running velocityd over HTTP, for login servers and other
// programs. It speaks in the types of package service. It must not know how a
// check is decided, nor keep any state of its own between calls but connections.
//
// Every method honours its context. A context without a deadline gets one, of
// DefaultTimeout or WithTimeout, so that no call lasts for ever.
//
// Errors wrap what they mean for the caller, for errors.Is: service.ErrInvalid,
// service.ErrNotFound, service.ErrConflict, service.ErrForbidden and
// service.ErrPrecondition refuse the question; service.ErrBusy says that nothing
// was counted or changed; service.ErrUndecided, that the answer is lost and it may
// have been. If the service itself has answered, errors.As finds its *api.Problem.
// No error names a bucket key.
package client

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"velocityd/service"
)

// DefaultTimeout is the deadline of a call whose context has none. It is above
// the service's own deadline, so that the service is what gives up first.
const DefaultTimeout = 10 * time.Second

const (
	connectTimeout = 5 * time.Second
	// idleTimeout is below the two minutes for which a service keeps a silent
	// connection: who closes it first must not be the one who is just being asked.
	idleTimeout = 90 * time.Second
	// idleConns is how many connections are kept for the next calls. The two of
	// net/http would have many callers connect anew all the time.
	idleConns = 256
	// maxAnswer is above the longest answer to service.MaxChecks checks, in bytes.
	maxAnswer = 64 << 20
)

// Client asks one service. It may be used by many goroutines at once, and should
// be: they share its connections.
type Client struct {
	base      string // of all paths, without a slash at its end
	shown     string // base as errors name it, without a password
	http      *http.Client
	userAgent string
	timeout   time.Duration
	maxAnswer int64
	pause     func(ctx context.Context, length time.Duration) error
}

var (
	_ service.CheckStore   = (*Client)(nil)
	_ service.OutcomeStore = (*Client)(nil)
	_ service.ZoneLister   = (*Client)(nil)
)

// Option changes what New makes.
type Option func(*Client)

// WithTimeout sets the deadline of calls whose context has none.
func WithTimeout(timeout time.Duration) Option {
	return func(c *Client) { c.timeout = timeout }
}

// WithHTTPClient has requests sent by h, in place of a client that keeps up to
// 256 idle connections and goes by the proxies of the environment. Redirects are
// not followed all the same, because a check is not to be asked elsewhere.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) {
		own := *h
		c.http = &own
	}
}

// WithUserAgent sets the User-Agent of requests, in place of "velocityd-client".
func WithUserAgent(name string) Option {
	return func(c *Client) { c.userAgent = name }
}

// New returns a client of the service at baseURL, such as
// "http://127.0.0.1:8080", which may have a path in front of the service's own.
// Nobody is asked yet. The error wraps service.ErrInvalid. Close ends idle
// connections.
func New(baseURL string, options ...Option) (*Client, error) {
	parsed, err := url.Parse(baseURL)
	if err != nil || (parsed.Scheme != "http" && parsed.Scheme != "https") || parsed.Host == "" ||
		parsed.RawQuery != "" || parsed.Fragment != "" {
		return nil, fmt.Errorf("%w: the address of a service must be like http://127.0.0.1:8080", service.ErrInvalid)
	}
	c := &Client{
		base: strings.TrimRight(baseURL, "/"), shown: strings.TrimRight(parsed.Redacted(), "/"),
		http: &http.Client{Transport: newTransport()}, userAgent: "velocityd-client",
		timeout: DefaultTimeout, maxAnswer: maxAnswer, pause: pause,
	}
	for _, option := range options {
		option(c)
	}
	if !isHeaderValue(c.userAgent) {
		return nil, fmt.Errorf("%w: the User-Agent must not hold control characters", service.ErrInvalid)
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

// limited gives a context without a deadline the client's own.
func (c *Client) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, limited := ctx.Deadline(); limited {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout)
}
