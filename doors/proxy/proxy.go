// Package proxy is a reverse proxy for the login path of an application that cannot be changed. It asks a service
// before a login reaches the application, and reports how it ended by the application's answer. All other requests pass
// as they are. It must not know how a check is decided.
package proxy

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"velocityd/handlers/admission"
	"velocityd/handlers/gate"
	"velocityd/handlers/wire"
	"velocityd/service"
	"velocityd/service/shares"
)

// Limits of logins.
const (
	// MostLogins bounds the logins that are worked on at once, and with them the memory of their bodies and their
	// connections to the application.
	MostLogins = 2048
	// mostReports bounds the reports under way.
	mostReports = 1024
	// reportTimeout is the deadline of a report, with all its tries. It is longer than the service's, which may answer
	// that it is busy.
	reportTimeout = 10 * time.Second
	// bodyTimeout is how long a client may take to send the body of a login.
	bodyTimeout = 10 * time.Second
)

// Service answers checks and takes reports. Its Check returns an error only if the check itself is at fault.
type Service interface {
	Check(ctx context.Context, check service.Check) (service.Decision, error)
	Report(ctx context.Context, report service.Report) error
}

// Options are the settings of a Proxy.
type Options struct {
	Service  Service
	Upstream *url.URL       // of the application: scheme and host
	Roots    *x509.CertPool // of the application's certificate; nil: those that the machine trusts
	Logins   []Login
	Users    []gate.Source // places where the user may stand
	// UserZone and AddressZone are the zones of a check; 0 leaves one out.
	UserZone, AddressZone int64
	// AnyUser lets a login without a user count for its address alone. Otherwise it is refused.
	AnyUser       bool
	Proxies       admission.Proxies // that may name the client's address
	Rules         Rules
	Pages         Pages
	MaxBody       int64         // of a login, in bytes
	MaxRequests   int           // other than logins at once, websockets included; of one client half as many
	CheckTimeout  time.Duration // of a check, with all its tries
	AnswerTimeout time.Duration // of the application's answer to a login
	Logger        *slog.Logger  // nil means no log
	AccessLog     bool
}

// Proxy is the handler of all requests to an application.
type Proxy struct {
	Options
	gate      gate.Gate
	forwarder *httputil.ReverseProxy
	faults    admission.FaultLog
	logins    *shares.Pool[netip.Prefix]
	others    *shares.Pool[netip.Prefix] // others than logins, which must not keep users from logging in
	reporting *shares.Pool[netip.Prefix]
	reports   sync.WaitGroup
	draining  atomic.Bool
}

// New returns a Proxy. It connects to nothing. Close ends the idle connections to the application.
func New(o Options) *Proxy {
	p := &Proxy{
		Options: o, faults: admission.FaultLog{Logger: o.Logger},
		logins:    shares.NewHalves[netip.Prefix](MostLogins, "logins"),
		others:    shares.NewHalves[netip.Prefix](o.MaxRequests, "requests"),
		reporting: shares.NewHalves[netip.Prefix](mostReports, "reports"),
	}
	p.gate = gate.Gate{Name: "login", Answer: gate.DefaultAnswer()}
	if o.UserZone != 0 {
		for _, place := range o.Users {
			p.gate.Buckets = append(p.gate.Buckets, gate.Bucket{Zone: o.UserZone, Key: place, IsOptional: true})
		}
	}
	if o.AddressZone != 0 {
		p.gate.Buckets = append(p.gate.Buckets,
			gate.Bucket{Zone: o.AddressZone, Key: gate.Source{Kind: gate.Client, Name: "address"}})
	}
	p.forwarder = p.newForwarder()
	return p
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := &attempt{}
	if p.AccessLog && p.Logger != nil {
		seen := &watchedWriter{ResponseWriter: w}
		defer p.logRequest(r, a, seen, time.Now())
		w = seen
	}
	defer wire.SetPartDeadline(w)
	switch {
	case wire.ConnectionOf(r).IsExcess:
		w.Header().Set("Connection", "close")
		p.refuseBusy(w, r, p.others, "too many connections")
	case p.answerHealth(w, r):
	case !strings.HasPrefix(r.URL.Path, "/") && r.URL.Path != "*":
		// It is CONNECT, or has no path (http:login). Nothing says which path an application sees.
		http.Error(w, "The address of this request has no path.", http.StatusBadRequest)
	case p.isLogin(r):
		p.bounded(p.logins, w, r, func() { p.login(w, r, a) })
	default:
		p.bounded(p.others, w, r, func() { p.forwarder.ServeHTTP(wire.WithPartDeadlines(w, r)) })
	}
}

