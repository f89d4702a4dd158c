package handlers

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/handlers/admission"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/memory"
	"velocityd/tools/servicetest"
)

// guarded is a service whose callers need a credential.
type guarded struct {
	*running
	credentials *servicetest.Credentials
}

// guard serves zones 1 and 2, and has one txn of each, and one check in both.
func guard(t *testing.T, proxies ...netip.Prefix) guarded {
	t.Helper()
	return guardBy(t, func(o *Options) { o.Auth.TrustedProxies = proxies })
}

// guardBy is guard with options that change sets.
func guardBy(t *testing.T, change func(*Options)) guarded {
	t.Helper()
	var g guarded
	g.running = start(t, func(o *Options) {
		o.Auth, g.credentials = authOf(t, o.Reader.(*memory.Store))
		o.Registry = g.credentials
		change(o)
	})
	for id := range int64(2) {
		g.SetZone(t, service.Zone{ID: id + 1, Rate: 1000, Window: time.Hour})
	}
	for _, buckets := range [][]service.Bucket{
		{{ZoneID: 1, Key: "a"}},
		{{ZoneID: 2, Key: "a"}},
		{{ZoneID: 1, Key: "b"}, {ZoneID: 2, Key: "b"}},
	} {
		if _, err := g.CheckAll(t.Context(), service.Call{Checks: []service.Check{{Buckets: buckets}}}); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// authOf asks the callers of a store for credentials, of which it returns the register.
func authOf(t *testing.T, txns admission.TxnZones) (Auth, *servicetest.Credentials) {
	t.Helper()
	credentials := &servicetest.Credentials{}
	cache := access.NewCache(credentials, access.Options{})
	t.Cleanup(cache.Close)
	return Auth{Admission: admission.Admission{Callers: cache, Txns: txns}}, credentials
}

// as returns the header of a caller with a new token of these scopes, in these zones.
func (g guarded) as(name string, zones []int64, scopes ...access.Scope) []string {
	token := g.credentials.AddToken(access.Caller{Name: name, Scopes: scopes, Zones: zones})
	return []string{"Authorization", "Bearer " + token.Reveal()}
}

// calls is a request for every route that is not open, each good and in zone 1.
func calls() []struct{ method, path, body string } {
	return []struct{ method, path, body string }{
		{"POST", "/v1/check", `{"zone_id":1,"bucket_key":"a"}`},
		{"POST", "/v1/checks", `{"checks":[{"zone_id":1,"bucket_key":"a"}]}`},
		{"POST", "/json", `{"domain":"login","descriptors":[{"entries":[{"key":"zone_1","value":"a"}]}]}`},
		{"POST", "/v1/outcomes", `{"reports":[{"txn_id":1,"outcome":"success"}]}`},
		{"POST", "/v1/txns/1/outcome", `{"outcome":"success"}`},
		{"POST", "/v1/attempts/x/outcome", `{"outcome":"success"}`},
		{"GET", "/v1/attempts/x", ""},
		{"GET", "/v1/txns", ""},
		{"GET", "/v1/checks", ""},
		{"HEAD", "/v1/txns?format=csv", ""},
		{"HEAD", "/v1/txns/follow", ""},
		{"GET", "/v1/txns/follow?limit=1", ""}, // is refused, and so ends
		{"GET", "/v1/txns/1", ""},
		{"HEAD", "/v1/txns/1", ""},
		{"GET", "/v1/txns/1/explanation", ""},
		{"GET", "/v1/retention", ""},
		{"GET", "/v1/caller", ""},
		{"GET", "/metrics", ""},
		{"GET", "/v1/diagnosis", ""},
		{"GET", "/v1/audit", ""},
		{"GET", "/v1/tokens", ""},
		{"DELETE", "/v1/tokens/99", ""},
		{"GET", "/v1/events", ""},
		{"HEAD", "/v1/events/follow", ""},
		{"GET", "/v1/events/follow?limit=1", ""}, // is refused, and so ends
		{"POST", "/v1/webhooks", `{"url":"https://hooks.example.com/x"}`},
		{"GET", "/v1/webhooks", ""},
		{"GET", "/v1/webhooks/1/deliveries", ""},
		{"POST", "/v1/webhooks/1/resend", `{}`},
		{"DELETE", "/v1/webhooks/1", ""},
		{"GET", "/v1/zones", ""},
		{"GET", "/v1/zones/1", ""},
		{"GET", "/v1/zones/1/report", ""},
		{"PUT", "/v1/zones/1", `{"rate":1000,"window":60}`},
		{"GET", "/v1/zones/1/totals", ""},
		{"GET", "/v1/zones/1/buckets/a", ""},
		{"GET", "/v1/zones/1/buckets/a/totals", ""},
		{"POST", "/v1/zones/1/buckets/a/release", `{"reason":"x"}`},
		{"GET", "/v1/zones/1/locked", ""},
		{"GET", "/v1/zones/1/denied.txt", ""},
		{"POST", "/v1/zones/1/release", `{"bucket_keys":["a"],"reason":"x"}`},
		{"GET", "/v1/zones/1/overrides", ""},
		{"POST", "/v1/zones/1/overrides", `{"bucket_key":"a","action":"allow"}`},
		{"GET", "/v1/zones/1/overrides/1", ""},
		{"PUT", "/v1/zones/1/overrides/1", `{"bucket_key":"a","action":"deny"}`},
		{"DELETE", "/v1/zones/1/overrides/1", ""},
		{"DELETE", "/v1/zones/1", ""},
	}
}

// routed returns the path of a call as its route has it.
func routed(path string) string {
	return strings.NewReplacer("?format=csv", "", "?limit=1", "", "/txns/1", "/txns/:id", "/webhooks/1", "/webhooks/:id",
		"/tokens/99", "/tokens/:id", "/attempts/x", "/attempts/:id", "/zones/1", "/zones/:id", "/buckets/a",
		"/buckets/:key", "/overrides/1", "/overrides/:override_id").Replace(path)
}

func TestEveryRoutesNeedsMatchTheDescription(t *testing.T) {
	t.Parallel()
	d, called := described(t), map[string]bool{}
	for _, call := range calls() {
		called[call.method+" "+routed(call.path)] = true
	}
	s := newServer(withAll(Options{}))
	for _, route := range s.serve(s.routeCalls, s.routeRecords).echo.Routes() {
		if route.Method == http.MethodHead {
			continue
		}
		name := route.Method + " " + route.Path
		wanted, ok := s.needs[endpoint{route.Method, route.Path}]
		if !ok {
			t.Errorf("%s: no need is known of it", name)
		}
		method, isOfGateways := strings.ToLower(route.Method), route.Method == anyMethod
		if isOfGateways { // they have tests of their own credentials
			method = "get"
		} else if !wanted.isOpen && !called[name] {
			t.Errorf("%s is in no call of this test", name)
		}
		path := strings.NewReplacer(":id", "{id}", ":key", "{key}", ":override_id", "{override_id}", ":name", "{name}", "*",
			"{path}").
			Replace(route.Path)
		scopes, _ := d.part("paths", path, method, "x-scopes")
		if given, _ := scopes.([]any); fmt.Sprint(given) != fmt.Sprint(wanted.anyOf) {
			t.Errorf("%s needs %v, and is described to need %v", name, wanted.anyOf, given)
		}
		if security, _ := d.part("paths", path, method, "security"); (security != nil) != (wanted.isOpen || isOfGateways) {
			t.Errorf("%s: open: %t, and described: %v", name, wanted.isOpen, security)
		}
	}
}

func TestEveryRouteIsForItsScopesAlone(t *testing.T) {
	t.Parallel()
	g := guard(t)
	routes := newServer(withAll(Options{}))
	routes.serve(routes.routeCalls, routes.routeRecords)
	headersOf := map[access.Scope][]string{} // all made at once: a new token is not known at once
	for _, scope := range access.Scopes() {
		headersOf[scope] = append(g.as("all-in-1", []int64{1}, scope), "Content-Type", "application/json")
	}
	for scope, headers := range headersOf {
		for _, call := range calls() {
			got := g.ask(t, call.method, call.path, call.body, headers...)
			route := routes.needs[endpoint{call.method, routed(call.path)}]
			wanted := route.anyOf
			if route.allZones { // and the credential is bound to one
				got.refused(t, http.StatusForbidden, "missing_scope")
				continue
			}
			if scope == access.ScopeAdmin || len(wanted) == 0 || slices.Contains(wanted, scope) {
				if got.status == http.StatusForbidden || got.status == http.StatusUnauthorized {
					t.Errorf("%s: %s %s: %d %s, want it to be answered", scope, call.method, call.path, got.status, got.body)
				}
				g.SetZone(t, service.Zone{ID: 1, Rate: 1000, Window: time.Hour}) // the last call deletes it
				continue
			}
			if call.method == http.MethodHead {
				if got.status != http.StatusForbidden || got.body != "" {
					t.Errorf("%s: HEAD: %d", scope, got.status)
				}
				continue
			}
			p := got.refused(t, http.StatusForbidden, "missing_scope")
			for _, missing := range wanted {
				if !strings.Contains(p.Detail, string(missing)) {
					t.Errorf("%s: %s %s: %q does not name %s", scope, call.method, call.path, p.Detail, missing)
				}
			}
		}
	}
	if strings.Contains(g.log.String(), `"level":"ERROR"`) {
		t.Error("a missing scope is logged as a fault of the service")
	}
}

func TestAnyCallerLearnsThatNothingIsRouted(t *testing.T) {
	t.Parallel()
	g := guard(t)
	headers := g.as("reporter", []int64{2}, access.ScopeReport)
	g.ask(t, "GET", "/v2/nothing", "", headers...).refused(t, http.StatusNotFound, "route_not_found")
	g.ask(t, "PATCH", "/v1/zones/1", "", headers...).refused(t, http.StatusMethodNotAllowed, "method_not_allowed")
}

func TestWhatIsOpenNeedsNobody(t *testing.T) {
	t.Parallel()
	g := guard(t)
	g.credentials.Fail(service.ErrBusy)
	for _, path := range []string{"/", "/livez", "/readyz", "/healthcheck", "/openapi.yaml"} {
		for _, headers := range [][]string{nil, {"Authorization", "Bearer x"}, {"X-API-Key", access.NewToken().Reveal()}} {
			for _, method := range []string{"GET", "HEAD"} {
				g.ask(t, method, path, "", headers...).answered(t, http.StatusOK)
			}
		}
	}
	if reads, _ := g.credentials.Calls(); reads != 0 {
		t.Error("credentials were looked up")
	}
}

func TestABoundCredentialStaysInItsZones(t *testing.T) {
	t.Parallel()
	g := guard(t)
	headers := g.as("shop", []int64{1, 3}, access.ScopeAdmin)
	ask := func(method, path, body string) reply {
		t.Helper()
		return g.ask(t, method, path, body, append(headers, "Content-Type", "application/json")...)
	}
	for _, call := range calls() {
		if !strings.Contains(call.path, "/zones/1") {
			continue
		}
		for _, zone := range []string{"2", "4"} { // one exists
			p := ask(call.method, strings.Replace(call.path, "/zones/1", "/zones/"+zone, 1), call.body).refused(
				t, http.StatusForbidden,
				"missing_scope")
			if !strings.Contains(p.Detail, "zone "+zone) || !strings.Contains(p.Detail, "shop") {
				t.Errorf("%s: %q does not name zone %s", call.path, p.Detail, zone)
			}
		}
	}
	if got := ask("GET", "/v1/zones", ""); strings.Contains(got.body, `"id":2`) || !strings.Contains(got.body, `"id":1`) {
		t.Errorf("zones: %s", got.body)
	}
	if got := ask("PUT", "/v1/zones/3", `{"rate":5,"window":60}`); got.status != http.StatusCreated {
		t.Errorf("make a zone that it is bound to: %d %s", got.status, got.body)
	}
	p := ask("POST", "/v1/check", `{"zone_id":2,"bucket_key":"a"}`).refused(t, http.StatusForbidden, "missing_scope")
	if p.Pointer != "/zone_id" || !strings.Contains(p.Detail, "check in zone 2") {
		t.Errorf("a check in another zone: %+v", p)
	}
	p = ask("POST", "/v1/check", `{"buckets":[{"zone_id":1,"bucket_key":"x"},{"zone_id":2,"bucket_key":"x"}]}`).refused(t,
		http.StatusForbidden, "missing_scope")
	if p.Pointer != "/buckets/1/zone_id" {
		t.Errorf("a check in two zones: %+v", p)
	}
	if n := len(g.Txns(service.Bucket{ZoneID: 1, Key: "x"})) + len(g.Txns(service.Bucket{ZoneID: 2, Key: "x"})); n != 0 {
		t.Errorf("%d txns of a check that was refused", n)
	}
	got := ask("POST", "/v1/checks",
		`{"checks":[{"zone_id":2,"bucket_key":"y"},{"zone_id":1,"bucket_key":"y"},{"zone_id":1}]}`)
	if got.status != http.StatusOK || !strings.Contains(got.body, `"pointer":"/checks/0/zone_id"`) ||
		!strings.Contains(got.body, "missing_scope") ||
		len(g.Txns(service.Bucket{ZoneID: 1, Key: "y"})) != 1 || len(g.Txns(service.Bucket{ZoneID: 2, Key: "y"})) != 0 {
		t.Errorf("three checks, one in another zone: %d %s", got.status, got.body)
	}
}

func TestExplanationHidesAuthorAndReasonOfOverride(t *testing.T) {
	t.Parallel()
	g := guard(t)
	deny := service.Override{ZoneID: 1, Key: "eve", Action: service.OverrideDeny, Reason: "case of Bob", CreatedBy: "ann"}
	if _, err := g.AddOverride(t.Context(), deny, "ann"); err != nil {
		t.Fatal(err)
	}
	decided, err := g.CheckAll(
		t.Context(), service.Call{Checks: []service.Check{{Buckets: []service.Bucket{{ZoneID: 1, Key: "eve"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	id := fmt.Sprint(decided[0].TxnID())
	reader := g.as("reader", []int64{1}, access.ScopeHistory)
	editor := g.as("editor", []int64{1}, access.ScopeHistory, access.ScopeOverrides)
	for whose, headers := range map[string][]string{"": reader, "ann": editor} {
		got := g.ask(t, "GET", "/v1/txns/"+id+"/explanation", "", headers...)
		if got.status != http.StatusOK || !strings.Contains(got.body, `"action":"deny"`) ||
			!strings.Contains(got.body, `"created_by":"`+whose+`"`) ||
			strings.Contains(got.body, "case of Bob") != (whose != "") {
			t.Errorf("wants %q: %d %s", whose, got.status, got.body)
		}
	}
}

func TestTxnsOfOtherZonesDoNotExist(t *testing.T) {
	t.Parallel()
	g := guard(t)
	headers := append(g.as("shop", []int64{1}, access.ScopeHistory, access.ScopeReport), "Content-Type",
		"application/json")
	owner := append(g.as("owner", nil, access.ScopeAdmin), "Content-Type", "application/json")
	desk := g.as("desk", []int64{1}, access.ScopePeek)
	others := []string{"2", "3", "4"} // in zone 2; of a check in both zones, as two txns
	sameBut := func(id string, got, absent reply) {
		t.Helper()
		if got.status != http.StatusNotFound || strings.Replace(got.body, "txn "+id, "txn 99", 1) != absent.body {
			t.Errorf("txn %s: %d %s, want %s", id, got.status, got.body, absent.body)
		}
	}
	absent := g.ask(t, "GET", "/v1/txns/99", "", headers...)
	for _, id := range others {
		sameBut(id, g.ask(t, "GET", "/v1/txns/"+id, "", headers...), absent)
		sameBut(id, g.ask(t, "GET", "/v1/txns/"+id+"/explanation", "", headers...), absent)
		g.ask(t, "HEAD", "/v1/txns/"+id, "", headers...).answered(t, http.StatusNotFound)
	}
	g.ask(t, "GET", "/v1/txns/1", "", headers...).answered(t, http.StatusOK)
	absent = g.ask(t, "POST", "/v1/txns/99/outcome", `{"outcome":"success"}`, headers...)
	for _, id := range others {
		sameBut(id, g.ask(t, "POST", "/v1/txns/"+id+"/outcome", `{"outcome":"success"}`, headers...), absent)
	}
	got := g.ask(t, "POST", "/v1/outcomes",
		`{"reports":[{"txn_id":2,"outcome":"success"},{"txn_id":3,"outcome":"success"},{"txn_id":1,"outcome":"failure"},{"txn_id":99,"outcome":"success"}]}`, headers...)
	if strings.Count(got.body, "not_found") != 3 || !strings.Contains(got.body, `{"txn_id":"1","outcome":"failure"}`) {
		t.Errorf("reports: %s", got.body)
	}
	const secret = "5b0c0b3e-6f2f-4a53-9b8e-1f7f4f0a7a11"
	g.ask(t, "POST", "/v1/check", `{"attempt_id":"`+secret+
		`","buckets":[{"zone_id":1,"bucket_key":"both"},{"zone_id":2,"bucket_key":"both"}]}`, owner...)
	if got := g.ask(t, "GET", "/v1/zones/1/buckets/both", "", owner...); !strings.Contains(got.body, secret) {
		t.Errorf("a peek: %s", got.body)
	}
	got = g.ask(t, "GET", "/v1/zones/1/buckets/both", "", desk...)
	if got.status != http.StatusOK || strings.Contains(got.body, secret) {
		t.Errorf("a peek by a caller bound to one zone of the check: %d %s", got.status, got.body)
	}
	for _, id := range []uint64{2, 3, 4} {
		if txn, err := g.Txn(t.Context(), id); err != nil || txn.Outcome != "" {
			t.Errorf("txn %d has outcome %q (%v), which a caller of another zone has reported", id, txn.Outcome, err)
		}
	}
}
