// Package handlers owns HTTP: routes, decoding, encoding, status codes, headers
// and the request log. It is the only room that knows Echo, and must not know
// SQL, any engine, how a check is decided, or how connections are accepted.
package handlers

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"velocityd/api"
	"velocityd/handlers/admission"
	"velocityd/handlers/problem"
	"velocityd/handlers/strictjson"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/event"
	"velocityd/service/explain"
	"velocityd/service/feed"
	"velocityd/service/lockout"
	"velocityd/service/webhook"
)

const (
	// lookUpTimeout is the deadline of each look-up, and insideTimeout that of one for Options.InProcess: no other caller
	// waits behind it.
	lookUpTimeout = 2 * time.Second
	insideTimeout = 30 * time.Second
	// defaultWriteTimeout is the deadline of each change unless Options names one.
	defaultWriteTimeout = 5 * time.Second
)

// Reader answers the look-ups, which change nothing. Its methods return an error that
// wraps service.ErrNotFound if there is nothing of that id, and may return one that wraps
// service.ErrBusy. They take keys that are normalised by their zone's rule.
type Reader interface {
	service.ZoneLister
	service.TotalsStore
	Zone(ctx context.Context, id int64) (service.Zone, error)
	Txn(ctx context.Context, id uint64) (service.Txn, error)
	// Explain says why an attempt was decided as it was.
	Explain(ctx context.Context, txnID uint64) (explain.Explanation, error)
	Attempt(ctx context.Context, id string) (service.Recall, error)
	Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error)
	Overrides(ctx context.Context, zoneID int64, after uint64, limit int) ([]service.Override, error)
	Override(ctx context.Context, zoneID int64, id uint64) (service.Override, error)
	// History takes keys as they are recorded: see Options.RecordedKeys.
	service.HistoryStore
	service.ZoneReportStore
	service.AuditReader
	// Events takes keys as they are recorded, too.
	event.Store
	lockout.Store
}

// Writer carries out the changes: outcomes, releases, zones and overrides. Its errors
// wrap those of package service: ErrNotFound, ErrConflict, ErrPrecondition if a Match
// fails, ErrBusy if nothing was changed, ErrUndecided if it is not known whether
// something was. principal is the name of the caller, or empty if it is not known.
type Writer interface {
	service.OutcomeStore
	Release(ctx context.Context, bucket service.Bucket, principal, reason string) error
	PutZone(ctx context.Context, zone service.Zone, match service.Match, principal string) (service.Zone, error)
	DeleteZone(ctx context.Context, id int64, match service.Match, principal string) error
	AddOverride(ctx context.Context, o service.Override, principal string) (service.Override, error)
	SetOverride(ctx context.Context, o service.Override, principal string) (service.Override, error)
	DeleteOverride(ctx context.Context, zoneID int64, id uint64, principal string) error
	// ExtendOverride and EndOverride are for programs that share a bucket: see service.Override.Extends and MayEnd.
	ExtendOverride(ctx context.Context, o service.Override, principal string) (service.Override, error)
	EndOverride(ctx context.Context, zoneID int64, id uint64, principal string) error
}

