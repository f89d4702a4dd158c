package handlers

import (
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

// oneOf is the need of one of some scopes, or with none, of any credential that holds.
func oneOf(scopes ...access.Scope) need { return need{anyOf: scopes} }

// everywhere is the need of a scope that holds in all zones.
func everywhere(scope access.Scope) need { return need{anyOf: []access.Scope{scope}, allZones: true} }

// endpoint is a method and the template of a path.
type endpoint struct{ method, path string }

// identify finds out who sends the request. The errors are those of Admission.Identify.
func (s *server) identify(x *exchange) (access.Caller, error) {
	digest, given := credentialOf(x)
	return s.Auth.Identify(x.Request().Context(), digest, given)
}

// authorize refuses a request whose caller may not use its route. It reads no body. A
// caller who is not known gets the same answer on every path that is not open, whether or
// not there is a route. Handlers look at the zones that a request names.
func (s *server) authorize(x *exchange) (err error) {
	method := x.Request().Method
	if isOfGateways(x.Path()) {
		method = anyMethod
	}
	wanted := s.needs[endpoint{method, x.Path()}] // where nothing is routed, any caller learns so
	if s.Auth.IsOpen() || wanted.isOpen {
		return nil
	}
	if x.caller.Caller, err = s.identify(x); err != nil {
		return err
	}
	x.caller.Needs = wanted.anyOf
	if err = x.caller.May(); err == nil && wanted.allZones {
		err = x.caller.MayEverywhere()
	}
	return err
}
