package gate_test

import (
	"errors"
	"net/http"
	"testing"

	"velocityd/handlers/gate"
	"velocityd/service"
)

func TestABodyThatIsNotWholeIsRefused(t *testing.T) {
	t.Parallel()
	g := only(t, "buckets: [{zone: 1, key: {form: user}, optional: true}, {zone: 2, key: {client: address}}]")
	const body = "user=victo"
	for name, c := range map[string]struct {
		headers []string
		isWhole bool
	}{
		"no word of it":        {nil, true},
		"all of it":            {[]string{"X-Envoy-Auth-Partial-Body", "false", "Content-Length", "10"}, true},
		"a part":               {[]string{"X-Envoy-Auth-Partial-Body", "true"}, false},
		"a part, otherwise":    {[]string{"X-Envoy-Auth-Partial-Body", "True"}, false},
		"a part, and not":      {[]string{"X-Envoy-Auth-Partial-Body", "false", "X-Envoy-Auth-Partial-Body", "true"}, false},
		"a part, by CGI":       {[]string{"X_Envoy_Auth_Partial_Body", "true"}, false},
		"a longer body":        {[]string{"Content-Length", "11"}, false},
		"a shorter body":       {[]string{"Content-Length", "9"}, false},
		"two lengths":          {[]string{"Content-Length", "10", "Content-Length", "11"}, false},
		"a coding":             {[]string{"Content-Encoding", "gzip"}, false},
		"a coding, by CGI":     {[]string{"Content_Encoding", "gzip"}, false},
		"another type, by CGI": {[]string{"Content_Type", "application/json"}, false},
		"a query elsewhere":    {[]string{"X-Original-Uri", "/login?user=other"}, false},
	} {
		headers := append([]string{"Content-Type", ofForm}, c.headers...)
		asked, err := g.Question(request(t, http.MethodPost, "/", body, headers...), false)
		if (err == nil) != c.isWhole || err != nil && !errors.Is(err, service.ErrInvalid) {
			t.Errorf("%s: %+v, %v", name, asked, err)
		}
	}
}

func TestAHeaderThatDecidesHasOneSpelling(t *testing.T) {
	t.Parallel()
	for key, c := range map[string]struct{ name, value string }{
		"header: X-User": {"X-User", "alice"}, "header: X_User": {"X_User", "alice"},
		"basic: user":     {"Authorization", "Basic YTpi"},
		"client: address": {"X-Forwarded-For", "192.0.2.1"}, "header: X-A-B": {"X-A-B", "alice"},
	} {
		g := only(t, "buckets: [{zone: 1, key: {"+key+"}, optional: true}, {zone: 2, key: {query: z}, optional: true}]")
		if _, err := g.Question(request(t, http.MethodGet, "/?z=a", "", c.name, c.value), false); err != nil {
			t.Errorf("%s alone: %v", key, err)
		}
		for _, other := range map[string][]string{
			"X-User": {"X_User", "x.user", "X_USER"}, "X_User": {"X-User", "X.User"}, "Authorization": nil,
			"X-Forwarded-For": {"X_Forwarded_For", "X.Forwarded-For"}, "X-A-B": {"X_A-B", "X-A_B", "X_A_B"},
		}[c.name] {
			for _, headers := range [][]string{{c.name, c.value, other, "victim"}, {other, "victim"}} {
				if asked, err := g.Question(request(t, http.MethodGet, "/?z=a", "", headers...), false); !errors.Is(
					err, service.ErrInvalid) {
					t.Errorf("%s with %q: %+v, %v", key, headers, asked, err)
				}
			}
		}
	}
	for _, headers := range [][]string{
		{"X-Velocity-Zone", "1", "X-Velocity-Key", "a", "X_Velocity_Key", "b"},
		{"X-Velocity-Zone", "1", "X-Velocity-Key", "a", "X_Velocity-Zone", "2"},
	} {
		if asked, err := gate.Short(request(t, http.MethodGet, "/", "", headers...)); !errors.Is(err, service.ErrInvalid) {
			t.Errorf("%q: %+v, %v", headers, asked, err)
		}
	}
}
