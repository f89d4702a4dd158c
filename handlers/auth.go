package handlers

import (
	"net/http"

	"velocityd/api"
	"velocityd/handlers/admission"
	"velocityd/service/access"
)

// Auth says which callers are answered. The zero value answers all of them.
type Auth struct {
	admission.Admission
	// TrustedProxies may say from which address a request comes, by X-Forwarded-For or Forwarded, and for which user, by
	// X-Forwarded-User. Nil means this machine in an open service, and otherwise none.
	TrustedProxies admission.Proxies
}

// Proxies returns the TrustedProxies, or those that nil means.
func (a Auth) Proxies() admission.Proxies {
	if a.IsOpen() && a.TrustedProxies == nil {
		return admission.ThisMachine()
	}
	return a.TrustedProxies
}

// need is the demand of a route on its caller.
type need struct {
	isOpen   bool           // no credential is needed
	anyOf    []access.Scope // one of these scopes; none means any valid credential
	allZones bool           // that hold in all zones, because the answer shows all
}

// oneOf is the need of one of some scopes, or with none, of any valid credential.
func oneOf(scopes ...access.Scope) need { return need{anyOf: scopes} }

// everywhere is the need of a scope that holds in all zones.
func everywhere(scope access.Scope) need { return need{anyOf: []access.Scope{scope}, allZones: true} }

// endpoint is a method and the template of a path.
type endpoint struct{ method, path string }

// identify returns the caller of the request. The errors are those of Admission.Identify.
func (s *server) identify(x *exchange) (access.Caller, error) {
	digest, given := credentialOf(x)
	return s.Auth.Identify(x.Request().Context(), digest, given)
}

// authorize refuses a request whose caller may not use its route. It reads no body. An unknown caller gets the same
// answer on every path that is not open, whether or not there is a route. Handlers look at the zones that a request
// names.
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

// Names of header fields with credentials, in the canonical form of net/http.
const (
	fieldAPIKey        = "X-Api-Key"
	fieldAuthorization = "Authorization"
	fieldAuthenticate  = "Www-Authenticate"
)

// challenge names the scheme of credentials. Basic is accepted and not named: a browser that gets it asks for a
// password, and then sends it along with requests that other sites make it send.
const challenge = `Bearer realm="velocityd"`

// credentialOf returns the digest of the request's credential. given is false if it has none that could be one of ours.
// The Authorization that a gateway sends is the end user's in any case.
func credentialOf(x *exchange) (digest access.Digest, given bool) {
	r := x.Request()
	authorization := r.Header[fieldAuthorization]
	if isOfGateways(x.Path()) {
		authorization = nil
	}
	return admission.CredentialOf(authorization, r.Header[fieldAPIKey], r.TLS)
}

// pathCaller is the path of showCaller.
const pathCaller = "/v1/caller"

// showCaller answers GET /v1/caller with the caller as the service knows it.
func (s *server) showCaller(x *exchange) error {
	principal, err := s.principal(x)
	if err != nil {
		return err
	}
	who := access.Identity{IsOpen: s.Auth.IsOpen(), Principal: principal}
	if who.IsOpen {
		who.Scopes = []access.Scope{access.ScopeAdmin}
	} else {
		digest, _ := credentialOf(x)
		shown, known := s.Auth.Callers.Credential(digest)
		if !known {
			return access.ErrUnauthenticated // it has ended just now
		}
		who.ID, who.Kind, who.Caller, who.ExpiresAt = shown.ID, shown.Kind, shown.Caller(), shown.ExpiresAt
	}
	return x.respondJSON(http.StatusOK, api.MediaJSON, who)
}
