package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"velocityd/doors/proxy"
	"velocityd/service"
)

func TestAnswerPassesUnchangedAndIsReportedByRules(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		want service.Outcome
	}{
		// The failure stands behind the beginning.
		"a success":         {"welcome" + strings.Repeat("x", 64<<10) + "wrong", service.OutcomeSuccess},
		"a failure":         {"wrong", service.OutcomeFailure},
		"nothing of either": {"hello", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.body) })
			f := stand(t, app, func(o *proxy.Options) {
				o.Rules = proxy.Rules{
					Success: all(t, proxy.ParseRule, "body:welcome"),
					Failure: all(t, proxy.ParseRule, "body:wrong"),
				}
			})
			if r := f.try(t, "alice", "x"); r.status != http.StatusOK || r.body != c.body {
				t.Errorf("the client got %d with %d bytes, and not what the application answered", r.status, len(r.body))
			}
			if c.want == "" {
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

func TestExaminedAnswerHasNoCoding(t *testing.T) {
	t.Parallel()
	app := &application{}
	f := stand(t, app, func(o *proxy.Options) { o.Rules.Success = all(t, proxy.ParseRule, "body:application") })
	if r := f.try(t, "alice", "right", "Accept-Encoding", "gzip"); r.status != http.StatusOK ||
		app.heads[0]["Accept-Encoding"] != nil {
		t.Errorf("%d, and the application got %q", r.status, app.heads[0])
	}
}

func TestARuleThatSaysNothingIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", " ", "status", "status:", "status:20", "status:abc", "status:2000", "json:status",
		"json:", "Status:200", "header:x", "body:%", "!",
	} {
		if r, err := proxy.ParseRule(text); err == nil {
			t.Errorf("%q became %v", text, r)
		}
	}
}

// FuzzParseRule holds that a rule is refused or has conditions, and never panics on an answer.
func FuzzParseRule(f *testing.F) {
	for _, seed := range []string{
		"status:302", "!cookie:a location:/x", "json:/a~1b=c", "body:%20", "json:/0/0",
		"status:+xx",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rule, err := proxy.ParseRule(text)
		if err == nil && len(rule) != len(strings.Fields(text)) {
			t.Fatalf("%q became %d conditions", text, len(rule))
		}
	})
}