// Options are the parts and settings of New. Limiter, Reader, Writer, Exports, Webhooks, Registry and Retention are
// required.
type Options struct {
	// Limiter decides the checks: a service.Limiter, or a store around one. It must normalise
	// the checks' keys, which it gets as callers write them.
	Limiter service.Checker
	Reader  Reader
	Writer  Writer
	// Exports records who exports the history.
	Exports service.ExportNoter
	// Webhooks keeps who gets events.
	Webhooks webhook.Store
	// Admits returns the reason, as its error, if this service never calls a webhook at a URL. Nil means that it may call
	// all, or calls none.
	Admits func(url string) (isAllowed bool, err error)
	// Retention tells what one instance among all does again and again.
	Retention service.RetentionReader
	// Registry lists and ends the credentials of callers.
	Registry access.Registry
	// Backtests makes back-tests. Nil means that there are no such paths.
	Backtests Backtests
	// Examine looks whether the database is fit. Nil means that there is no such path.
	Examine service.Examine
	// RecordedKeys returns the keys under which a bucket is recorded, whose key is normalised: its pseudonyms in a zone
	// that keeps those. Nil means that every bucket is recorded under its key.
	RecordedKeys func(ctx context.Context, bucket service.Bucket) ([]string, error)
	// Ready returns nil if the service can decide checks now, and otherwise the
	// reason. Callers of /readyz see the reason, so it must not hold secrets. Its
	// deadline is two seconds. Nil means always ready.
	Ready func(ctx context.Context) error
	// Answers is the same for checks that are answered, be it without the database. Nil means
	// that it is Ready.
	Answers func(ctx context.Context) error
	// Logger gets a line for each fault of the service that a request meets, and for each check
	// or report that is refused. The same one is logged at most once a second, with the number
	// of those left out. Nil means no log.
	Logger *slog.Logger
	// AccessLog makes Logger get one line for each request, too.
	AccessLog bool
	// Metrics answers GET /metrics. Nil means that there is no such path.
	Metrics http.Handler
	// Observe is called for each request when it has been answered, after its log line. Nil
	// means that nobody wants to know.
	Observe func(ctx context.Context, request Observed)
	// AllowedHosts are the names of the service that requests without TLS may have in
	// their Host header, without a port, besides localhost, addresses and names without
	// a dot. An empty list allows no others, and nil allows all.
	AllowedHosts []string
	// MaxBodyBytes is how many bytes of bodies and answers may be in memory at once; 0 means
	// any number. Requests that need more are answered with 503. Those of up to 1 KiB are
	// not counted.
	MaxBodyBytes int64
	// Running ends when the service begins to stop. Profiles that are being taken then
	// end, too. Nil means never.
	Running context.Context
	// Gates are the named gates. Nil means that there are none.
	Gates Gates
	// RateLimits answers /json. Nil means that there is no such path, and no /healthcheck.
	RateLimits RateLimits
	// Auth says whose requests are answered. The zero value answers everybody.
	Auth Auth
	// WriteTimeout is the deadline of each change; 0 means 5 seconds. Checks have the deadline of the Limiter.
	WriteTimeout time.Duration
	// InProcess is set for the only caller of an interface, a program in this process: see inside.Direct. Changes and
	// reports end with the caller's context alone, look-ups and pages of streams have 30 seconds, and Observed has errors
	// as the stores returned them.
	InProcess bool
}

// New returns the whole HTTP interface of the service but for the profiles, which show
// how it works inside. It starts nothing. Of the connection's limits it sets only the
// time that a large body may take; the http.Server that serves it sets the others.
func New(o Options) *Interface {
	s := newServer(o)
	return s.serve(s.routeCalls, s.routeRecords)
}

// NewSplit returns the interface in two parts, for a listener each. calls are the paths for
// callers: checks, outcomes, health, and the description. admin is everything, with
// metrics and profiles. Both share the bounds that o has on bodies.
func NewSplit(o Options) (calls, admin *Interface) {
	s := newServer(o)
	return s.serve(s.routeCalls), s.serve(s.routeCalls, s.routeRecords, s.routeProfiles)
}

// server is the interface's state, shared by all requests.
type server struct {
	Options
	name      string // of this instance, in request ids
	requests  atomic.Uint64
	buffers   buffers
	slots     *slots
	faults    admission.FaultLog
	origins   origins
	bodies    service.Shares[string] // bytes of bodies and answers in memory: see takeMemory
	needs     map[endpoint]need
	doors     map[string]bool // by the paths of the router
	decoder   *strictjson.Decoder
	feed      feed.Txns
	eventFeed feed.Events
	exports   *service.Shares[string]
	follows   *service.Shares[string]
	scrapes   *service.Shares[string]
	diagnosis *service.Fresh[api.Diagnosis]
	reports   *service.Shares[string] // of zones
}

// nameLength is the length of an instance's name. Its 60 random bits keep the names of
// instances different.
const nameLength = 12

// newServer fills in the defaults of o.
func newServer(o Options) *server {
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
		needs: map[endpoint]need{}, doors: map[string]bool{},
		origins: newOrigins(o.AllowedHosts), decoder: strictjson.New(),
		slots: newSlots(defaultSlots()), feed: feed.OfTxns(o.Reader, followPause),
		eventFeed: feed.OfEvents(o.Reader, followPause),
		exports:   service.NewHalves[string](mostExports, "exports"),
		follows:   service.NewHalves[string](mostFollowers, "followers"),
		scrapes:   service.NewHalves[string](mostScrapes, "answers with metrics"),
		reports:   service.NewHalves[string](mostReports, "reports"),
	}
	s.bodies.Of, s.bodies.Most = "bytes of bodies and answers in memory", int(o.MaxBodyBytes)
	s.bodies.Each = max(s.bodies.Most/2, MostOfACall)
	s.diagnosis = service.NewFresh(diagnosisTimeout, s.diagnose)
	return s
}

