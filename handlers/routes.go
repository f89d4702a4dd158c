package handlers

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"velocityd/service/access"
)

// routeCalls routes the paths of checks and reports, and those that show nothing of zones, buckets and txns.
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

// routeRecords routes the paths for operators and analysts.
//
// Each scope of work in a zone allows reading its settings. The scopes check and report do not: login servers are the
// most exposed. Overrides name people, so only the scope that edits them shows them. Recorded attempts name people,
// too: a login server needs no more of an attempt than the answers to a retry and to a report.
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
	s.get(e, pathChecks, history, s.listChecks)
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

// route answers the requests of a path by handle, for callers with the need.
func (s *server) route(e *echo.Echo, method, path string, wanted need, handle func(*exchange) error) {
	s.needs[endpoint{method, path}] = wanted
	e.Add(method, path, echoHandler(handle))
}

// get routes GET, and HEAD to the same answer: exchange.respond leaves its body out.
func (s *server) get(e *echo.Echo, path string, wanted need, handle func(*exchange) error) {
	s.route(e, http.MethodGet, path, wanted, handle)
	s.route(e, http.MethodHead, path, wanted, handle)
}

func echoHandler(handle func(*exchange) error) echo.HandlerFunc {
	return func(c echo.Context) error { return handle(c.(*exchange)) } //nolint:errcheck // the first middleware makes every context one
}
