package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"velocityd/proxy"
	"velocityd/service"
)

func TestAnAnswerTellsTheOutcomeByTheRules(t *testing.T) {
	t.Parallel()
	const success, failure, unknown = service.OutcomeSuccess, service.OutcomeFailure, service.Outcome("")
	long := strings.Repeat("x", 64<<10)
	for name, c := range map[string]struct {
		success, failure string
		status           int
		header           http.Header
		body             string
		want             service.Outcome
	}{
		"a status":               {"status:302", "status:401", 302, nil, "", success},
		"another status":         {"status:302", "status:401", 401, nil, "", failure},
		"a status of no rule":    {"status:302", "status:401", 500, nil, "", unknown},
		"a class":                {"status:2xx", "status:4xx", 404, nil, "", failure},
		"both":                   {"status:200", "status:2xx", 200, nil, "", failure},
		"a place":                {"location:/home", "location:/login", 303, http.Header{"Location": {"https://app.example/home?x"}}, "", success},
		"another place":          {"status:303 !location:/login", "location:/login", 303, http.Header{"Location": {"/login?user=x"}}, "", failure},
		"a cookie":               {"cookie:session", "!cookie:session", 200, http.Header{"Set-Cookie": {"a=b", "session=x; Path=/"}}, "", success},
		"a cookie that is empty": {"cookie:session", "!cookie:session", 200, http.Header{"Set-Cookie": {"session=; Path=/"}}, "", failure},
		"a cookie that goes": {
			"cookie:session", "status:500", 200, http.Header{"Set-Cookie": {"session=deleted; Max-Age=0", "session=x; Expires=Thu, 01 Jan 1970 00:00:00 GMT"}}, "", unknown,
		},
		"a text":                   {"status:200 body:Welcome%20back", "body:wrong", 200, nil, "<p>Welcome back</p>", success},
		"another text":             {"status:200 body:Welcome", "body:wrong%2C", 200, nil, "wrong, sorry", failure},
		"a text beyond the begin":  {"status:200 !body:wrong", "body:wrong", 200, nil, long + "wrong", success},
		"a member":                 {"json:/status=OK", "json:/status=KO", 200, nil, `{"status":"OK"}`, success},
		"another member":           {"json:/status=OK", "json:/status=KO", 200, nil, `{"status":"KO"}`, failure},
		"a member that is there":   {"json:/a/0/token", "json:/error", 200, nil, `{"a":[{"token":"x"}]}`, success},
		"a member that is null":    {"json:/token", "json:/error", 200, nil, `{"token":null}`, unknown},
		"a truth":                  {"json:/ok=true", "json:/ok=false", 200, nil, `{"ok":false}`, failure},
		"a number":                 {"json:/code=0", "json:/code=1", 200, nil, `{"code":0}`, success},
		"JSON with more behind it": {"json:/ok=true", "status:500", 200, nil, `{"ok":true}{}`, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for name, values := range c.header {
					w.Header()[name] = values
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			f := stand(t, app, func(o *proxy.Options) {
				o.Rules = proxy.Rules{Success: rules(t, c.success), Failure: rules(t, c.failure)}
			})
			if r := f.try(t, "alice", "x"); r.status != c.status || r.body != c.body {
				t.Errorf("the client got %d with %d bytes, and not what the application answered", r.status, len(r.body))
			}
			if c.want == unknown {
				f.try(t, "alice", "x")
				if len(f.service.reported) > 0 {
					t.Errorf("reported %v, want nothing", f.service.next(t))
				}
				return
			}
			if got := f.service.next(t); got != c.want {
				t.Errorf("reported %s, want %s", got, c.want)
			}
		})
	}
}

func TestAnAnswerThatIsLookedAtHasNoCoding(t *testing.T) {
	t.Parallel()
	app := &application{}
	f := stand(t, app, func(o *proxy.Options) { o.Rules.Success = rules(t, "body:application") })
	if r := f.try(t, "alice", "right", "Accept-Encoding", "gzip"); r.status != http.StatusOK || app.heads[0]["Accept-Encoding"] != nil {
		t.Errorf("%d, and the application got %q", r.status, app.heads[0])
	}
}

func TestARuleThatSaysNothingIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " ", "status", "status:", "status:20", "status:abc", "status:2000", "json:status", "json:", "Status:200", "header:x", "body:%", "!"} {
		if r, err := proxy.ParseRule(text); err == nil {
			t.Errorf("%q became %v", text, r)
		}
	}
}

// FuzzParseRule holds that a rule is refused or has conditions, and never panics on an answer.
func FuzzParseRule(f *testing.F) {
	for _, seed := range []string{"status:302", "!cookie:a location:/x", "json:/a~1b=c", "body:%20", "json:/0/0", "status:+xx"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rule, err := proxy.ParseRule(text)
		if err == nil && len(rule) != len(strings.Fields(text)) {
			t.Fatalf("%q became %d conditions", text, len(rule))
		}
	})
}