// serve returns the interface of some of the paths.
func (s *server) serve(parts ...func(*echo.Echo)) *Interface {
	e := echo.New()
	e.Use(s.observe) // the only one: Echo makes each middleware's function anew for each request
	for _, route := range parts {
		route(e)
	}
	return &Interface{s, e}
}

// routeCalls routes the paths for those who ask for decisions, and those that show nothing of
// zones, buckets and txns.
func (s *server) routeCalls(e *echo.Echo) {
	open, check, report := need{isOpen: true}, oneOf(access.ScopeCheck), oneOf(access.ScopeReport)
	s.route(e, "POST", pathCheck, check, s.postCheck)
	s.route(e, "POST", pathChecks, check, s.postChecks)
	s.route(e, "POST", pathOutcomes, report, s.postOutcomes)
	s.route(e, "POST", pathOutcome, report, with(txnReport, s.postOutcome))
	s.route(e, anyMethod, pathGate, check, s.shortGate)
	s.route(e, anyMethod, pathNamed, check, with(s.gateOf, s.namedGate))
	s.route(e, anyMethod, pathBelowName, check, with(s.gateOf, s.namedGate))
	s.route(e, anyMethod, pathGateOutcome, report, with(s.gateOf, s.gateOutcome))
	s.route(e, "POST", pathAttemptOutcome, report, with(attemptReport, s.postOutcome))
	s.get(e, pathWelcome, open, s.welcome)
	s.get(e, pathLive, open, s.live)
	s.get(e, pathReady, open, s.answerReady)
	s.get(e, pathDescription, open, s.describe)
	s.get(e, pathCaller, oneOf(), s.showCaller)
	s.get(e, pathEventSchema, open, s.showEventSchema)
	if s.RateLimits != nil {
		s.route(e, "POST", pathJSON, check, s.answerJSON)
		s.get(e, pathHealthcheck, open, s.healthcheck)
	}
}

// routeRecords routes the paths for those who look after the service.
//
// Each scope of work in a zone allows reading its settings. The scopes check and report do not: login servers are the
// most exposed. Overrides name people, so only the scope that edits them shows them. Recorded attempts name people,
// too: the answers to a retry and to a report tell a login server what it needs of an attempt.
func (s *server) routeRecords(e *echo.Echo) {
	const (
		zone      = "/v1/zones/:id"
		bucket    = zone + "/buckets/:key"
		overrides = zone + "/overrides"
		override  = overrides + "/:override_id"
	)
	history, peek, release := oneOf(access.ScopeHistory), oneOf(access.ScopePeek), oneOf(access.ScopeRelease)
	zones, edit, admin := oneOf(access.ScopeZones), oneOf(access.ScopeOverrides), everywhere(access.ScopeAdmin)
	readZone := oneOf(access.ScopePeek, access.ScopeRelease, access.ScopeZones, access.ScopeOverrides, access.ScopeHistory)
	s.get(e, pathTxns, history, s.listTxns)
	s.get(e, pathFollow, history, s.followTxns)
	s.get(e, pathEvents, history, s.listEvents)
	s.get(e, pathFollowEvents, history, s.followEvents)
	s.get(e, pathWebhooks, admin, s.listWebhooks)
	s.route(e, "POST", pathWebhooks, admin, s.addWebhook)
	s.route(e, "DELETE", pathWebhook, admin, with(pathWebhookID, s.removeWebhook))
	s.get(e, pathDeliveries, admin, with(pathWebhookID, s.listDeliveries))
	s.route(e, "POST", pathResend, admin, with(pathWebhookID, s.resend))
	s.get(e, pathAudit, history, s.listAudit)
	s.get(e, pathTokens, admin, s.listTokens)
	s.route(e, "DELETE", pathToken, admin, s.revokeToken)
	s.get(e, "/v1/txns/:id", history, s.showTxn)
	s.get(e, pathExplanation, history, s.explainTxn)
	s.get(e, pathAttemptShown, history, with(pathAttempt, s.showAttempt))
	s.get(e, pathRetention, history, s.showRetention)
	s.get(e, "/v1/zones", readZone, s.listZones)
	s.get(e, zone, readZone, with(pathZone, s.showZone))
	s.get(e, pathReport, history, with(pathZone, s.showReport))
	s.route(e, "PUT", zone, zones, with(pathZone, s.putZone))
	s.route(e, "DELETE", zone, zones, with(pathZone, s.deleteZone))
	s.get(e, zone+"/totals", history, with(pathZone, s.showZoneTotals))
	s.get(e, bucket, peek, with(pathBucket, s.peek))
	s.get(e, bucket+"/totals", history, with(pathBucket, s.showBucketTotals))
	s.get(e, pathLocked, peek, with(pathZone, s.showLocked))
	s.get(e, pathDenied, peek, with(pathZone, s.showDenied))
	s.route(e, "POST", pathReleases, release, with(pathZone, s.releaseMany))
	s.route(e, "POST", bucket+"/release", release, with(pathBucket, s.release))
	s.get(e, overrides, edit, with(pathZone, s.listOverrides))
	s.route(e, "POST", overrides, edit, with(pathZone, s.addOverride))
	s.get(e, override, edit, with(pathOverride, s.showOverride))
	s.route(e, "PUT", override, edit, with(pathOverride, s.setOverride))
	s.route(e, "DELETE", override, edit, with(pathOverride, s.deleteOverride))
	if s.Backtests != nil {
		s.route(e, "POST", pathBacktest, history, with(pathZone, s.beginBacktest))
		s.get(e, pathJob, history, s.showBacktest)
		s.route(e, "DELETE", pathJob, history, s.cancelBacktest)
	}
	if s.Examine != nil {
		s.get(e, pathDiagnosis, admin, s.showDiagnosis)
	}
	if s.Metrics != nil {
		s.get(e, pathMetrics, everywhere(access.ScopeMetrics), s.showMetrics)
	}
}

