package proxy_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"velocityd/doors/proxy"
	"velocityd/handlers/gate"
	"velocityd/service"
)

func TestUserAtLimitIsBlockedOthersGoOn(t *testing.T) {
	t.Parallel()
	app := &application{}
	f := stand(t, app)
	for range userRate {
		if r := f.try(t, "Alice", "wrong"); r.status != http.StatusUnauthorized || r.body != "the application" {
			t.Fatalf("a guess within the limit: %d %q", r.status, r.body)
		}
	}
	r := f.try(t, "alice", "right", "Accept", "text/html,*/*;q=0.8")
	wait, err := strconv.Atoi(r.header.Get("Retry-After"))
	if r.status != http.StatusTooManyRequests || err != nil || wait < 1 ||
		!strings.Contains(r.body, "in "+strconv.Itoa(wait)+"\nseconds") {
		t.Errorf("a guess beyond the limit: %d, Retry-After %q, %s", r.status, r.header.Get("Retry-After"), r.body)
	}
	if got := r.header.Get("Content-Type"); got != "text/html; charset=utf-8" ||
		r.header.Get("Cache-Control") != "no-store" {
		t.Errorf("a browser gets %s", got)
	}
	if n := len(app.seen()); n != userRate {
		t.Errorf("the application has seen %d logins, want %d", n, userRate)
	}
	if r := f.try(t, "bob", "right"); r.status != http.StatusOK {
		t.Errorf("another user: %d", r.status)
	}
	if text := f.awaitLog(t, `"verdict":"blocked"`); strings.Contains(strings.ToLower(text), "alice") ||
		strings.Contains(text, "127.0.0.1") {
		t.Errorf("the log names a key:\n%s", text)
	}
}

func TestAProgramIsBlockedByJSON(t *testing.T) {
	t.Parallel()
	f := stand(t, &application{}, func(o *proxy.Options) { o.Users = []gate.Source{place(t, gate.JSON, "/user")} })
	for range userRate {
		f.send(t, http.MethodPost, "/login", `{"user":"alice"}`, "Content-Type", "application/json")
	}
	r := f.send(t, http.MethodPost, "/login", `{"user":"alice"}`, "Content-Type", "application/json")
	var said struct {
		Status     int
		RetryAfter int `json:"retry_after"`
	}
	if err := json.Unmarshal([]byte(r.body), &said); err != nil || said.Status != http.StatusTooManyRequests ||
		said.RetryAfter < 1 ||
		r.header.Get("Content-Type") != "application/json" || r.header.Get("Retry-After") != strconv.Itoa(said.RetryAfter) {
		t.Errorf("%d %s (%v)", r.status, r.body, err)
	}
}

func TestTheOperatorsPagesAreTriedAndShown(t *testing.T) {
	t.Parallel()
	f := stand(t, &application{}, func(o *proxy.Options) {
		var err error
		if o.Pages, err = proxy.ParsePages("<b title='{{.RetryAfter}}'>{{.Status}}</b>", `{"status":"KO"}`); err != nil {
			t.Fatal(err)
		}
	})
	for range userRate {
		f.try(t, "alice", "wrong")
	}
	if r := f.try(t, "alice", "wrong"); !strings.HasPrefix(r.body, "<b title='") ||
		!strings.HasSuffix(r.body, ">429</b>") {
		t.Errorf("HTML: %s", r.body)
	}
	if r := f.try(t, "alice", "wrong", "Accept", "application/json"); r.body != `{"status":"KO"}` {
		t.Errorf("JSON: %s", r.body)
	}
	for _, texts := range [][2]string{
		{"{{.Nothing}}", ""},
		{"{{", ""},
		{"", "{"},
		{"", `{"x": {{.User}}}`},
		{"", "{{if eq .Status 429}}1{{end}}"},
	} {
		if _, err := proxy.ParsePages(texts[0], texts[1]); err == nil {
			t.Errorf("%q makes pages", texts)
		}
	}
}

func TestTheApplicationGetsTheVeryBody(t *testing.T) {
	t.Parallel()
	app := &application{}
	f := stand(t, app)
	const body = "password=right&user=%61lice&x=%C3%A9+"
	if r := f.send(t, http.MethodPost, "/login?a=%41", body, "Content-Type", ofForm, "Expect", "100-continue",
		"Accept-Encoding", "gzip"); r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if got := app.seen()[0]; got != body {
		t.Errorf("the application got %q", got)
	}
	if head := app.heads[0]; head["Expect"] != nil || head.Get("Accept-Encoding") != "gzip" ||
		head.Get("Content-Length") != strconv.Itoa(len(body)) {
		t.Errorf("the application got the head %q", head)
	}
}

