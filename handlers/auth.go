package handlers

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"velocityd/front"
	"velocityd/service/access"
)

// Auth says whose requests are answered. The zero value answers everybody.
type Auth struct {
	front.Admission
	// TrustedProxies are believed when they say from which address a request comes, by X-Forwarded-For or
	// Forwarded, and on whose behalf, by X-Forwarded-User. Nil means this machine if nobody is asked who he is, and
	// otherwise none.
	TrustedProxies front.Proxies
}

// Proxies returns the TrustedProxies, or those that nil means.
func (a Auth) Proxies() front.Proxies {
	if a.IsOpen() && a.TrustedProxies == nil {
		return front.ThisMachine()
	}
	return a.TrustedProxies
}

// need is the demand of a route on its caller.
type need struct {
	isOpen   bool           // nothing: it is answered to everybody
	anyOf    []access.Scope // one of these scopes; none means any credential that holds
	allZones bool           // that hold in all zones, because the answer shows all
}

// routeNeeds returns the need of each route, by its method and path. HEAD has that of GET.
//
// Whoever works in a zone may read its settings, except those who only ask and report:
// login servers are the most exposed. Overrides name people, so only those who edit them
// see them. Recorded attempts name people, too: a caller who asks and reports learns what he needs of an
// attempt from the answers to a retry and to a report.
func routeNeeds() map[string]need {
	everybody := need{isOpen: true}
	one := func(scopes ...access.Scope) need { return need{anyOf: scopes} }
	readZone := one(access.ScopePeek, access.ScopeRelease, access.ScopeZones, access.ScopeOverrides, access.ScopeHistory)
	return map[string]need{
		"GET " + pathWelcome:     everybody,
		"GET " + pathLive:        everybody,
		"GET " + pathReady:       everybody,
		"GET " + pathDescription: everybody,
		"GET " + pathHealthcheck: everybody,
		"GET " + pathMetrics:     {anyOf: []access.Scope{access.ScopeMetrics}, allZones: true},

		"GET " + pathCaller:      one(),
		"POST " + pathCheck:      one(access.ScopeCheck),
		"POST " + pathChecks:     one(access.ScopeCheck),
		"POST " + pathJSON:       one(access.ScopeCheck),
		"POST " + pathOutcomes:   one(access.ScopeReport),
		"POST " + pathOutcome:    one(access.ScopeReport),
		"GET /v1/txns/:id":       one(access.ScopeHistory),
		"GET " + pathExplanation: one(access.ScopeHistory),
		"GET " + pathTxns:        one(access.ScopeHistory),
		"GET " + pathFollow:      one(access.ScopeHistory),
		"GET " + pathRetention:   one(access.ScopeHistory),

		"GET " + pathEvents:       one(access.ScopeHistory),
		"GET " + pathFollowEvents: one(access.ScopeHistory),
		"GET " + pathEventSchema:  everybody,

		"GET " + pathWebhooks:   {anyOf: []access.Scope{access.ScopeAdmin}, allZones: true},
		"POST " + pathWebhooks:  {anyOf: []access.Scope{access.ScopeAdmin}, allZones: true},
		"DELETE " + pathWebhook: {anyOf: []access.Scope{access.ScopeAdmin}, allZones: true},
		"GET " + pathDeliveries: {anyOf: []access.Scope{access.ScopeAdmin}, allZones: true},
		"POST " + pathResend:    {anyOf: []access.Scope{access.ScopeAdmin}, allZones: true},

		"GET " + pathAudit: one(access.ScopeHistory),

		"GET " + pathDiagnosis: {anyOf: []access.Scope{access.ScopeAdmin}, allZones: true},

		"GET " + pathTokens:   {anyOf: []access.Scope{access.ScopeAdmin}, allZones: true},
		"DELETE " + pathToken: {anyOf: []access.Scope{access.ScopeAdmin}, allZones: true},

		"POST " + pathAttemptOutcome: one(access.ScopeReport),
		"GET " + pathAttemptShown:    one(access.ScopeHistory),

		anyMethod + " " + pathGate:      one(access.ScopeCheck),
		anyMethod + " " + pathNamed:     one(access.ScopeCheck),
		anyMethod + " " + pathBelowName: one(access.ScopeCheck),

		anyMethod + " " + pathGateOutcome: one(access.ScopeReport),

		"GET /v1/zones":        readZone,
		"GET /v1/zones/:id":    readZone,
		"GET " + pathReport:    one(access.ScopeHistory),
		"POST " + pathBacktest: one(access.ScopeHistory),
		"GET " + pathJob:       one(access.ScopeHistory),
		"DELETE " + pathJob:    one(access.ScopeHistory),
		"PUT /v1/zones/:id":    one(access.ScopeZones),
		"DELETE /v1/zones/:id": one(access.ScopeZones),

		"GET /v1/zones/:id/totals":                one(access.ScopeHistory),
		"GET /v1/zones/:id/buckets/:key":          one(access.ScopePeek),
		"GET /v1/zones/:id/buckets/:key/totals":   one(access.ScopeHistory),
		"POST /v1/zones/:id/buckets/:key/release": one(access.ScopeRelease),
		"POST " + pathReleases:                    one(access.ScopeRelease),

		"GET " + pathLocked: one(access.ScopePeek),
		"GET " + pathDenied: one(access.ScopePeek),

		"GET /v1/zones/:id/overrides":                 one(access.ScopeOverrides),
		"POST /v1/zones/:id/overrides":                one(access.ScopeOverrides),
		"GET /v1/zones/:id/overrides/:override_id":    one(access.ScopeOverrides),
		"PUT /v1/zones/:id/overrides/:override_id":    one(access.ScopeOverrides),
		"DELETE /v1/zones/:id/overrides/:override_id": one(access.ScopeOverrides),
	}
}

// endpoint is a method and the template of a path.
type endpoint struct{ method, path string }

// needsOf returns the need of each of these routes. One that routeNeeds does not list
// needs the scope admin in all zones.
func needsOf(routes []*echo.Route) map[endpoint]need {
	listed, needs := routeNeeds(), make(map[endpoint]need, len(routes))
	for _, route := range routes {
		method := route.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		wanted, ok := listed[method+" "+route.Path]
		if !ok {
			wanted = need{anyOf: []access.Scope{access.ScopeAdmin}, allZones: true}
		}
		needs[endpoint{route.Method, route.Path}] = wanted
	}
	return needs
}

// identify finds out who sends the request. The errors are those of Admission.Identify.
func (s *server) identify(x *exchange) (access.Caller, error) {
	credential := credentialOf
	if isOfGateways(x.Path()) {
		credential = gatewayCredentialOf
	}
	digest, given := credential(x.Request())
	return s.Auth.Identify(x.Request().Context(), digest, given)
}

// authorize calls handle if the request's caller may use its route. It reads no body. A
// caller who is not known gets the same answer on every path that is not open, whether or
// not there is a route. Handlers look at the zones that a request names.
func (s *server) authorize(handle echo.HandlerFunc, x *exchange) (err error) {
	method := x.Request().Method
	if isOfGateways(x.Path()) {
		method = anyMethod
	}
	wanted := s.needs[endpoint{method, x.Path()}] // where nothing is routed, any caller learns so
	if s.Auth.IsOpen() || wanted.isOpen {
		return handle(x)
	}
	if x.caller.Caller, err = s.identify(x); err != nil {
		return err
	}
	x.caller.Needs = wanted.anyOf
	if err = x.caller.May(); err == nil && wanted.allZones {
		err = x.caller.MayEverywhere()
	}
	if err != nil {
		return err
	}
	return handle(x)
}