// bounded answers a request, unless there are too many of its kind in all or of its client.
func (p *Proxy) bounded(by *shares.Pool[netip.Prefix], w http.ResponseWriter, r *http.Request, answer func()) {
	shareKey := p.shareKey(r)
	if err := by.Take(shareKey, 1); err != nil {
		p.refuseBusy(w, r, by, "too many requests at once: "+err.Error())
		return
	}
	defer by.GiveBack(shareKey, 1)
	answer()
}

// shareKey returns the network of the client for which a request counts.
func (p *Proxy) shareKey(r *http.Request) netip.Prefix {
	client, _, err := p.client(r)
	if err != nil { // a login is refused for that; others count for the peer
		peer, _ := netip.ParseAddrPort(r.RemoteAddr)
		client = peer.Addr()
	}
	return wire.NetworkOf(client)
}

// refuseBusy answers a request that is one too many for a bound.
func (p *Proxy) refuseBusy(w http.ResponseWriter, r *http.Request, by *shares.Pool[netip.Prefix], text string) {
	p.report(r, admission.Busy, "overloaded", text)
	wait := service.WholeSeconds(service.BusyRetryAfter)
	if by == p.logins {
		p.Pages.write(w, r, pageData{http.StatusServiceUnavailable, wait})
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Retry-After", strconv.FormatInt(wait, 10))
	http.Error(w, "There are too many requests at the moment.", http.StatusServiceUnavailable)
}

// isLogin reports whether an application may take a request for a login. Where the user stands in Authorization: Basic
// alone, a request without that is none.
func (p *Proxy) isLogin(r *http.Request) bool {
	paths := readings(r.URL)
	if !slices.ContainsFunc(p.Logins, func(l Login) bool { return l.matches(r, paths) }) {
		return false
	}
	isOther := func(s gate.Source) bool { return s.Kind != gate.Basic }
	if len(p.Users) == 0 || slices.ContainsFunc(p.Users, isOther) {
		return true
	}
	return slices.ContainsFunc(r.Header.Values("Authorization"), func(value string) bool {
		value = strings.TrimSpace(value)
		return len(value) >= len("basic") && strings.EqualFold(value[:len("basic")], "basic")
	})
}

// Paths that the proxy answers itself.
const (
	pathLive  = "/velocityd/livez"
	pathReady = "/velocityd/readyz"
)

// answerHealth answers whether the proxy runs, and whether it takes new requests, if a request asks that.
func (p *Proxy) answerHealth(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || r.URL.Path != pathLive && r.URL.Path != pathReady {
		return false
	}
	w.Header().Set("Cache-Control", "no-store")
	if r.URL.Path == pathReady && p.draining.Load() {
		http.Error(w, "The proxy is stopping.", http.StatusServiceUnavailable)
		return true
	}
	w.WriteHeader(http.StatusOK)
	return true
}

// client returns the address that a request comes from, and whether the peer is a trusted proxy.
func (p *Proxy) client(r *http.Request) (client netip.Addr, isBehindProxy bool, err error) {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // net/http has written it
	client, ok := p.Proxies.Client(peer.Addr(), r.Header.Values("X-Forwarded-For"), r.Header.Values("Forwarded"))
	if !ok {
		err = fmt.Errorf(
			"%w: X-Forwarded-For and Forwarded name different clients: let the proxy in front remove one of them",
			service.ErrInvalid)
	}
	return client, p.Proxies.Trust(peer.Addr()), err
}