func TestALoginThatProgramsReadDifferentlyIsRefused(t *testing.T) {
	t.Parallel()
	app := &application{}
	f := stand(t, app)
	form := func(body string, headers ...string) reply {
		return f.send(t, http.MethodPost, "/login", body, append([]string{"Content-Type", ofForm}, headers...)...)
	}
	for name, c := range map[string]struct {
		got  reply
		want int
	}{
		"no user":   {form("password=right"), http.StatusBadRequest},
		"two users": {form("user=a&user=b&password=right"), http.StatusBadRequest},
		"a user in the query": {
			f.send(t, http.MethodPost, "/login?user=b", "user=a&password=right", "Content-Type", ofForm),
			http.StatusBadRequest,
		},
		"gzip":                {form("user=a", "Content-Encoding", "gzip"), http.StatusUnsupportedMediaType},
		"a field for one hop": {form("user=a", "Connection", "close, Content-Type"), http.StatusBadRequest},
		"too long a body":     {form("user=a&x=" + strings.Repeat("x", 1<<10)), http.StatusRequestEntityTooLarge},
		"too long a user":     {form("user=" + strings.Repeat("x", 300)), http.StatusBadRequest},
	} {
		if c.got.status != c.want {
			t.Errorf("%s: %d %s, want %d", name, c.got.status, c.got.body, c.want)
		}
	}
	if n := len(app.seen()); n > 0 {
		t.Errorf("the application has seen %d of them: %q", n, app.seen())
	}
	for _, told := range []string{
		"given several times", `"code":"invalid_request"`, `"code":"unsupported_media_type"`,
		`"code":"payload_too_large"`,
	} {
		f.awaitLog(t, told)
	}
}

// TestABodyOfTwoLengthsIsOneRequest sends a body that one program would end elsewhere than another.
func TestABodyOfTwoLengthsIsOneRequest(t *testing.T) {
	t.Parallel()
	app := &application{}
	f := stand(t, app)
	text, _ := io.ReadAll(f.raw(t, "POST /login HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: "+ofForm+
		"\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n5\r\nuser=\r\n10\r\na&password=right\r\n0\r\n\r\n"))
	if got := app.seen(); len(got) != 1 || got[0] != "user=a&password=right" ||
		strings.Count(string(text), "HTTP/1.1 ") != 1 {
		t.Errorf("the application has seen %q, the client got\n%s", got, text)
	}
}

func TestLoginWithoutUserMayCountForAddress(t *testing.T) {
	t.Parallel()
	f := stand(t, &application{}, func(o *proxy.Options) { o.AnyUser = true })
	if r := f.send(t, http.MethodPost, "/login", "otp=right", "Content-Type", ofForm); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	if n := len(f.service.Txns(service.Bucket{ZoneID: addressZone, Key: "127.0.0.1"})); n != 1 {
		t.Errorf("%d attempts of the address, want 1", n)
	}
	if r := f.send(t, http.MethodPost, "/login", "user=a&user=b", "Content-Type",
		ofForm); r.status != http.StatusBadRequest {
		t.Errorf("two users: %d", r.status)
	}
}

func TestBasicLoginIgnoresRequestsWithoutBasic(t *testing.T) {
	t.Parallel()
	f := stand(t, &application{}, func(o *proxy.Options) {
		o.Logins, o.Users = all(t, proxy.ParseLogin, "* /api/**"), []gate.Source{place(t, gate.Basic, "user")}
	})
	for range addressRate + 1 {
		if r := f.send(t, http.MethodGet, "/api/x", ""); r.status != http.StatusUnauthorized {
			t.Fatalf("without credentials: %d", r.status)
		}
	}
	for _, value := range []string{"Basic\tYWxpY2U6eA==", "basic", "Basic x", "Basicx YWxpY2U6eA=="} {
		if r := f.send(t, http.MethodGet, "/api/x", "", "Authorization", value); r.status != http.StatusBadRequest {
			t.Errorf("%q: %d, want 400", value, r.status)
		}
	}
	for range userRate {
		f.send(t, http.MethodGet, "/api/x", "", "Authorization", "bAsIc YWxpY2U6eA==")
	}
	if r := f.send(t, http.MethodGet, "/api/y", "", "Authorization",
		"Basic YWxpY2U6eA=="); r.status != http.StatusTooManyRequests {
		t.Errorf("beyond the limit: %d", r.status)
	}
}

