package proxy_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"testing"

	"velocityd/doors/proxy"
	"velocityd/service"
)

// asked keeps the user of the last check, and blocks every login.
type asked struct{ user string }

func (a *asked) Check(_ context.Context, check service.Check) (service.Decision, error) {
	a.user = check.Buckets[0].Key
	return service.Decision{Blocked: true}, nil
}

func (*asked) Report(context.Context, service.Report) error { return nil }

// limitsForms returns a proxy whose users log in by a form at /login, and the store of its checks.
func limitsForms(f *testing.F) (*proxy.Proxy, *asked) {
	f.Helper()
	service, o := &asked{}, newOptions(f, "http://127.0.0.1:1")
	o.Service, o.MaxBody, o.AddressZone = service, 1<<16, 0
	return proxy.New(o), service
}

// FuzzCheckUserIsTheOneApplicationReads holds the proxy's reading of a form against that of net/http, as an
// application in Go has it.
func FuzzCheckUserIsTheOneApplicationReads(f *testing.F) {
	const parts = "multipart/form-data; boundary=x"
	for _, seed := range [][2]string{
		{ofForm, "user=alice&password=x"},
		{ofForm, "user=a&user=b"},
		{"", "user=%61"},
		{parts, "--x\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\nalice\r\n--x--\r\n"},
		{
			parts,
			"--x\r\nContent-Disposition: form-data; name=\"a\"; filename=\"b\"\r\nContent-Type: " +
				"text/plain\r\n\r\nc\r\n--x\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\n\r\n--x--",
		},
		{parts, "--x\nContent-Disposition: form-data; name=user\n\nalice\n--x--"},
		{
			parts,
			"--x\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\na\r\n--x \r\nContent-Disposition: form-data; " +
				"name=\"user\"\r\n\r\nb\r\n--x--\r\n",
		},
	} {
		f.Add(seed[0], seed[1])
	}
	p, service := limitsForms(f)
	f.Fuzz(func(t *testing.T, media, body string) {
		request := func() *http.Request {
			r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(body))
			r.Header.Set("Content-Type", media)
			return r
		}
		service.user = ""
		p.ServeHTTP(httptest.NewRecorder(), request())
		if service.user == "" {
			return // refused
		}
		if media == "" {
			media = ofForm
		}
		r := request()
		if got := r.PostFormValue("user"); got != service.user && strings.Contains(media, "form") {
			t.Fatalf("asked for %q, and an application reads %q in %q of %q", service.user, got, body, media)
		}
	})
}

// FuzzLoginPathIsSeenHoweverWritten holds that whatever net/http, after its own decoding and cleaning, would serve as
// /login is checked.
func FuzzLoginPathIsSeenHoweverWritten(f *testing.F) {
	for _, seed := range []string{"/login", "//login", "/x/../login", "/%6cogin", "/login/.", "/a/..%2flogin"} {
		f.Add(seed)
	}
	p, service := limitsForms(f)
	f.Fuzz(func(t *testing.T, uri string) {
		u, err := url.ParseRequestURI(uri)
		if err != nil || !strings.HasPrefix(u.Path, "/") || u.Host != "" || u.Scheme != "" || path.Clean(u.Path) != "/login" {
			return
		}
		service.user = ""
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("user=alice"))
		r.URL = u
		p.ServeHTTP(httptest.NewRecorder(), r)
		if service.user == "" {
			t.Fatalf("%q reaches the application without a check", uri)
		}
	})
}
