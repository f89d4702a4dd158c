// Package handlers owns HTTP: routes, decoding, encoding, status codes, headers
// and the request log. It is the only room that knows Echo, and must not know
// SQL, any engine, how a check is decided, or how connections are accepted.
package handlers

import (
	"cmp"
	"context"
	"crypto/rand"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"velocityd/api"
	"velocityd/handlers/admission"
	"velocityd/handlers/strictjson"
	"velocityd/service"
	"velocityd/service/feed"
	"velocityd/service/refresh"
	"velocityd/service/shares"
)

// New returns the whole HTTP interface of the service but for the profiles, which show
// how it works inside. It starts nothing. Of the connection's limits it sets only the
// time that a large body may take; the http.Server that serves it sets the others.
func New(o Options) *API {
	s := newServer(o)
	return s.serve(s.routeCalls, s.routeRecords)
}

// NewSplit returns the interface in two parts, for a listener each. calls are the paths for
// callers: checks, outcomes, health, and the description. admin is everything, with
// metrics and profiles. Both share the bounds that o has on bodies.
func NewSplit(o Options) (calls, admin *API) {
	s := newServer(o)
	return s.serve(s.routeCalls), s.serve(s.routeCalls, s.routeRecords, s.routeProfiles)
}

// server is the interface's state, shared by all requests.
type server struct {
	Options
	name      string // of this instance, in request ids
	requests  atomic.Uint64
	buffers   buffers
	slots     *bodySlots
	faults    admission.FaultLog
	origins   origins
	bodies    shares.Pool[string] // bytes of bodies and answers in memory: see takeMemory
	needs     map[endpoint]need
	mounted   map[string]bool // by the paths of the router
	decoder   *strictjson.Decoder
	feed      feed.Txns
	eventFeed feed.Events
	exports   *shares.Pool[string]
	follows   *shares.Pool[string]
	scrapes   *shares.Pool[string]
	diagnosis *refresh.Cache[api.Diagnosis]
	reports   *shares.Pool[string] // of zones
}

// nameLength is the length of an instance's name. Its 60 random bits keep the names of
// instances different.
const nameLength = 12

// newServer fills in the defaults of o.
func newServer(o Options) *server {
	if o.ReadySince == nil {
		o.ReadySince = func() (unknown time.Time) { return unknown }
	}
	if o.Ready == nil {
		o.Ready = func(context.Context) error { return nil }
	}
	if o.Answers == nil {
		o.Answers = o.Ready
	}
	if o.Running == nil {
		o.Running = context.Background()
	}
	if o.RecordedKeys == nil {
		o.RecordedKeys = func(_ context.Context, b service.Bucket) ([]string, error) { return []string{b.Key}, nil }
	}
	o.Auth.TrustedProxies = o.Auth.Proxies()
	o.AccessLog = o.AccessLog && o.Logger != nil
	o.WriteTimeout = cmp.Or(o.WriteTimeout, defaultWriteTimeout)
	s := &server{
		Options: o, name: rand.Text()[:nameLength], faults: admission.FaultLog{Logger: o.Logger},
		needs: map[endpoint]need{}, mounted: map[string]bool{},
		origins: newOrigins(o.AllowedHosts), decoder: strictjson.New(),
		slots: newBodySlots(defaultSlots()), feed: feed.OfTxns(o.Reader, followPause),
		eventFeed: feed.OfEvents(o.Reader, followPause),
		exports:   shares.NewHalves[string](mostExports, "exports"),
		follows:   shares.NewHalves[string](mostFollowers, "followers"),
		scrapes:   shares.NewHalves[string](mostScrapes, "answers with metrics"),
		reports:   shares.NewHalves[string](mostReports, "reports"),
	}
	s.bodies.Of, s.bodies.Most = "bytes of bodies and answers in memory", int(o.MaxBodyBytes)
	s.bodies.Each = max(s.bodies.Most/2, MaxCallBytes)
	s.diagnosis = refresh.New(diagnosisTimeout, s.diagnose)
	return s
}

// serve returns the interface of some of the paths.
func (s *server) serve(parts ...func(*echo.Echo)) *API {
	e := echo.New()
	e.Use(s.observe) // the only one: Echo makes each middleware's function anew for each request
	for _, route := range parts {
		route(e)
	}
	return &API{s, e}
}