// route has the requests of a path answered by handle, for callers with the need.
func (s *server) route(e *echo.Echo, method, path string, wanted need, handle func(*exchange) error) {
	s.needs[endpoint{method, path}] = wanted
	e.Add(method, path, adapted(handle))
}

// get routes GET, and HEAD to the same answer: exchange.respond leaves its body out.
func (s *server) get(e *echo.Echo, path string, wanted need, handle func(*exchange) error) {
	s.route(e, http.MethodGet, path, wanted, handle)
	s.route(e, http.MethodHead, path, wanted, handle)
}

func adapted(handle func(*exchange) error) echo.HandlerFunc {
	return func(c echo.Context) error { return handle(c.(*exchange)) } //nolint:errcheck // the first middleware makes every context one
}

// lookUp calls ask, which must not change anything, with the deadline of look-ups. It
// is interrupted when the caller goes away, unless the request has a body (watched).
func (s *server) lookUp(x *exchange, ask func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(x.Request().Context(), s.patience(lookUpTimeout))
	defer cancel()
	return ask(ctx)
}

// patience is the deadline of a look-up or a page, which is usual for callers of a service.
func (s *server) patience(usual time.Duration) time.Duration {
	if s.InProcess {
		return insideTimeout
	}
	return usual
}

// show answers with that which find finds, with the deadline of look-ups. absent is the text for a store that does not
// find it, or "" for one that always does.
func (s *server) show(x *exchange, absent string, find func(ctx context.Context) (answer any, err error)) error {
	return s.lookUp(x, func(ctx context.Context) error {
		answer, err := find(ctx)
		switch {
		case err != nil && absent != "":
			return problem.NotFound(err, absent)
		case err != nil:
			return err
		}
		return x.respondJSON(http.StatusOK, api.MediaJSON, answer)
	})
}

// changeAs is change for a change that is recorded under the name of the caller, the principal.
func (s *server) changeAs(x *exchange, carryOut func(ctx context.Context, principal string) error) error {
	principal, err := s.principal(x)
	if err != nil {
		return err
	}
	return s.change(x, func(ctx context.Context) error { return carryOut(ctx, principal) })
}

// remove answers with status 204 once carryOut has removed something. texts are as those of problem.ReplaceTexts.
func (s *server) remove(
	x *exchange, texts map[error]string, carryOut func(ctx context.Context, principal string) error,
) error {
	if err := s.changeAs(x, carryOut); err != nil {
		return problem.ReplaceTexts(err, texts)
	}
	return x.respondNothing()
}

// change calls carryOut with the deadline of changes. Once begun it is NOT
// interrupted when the caller goes away: the engine would go on, and the result
// would be lost. A caller in this process has its own deadline.
func (s *server) change(x *exchange, carryOut func(ctx context.Context) error) error {
	ctx := x.Request().Context()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: caller left before the change began: %w", service.ErrBusy, err)
	}
	reason, err := reasonOf(x.Request().Header)
	if err != nil {
		return err
	}
	if s.InProcess {
		return carryOut(service.WithReason(ctx, reason))
	}
	ctx, cancel := context.WithTimeout(service.WithReason(context.WithoutCancel(ctx), reason), s.WriteTimeout)
	defer cancel()
	err = carryOut(ctx)
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, service.ErrBusy) {
		return fmt.Errorf("%w: %w", service.ErrUndecided, err)
	}
	return err
}