// policy answers as a client with a fail policy whose service is away.
type policy bool

func (p policy) Check(context.Context, service.Check) (service.Decision, error) {
	return service.Decision{Degraded: true, Blocked: !bool(p), Verdicts: []service.Verdict{{
		Blocked:    !bool(p),
		RetryAfter: service.Lasting(time.Second),
	}}}, nil
}

func (policy) Report(context.Context, service.Report) error {
	panic("nothing was recorded that could be reported")
}

func TestPolicyDecidesWithoutServiceAndReportsNothing(t *testing.T) {
	t.Parallel()
	allows := stand(t, &application{}, func(o *proxy.Options) { o.Service = policy(true) })
	if r := allows.try(t, "alice", "right"); r.status != http.StatusOK {
		t.Errorf("%d", r.status)
	}
	allows.awaitLog(t, `"verdict":"degraded"`)
	denies := stand(t, &application{}, func(o *proxy.Options) { o.Service = policy(false) })
	if r := denies.try(t, "alice", "right"); r.status != http.StatusServiceUnavailable ||
		r.header.Get("Retry-After") != "1" ||
		strings.Contains(r.body, "Too many") {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestASlowReportDelaysNoAnswer(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	f := stand(t, &application{}, func(o *proxy.Options) {
		o.Service.(*direct).held = held //nolint:forcetypeassert // newOptions has made it
	})
	if r := f.try(t, "alice", "right"); r.status != http.StatusOK {
		t.Errorf("%d", r.status)
	}
	close(held)
	if got := f.service.next(t); got != service.OutcomeSuccess {
		t.Errorf("reported %s", got)
	}
}

// TestOutcomeSurvivesDepartedClient has a client leave while the application thinks, and another one in the
// middle of the answer that tells. The application goes on when the proxy has noticed.
func TestOutcomeSurvivesDepartedClient(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]string{"before the answer": "", "in the answer": strings.Repeat("x", 1<<10)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked, noticed := make(chan struct{}), make(chan struct{})
			app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, begin)
				if begin != "" {
					_ = http.NewResponseController(w).Flush()
				}
				close(asked)
				<-noticed
				for range 500 {
					_, _ = io.WriteString(w, strings.Repeat("y", 64))
					_ = http.NewResponseController(w).Flush()
				}
				_, _ = io.WriteString(w, "wrong password")
			}))
			t.Cleanup(app.Close)
			o := newOptions(t, app.URL)
			o.Rules.Failure = all(t, proxy.ParseRule, "body:wrong%20password")
			p := proxy.New(o)
			own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				context.AfterFunc(r.Context(), func() { close(noticed) })
				p.ServeHTTP(w, r)
			}))
			t.Cleanup(own.Close)
			conn, err := net.Dial("tcp", own.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(conn, "POST /login HTTP/1.1\r\nHost: x\r\nContent-Type: "+ofForm+
				"\r\nContent-Length: 7\r\n\r\nuser=al")
			<-asked
			_ = conn.Close()
			if got := o.Service.(*direct).next(t); got != service.OutcomeFailure { //nolint:forcetypeassert // newOptions has made it
				t.Errorf("reported %s", got)
			}
		})
	}
}

func TestAbsentApplicationGivesStatusAndReportsNothing(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(nil)
	gone.Close()
	f := stand(t, nil, func(o *proxy.Options) { o.Upstream, _ = url.Parse(gone.URL) })
	if r := f.try(t, "alice", "right"); r.status != http.StatusBadGateway {
		t.Errorf("%d", r.status)
	}
	if r := f.send(t, http.MethodGet, "/", ""); r.status != http.StatusBadGateway {
		t.Errorf("%d", r.status)
	}
	stop := make(chan struct{})
	silent := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stop })
	slow := stand(t, silent, func(o *proxy.Options) { o.AnswerTimeout = time.Millisecond })
	if r := slow.try(t, "alice", "right"); r.status != http.StatusGatewayTimeout {
		t.Errorf("%d", r.status)
	}
	close(stop)
	if len(f.service.reported)+len(slow.service.reported) > 0 {
		t.Error("an outcome was reported")
	}
}
