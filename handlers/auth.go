package handlers

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"velocityd/api"
	"velocityd/service/access"
)

// Auth says whose requests are answered. The zero value answers everybody.
type Auth struct {
	// Callers knows callers by their credentials. If it is nil, nobody is asked for one,
	// and credentials are not looked at.
	Callers Callers
	// Txns tells the zones of txns. It is needed if Callers is set.
	Txns TxnZones
	// TrustedProxies are the addresses whose header X-Forwarded-User is believed. Nil
	// means the loopback addresses if Callers is nil, and otherwise none.
	TrustedProxies []netip.Prefix
}

// Callers knows callers by the digests of their credentials.
type Callers interface {
	// Caller returns whose credential has a digest. known is false if there is none that
	// holds. The error wraps service.ErrBusy: it cannot be found out now.
	Caller(ctx context.Context, digest access.Digest) (caller access.Caller, known bool, err error)
}

// TxnZones tells, for each of these txns that exists, the zones of all txns of its check.
type TxnZones interface {
	TxnZones(ctx context.Context, ids []uint64) (map[uint64][]int64, error)
}

// need is what a route needs of its caller.
type need struct {
	isOpen   bool           // nothing: it is answered to everybody
	anyOf    []access.Scope // one of these scopes; none means any credential that holds
	allZones bool           // that hold in all zones, because what is shown is of all
}

// routeNeeds returns what each route needs, by its method and path. HEAD needs what GET
// does.
//
// Whoever works in a zone may read its settings, except those who only ask and report:
// login servers are the most exposed. Overrides name people, so only those who edit them
// see them.
func routeNeeds() map[string]need {
	everybody := need{isOpen: true}
	one := func(scopes ...access.Scope) need { return need{anyOf: scopes} }
	readZone := one(access.ScopePeek, access.ScopeRelease, access.ScopeZones, access.ScopeOverrides, access.ScopeHistory)
	return map[string]need{
		"GET " + pathWelcome:     everybody,
		"GET " + pathLive:        everybody,
		"GET " + pathReady:       everybody,
		"GET " + pathDescription: everybody,
		"GET " + pathMetrics:     {anyOf: []access.Scope{access.ScopeMetrics}, allZones: true},

		"POST " + pathCheck:    one(access.ScopeCheck),
		"POST " + pathChecks:   one(access.ScopeCheck),
		"POST " + pathOutcomes: one(access.ScopeReport),
		"POST " + pathOutcome:  one(access.ScopeReport),
		"GET /v1/txns/:id":     one(access.ScopeHistory),

		"GET /v1/zones":        readZone,
		"GET /v1/zones/:id":    readZone,
		"PUT /v1/zones/:id":    one(access.ScopeZones),
		"DELETE /v1/zones/:id": one(access.ScopeZones),

		"GET /v1/zones/:id/buckets/:key":          one(access.ScopePeek),
		"POST /v1/zones/:id/buckets/:key/release": one(access.ScopeRelease),

		"GET /v1/zones/:id/overrides":                 one(access.ScopeOverrides),
		"POST /v1/zones/:id/overrides":                one(access.ScopeOverrides),
		"GET /v1/zones/:id/overrides/:override_id":    one(access.ScopeOverrides),
		"PUT /v1/zones/:id/overrides/:override_id":    one(access.ScopeOverrides),
		"DELETE /v1/zones/:id/overrides/:override_id": one(access.ScopeOverrides),
	}
}

// endpoint is a method and the template of a path.
type endpoint struct{ method, path string }

// needsOf returns what each of these routes needs. One that routeNeeds does not list
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

// authorize calls handle if the request's caller may use its route. It reads no body. A
// caller who is not known gets the same answer on every path that is not open, whether or
// not there is a route. The zones that a request names are looked at later: see mayIn.
func (s *server) authorize(handle echo.HandlerFunc, x *exchange) error {
	if s.auth.Callers == nil {
		return handle(x)
	}
	wanted := s.needs[endpoint{x.Request().Method, x.Path()}] // where nothing is routed, any caller learns so
	if wanted.isOpen {
		return handle(x)
	}
	if err := s.identify(x); err != nil {
		return err
	}
	x.needed = wanted.anyOf
	if len(x.needed) > 0 && !slices.ContainsFunc(x.needed, x.caller.Has) {
		return x.lacking("", "")
	}
	if wanted.allZones && x.caller.IsBound() {
		return x.lacking(" in all zones", "")
	}
	return handle(x)
}

// identify finds out who the caller is. The error wraps api.ErrUnauthenticated, or
// service.ErrBusy if that cannot be found out.
func (s *server) identify(x *exchange) error {
	digest, given := credentialOf(x.Request())
	if !given {
		return api.ErrUnauthenticated
	}
	caller, known, err := s.auth.Callers.Caller(x.Request().Context(), digest)
	switch {
	case err != nil:
		return err
	case !known:
		return api.ErrUnauthenticated
	}
	x.caller = caller
	return nil
}

// mayIn returns an error that wraps api.ErrMissingScope if the caller's scopes do not hold
// in a zone. pointer is where the request's body names it, or "". It does NOT look whether
// the zone exists: the answer is the same.
func (x *exchange) mayIn(zoneID int64, pointer string) error {
	if x.caller.Reaches(zoneID) {
		return nil
	}
	return x.lacking(fmt.Sprintf(" in zone %d", zoneID), pointer)
}

// mayAsk returns an error that points at the first bucket of a check in whose zone the
// caller may not ask.
func (x *exchange) mayAsk(asked question) error {
	for i, b := range asked.check.Buckets {
		err := x.mayIn(b.ZoneID, "/zone_id")
		switch {
		case err != nil && asked.listed:
			return pointAtBucket(err, i)
		case err != nil:
			return err
		}
	}
	return nil
}

// lacking returns the error for a caller whose credential lacks the scopes that his
// request needs. It names them, and the credential, which is the caller's own.
func (x *exchange) lacking(where, pointer string) error {
	names := access.ScopeNames(x.needed)
	lacks := "the scope " + strings.Join(names, "")
	if len(names) > 1 {
		lacks = "one of the scopes " + strings.Join(names, ", ")
	}
	return &requestError{
		kind: api.ErrMissingScope, pointer: pointer,
		detail: fmt.Sprintf("The credential %s lacks %s%s.", x.caller.Name, lacks, where),
	}
}

// reachable returns which of these txns the caller may read and report about. To a caller who is
// bound to zones, a txn of a check with other zones does not exist.
func (s *server) reachable(x *exchange, ids ...uint64) ([]bool, error) {
	if !x.caller.IsBound() {
		return slices.Repeat([]bool{true}, len(ids)), nil
	}
	var zones map[uint64][]int64
	err := s.lookUp(x, func(ctx context.Context) (err error) {
		zones, err = s.auth.Txns.TxnZones(ctx, ids)
		return err
	})
	reached := make([]bool, len(ids))
	for i, id := range ids {
		outside := func(zone int64) bool { return !x.caller.Reaches(zone) }
		reached[i] = len(zones[id]) > 0 && !slices.ContainsFunc(zones[id], outside)
	}
	return reached, err
}
