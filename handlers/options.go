package handlers

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/audit"
	"velocityd/service/event"
	"velocityd/service/explain"
	"velocityd/service/lockout"
	"velocityd/service/webhook"
	"velocityd/service/zonereport"
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
	// History and Checks take keys as they are recorded: see Options.RecordedKeys.
	service.HistoryStore
	service.CheckHistory
	zonereport.Store
	audit.Reader
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
	// Exports records the exports of the history.
	Exports service.ExportNoter
	// Webhooks keeps the receivers of events.
	Webhooks webhook.Store
	// Admits returns the reason, as its error, if this service never calls a webhook at a URL. Nil means that it may call
	// all, or calls none.
	Admits func(url string) (isAllowed bool, err error)
	// Retention tells of the work that one instance among all repeats.
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
	// Answers is Ready for answers with or without the database. Nil means Ready.
	Answers func(ctx context.Context) error
	// ReadySince returns since when the answer of Ready is as it is. Nil means that it is not known.
	ReadySince func() time.Time
	// Logger gets a line for each fault of the service that a request meets, and for each check
	// or report that is refused. The same one is logged at most once a second, with the number
	// of those left out. Nil means no log.
	Logger *slog.Logger
	// AccessLog makes Logger get one line for each request, too.
	AccessLog bool
	// Metrics answers GET /metrics. Nil means that there is no such path.
	Metrics http.Handler
	// Observe is called for each request when it has been answered, after its log line. Nil means no call.
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
	// Auth says which callers are answered. The zero value answers all of them.
	Auth Auth
	// WriteTimeout is the deadline of each change; 0 means 5 seconds. Checks have the deadline of the Limiter.
	WriteTimeout time.Duration
	// InProcess is set for the only caller of an interface, a program in this process: see client/inprocess. Changes and
	// reports end with the caller's context alone, look-ups and pages of streams have 30 seconds, and Observed has errors
	// as the stores returned them.
	InProcess bool
}
