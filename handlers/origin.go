package handlers

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"velocityd/api"
	"velocityd/handlers/problem"
	"velocityd/handlers/wire"
	"velocityd/service"
)

// origins refuses requests that a web page of another origin can make the browser of its reader send. Such a page
// reaches all that the browser reaches, a service on loopback included.
type origins struct {
	pages *http.CrossOriginProtection
	hosts map[string]bool // in small letters; nil allows all
}

func newOrigins(allowedHosts []string) origins {
	o := origins{pages: http.NewCrossOriginProtection()}
	if allowedHosts != nil {
		o.hosts = make(map[string]bool, len(allowedHosts))
	}
	for _, host := range allowedHosts {
		o.hosts[strings.ToLower(strings.TrimSuffix(host, "."))] = true
	}
	return o
}

// check returns an error of kind api.ErrForeignOrigin for a request that changes something and that the page of another
// origin has made, by Sec-Fetch-Site and Origin; and for a request without TLS whose Host is not a name of this
// service: an attacker may have made a name resolve to this address, so that the attacker's page is of the same origin.
// With TLS, the browser holds the name against the certificate.
func (o *origins) check(r *http.Request) error {
	if ofBrowser(r) && o.pages.Check(r) != nil {
		return problem.New(api.ErrForeignOrigin,
			"A web page of another origin must not ask this: "+
				"Sec-Fetch-Site or Origin of the request says that one does.")
	}
	return o.checkHost(r)
}

// checkGate is check for a request of a gateway, which passes on the headers of an end user's browser: that request may
// well come from the page of another origin. So a request of a browser must have a header that no page can send unless
// it asks before (a preflight, which is not answered). If callers need no credential, the Host is looked at, too: a
// page of a foreign name that leads here could send all headers.
func (o *origins) checkGate(r *http.Request, isOpen bool) error {
	isMarked := func(name string) bool { return len(r.Header[name]) > 0 }
	if ofBrowser(r) && !slices.ContainsFunc(gatewayFields(), isMarked) {
		return problem.New(api.ErrForeignOrigin,
			"A browser may have sent this request by itself: it has Sec-Fetch-Site or Origin, and none of the headers "+
				"that only a gateway adds. Let the gateway add one of them: "+strings.Join(gatewayFields(), ", ")+".")
	}
	if !isOpen {
		return nil
	}
	return o.checkHost(r)
}

// gatewayFields are headers of which a gateway adds at least one.
func gatewayFields() []string {
	return []string{fieldAPIKey, "X-Velocity-Zone", fieldForwardedFor, fieldForwarded}
}

// ofBrowser reports whether a request, or the one that it was made from, has a header that browsers add.
func ofBrowser(r *http.Request) bool {
	return len(r.Header["Sec-Fetch-Site"]) > 0 || len(r.Header["Origin"]) > 0
}

// checkHost returns an error of kind api.ErrForeignOrigin for a request without TLS whose Host is not a name of
// this service.
func (o *origins) checkHost(r *http.Request) error {
	if r.TLS != nil || o.hosts == nil || o.allows(r.Host) {
		return nil
	}
	return problem.New(api.ErrForeignOrigin,
		"The Host of the request is not a name of this service. Use its address, or have the name added to "+
			"--allowed-hosts where the service is started.")
}

// allows reports whether host, with or without a port, can be trusted to be a name of this service. An address can, and
// a name without a dot, which only the network's administrators can define. So can no host at all, because browsers
// always send one.
func (o *origins) allows(host string) bool {
	if host == "" {
		return true
	}
	name := host
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		name = host[:colon]
	}
	if c := host[0]; c == '[' || c >= '0' && c <= '9' { // saves parsing names, which fails
		_, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"))
		if err == nil {
			return true
		}
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	return !strings.Contains(name, ".") || strings.HasSuffix(name, ".localhost") || o.hosts[name]
}

// admit refuses a request that comes from a web page of another origin, on a connection too many, or from a caller that
// may not use the route. Requests that show and change nothing are admitted in any case: a service at its caps is
// alive. A mounted handler admits its own callers.
func (s *server) admit(x *exchange) error {
	connection := wire.ConnectionOf(x.Request())
	if connection.IsExcess {
		x.set(fieldConnection, "close")
	}
	var err error
	switch path := x.Path(); {
	case isAlwaysAnswered(path):
		return s.authorize(x)
	case s.mounted[path]:
		return nil
	case isOfGateways(path):
		err = s.origins.checkGate(x.Request(), s.Auth.IsOpen())
	default:
		err = s.origins.check(x.Request())
	}
	switch {
	case err != nil:
		return err
	case connection.IsExcess:
		return service.NewBusyError(service.BusyRetryAfter, "too many connections")
	}
	return s.authorize(x)
}

// isAlwaysAnswered reports whether a route is one of those that a service at its caps answers, too.
func isAlwaysAnswered(route string) bool {
	switch route {
	case pathWelcome, pathLive, pathReady, pathHealthcheck, pathDescription:
		return true
	}
	return false
}
