package handlers

import (
	"net/http"
	"strings"
	"testing"

	"velocityd/handlers/wire"
	"velocityd/tools/handlerstest"
)

// askAs asks with a Host and headers of a test's own.
func (r *running) askAs(t *testing.T, method, path, host string, header map[string]string) reply {
	t.Helper()
	body, headers := "", []string{"Content-Type", "application/json", "Host", host}
	if method == http.MethodPost {
		body = bucketJSON(1, "alice")
	}
	for name, value := range header {
		headers = append(headers, name, value)
	}
	return r.ask(t, method, path, body, headers...)
}

func TestRequestsOfForeignWebPagesAreRefused(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	own := strings.TrimPrefix(r.url, "http://")
	for name, c := range map[string]struct {
		header  map[string]string
		refused bool
	}{
		"no browser": {nil, false},
		"cross-site": {
			map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
			true,
		},
		"same-site":                 {map[string]string{"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:1"}, true},
		"same-origin":               {map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "http://" + own}, false},
		"typed in":                  {map[string]string{"Sec-Fetch-Site": "none"}, false},
		"an old browser, foreign":   {map[string]string{"Origin": "https://evil.example"}, true},
		"an old browser, sandboxed": {map[string]string{"Origin": "null"}, true},
		"an old browser, own":       {map[string]string{"Origin": "http://" + own}, false},
	} {
		got := r.askAs(t, http.MethodPost, "/v1/check", "", c.header)
		if !c.refused {
			if got.status != http.StatusOK {
				t.Errorf("%s: %d %s", name, got.status, got.body)
			}
			continue
		}
		got.refused(t, http.StatusForbidden, "foreign_origin")
		if line, _ := r.log.lastRequest(t); line["level"] != "INFO" || line["code"] != "foreign_origin" {
			t.Errorf("%s: logged %v", name, line)
		}
		for _, change := range changes() {
			if change.method != http.MethodPost {
				r.askAs(t, change.method, change.path, "", c.header).refused(t, http.StatusForbidden, "foreign_origin")
			}
		}
		// Its page cannot read the answers of these.
		if got := r.askAs(t, http.MethodGet, "/v1/zones", "", c.header); got.status != http.StatusOK ||
			got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: GET: %d %v", name, got.status, got.header)
		}
	}
}

func TestForeignNamesOfThisServiceAreRefused(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *Options) { o.AllowedHosts = []string{"Velocityd.Example.org."} })
	r.zones(t)
	for host, refused := range map[string]bool{
		"": false, "127.0.0.1": false, "10.1.2.3:80": false, "[::1]": false, "[fe80::1]:8080": false, "localhost": false,
		"LOCALHOST:8080": false, "localhost.": false, "app.localhost:1": false, "velocityd": false, "velocityd:8080": false,
		"velocityd.example.org": false, "VELOCITYD.example.org.:443": false,
		"evil.example": true, "evil.example:8080": true, "127.0.0.1.evil.example": true, "localhost.evil.example": true,
		"velocityd.example.org.evil.example": true, "notlocalhost.example": true, "1.2.3": true, "0x7f.1": true,
		"x.velocityd.example.org": true,
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			path := map[string]string{http.MethodGet: "/v1/zones", http.MethodPost: "/v1/check"}[method]
			got := r.askAs(t, method, path, host, map[string]string{"Origin": "http://" + host, "Sec-Fetch-Site": "same-origin"})
			if refused {
				got.refused(t, http.StatusForbidden, "foreign_origin")
			} else if got.status != http.StatusOK {
				t.Errorf("%s %q: %d %s", method, host, got.status, got.body)
			}
		}
		for _, harmless := range []string{"/", "/livez", "/readyz", "/openapi.yaml"} {
			r.askAs(t, http.MethodGet, harmless, host, nil).answered(t, http.StatusOK)
		}
	}
	none := start(t, func(o *Options) { o.AllowedHosts = []string{} })
	none.askAs(t, http.MethodGet, "/v1/zones", "velocityd.example.org", nil).refused(t, http.StatusForbidden,
		"foreign_origin")
	open := start(t, nil)
	open.askAs(t, http.MethodGet, "/v1/zones", "evil.example", nil).answered(t, http.StatusOK)
}

func TestEveryRequestOnConnectionHasItsHostChecked(t *testing.T) {
	t.Parallel()
	s := listenWith(t, nil, wire.Options{}, func(o *Options) { o.AllowedHosts = []string{} })
	l := handlerstest.Dial(t, s.address)
	for _, c := range []struct {
		host string
		want int
	}{
		{"a", 200},
		{"a", 200},
		{"evil.example", 403},
		{"a", 200},
		{"b", 200},
		{"evil.example", 403},
		{"evil.example", 403},
	} {
		l.MustAsk(t, strings.Replace(handlerstest.Asks("/v1/check", bucketJSON(1, "alice")), "Host: a\r\n",
			"Host: "+c.host+"\r\n", 1), c.want)
	}
}
