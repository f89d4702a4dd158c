package proxy

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

// outcomeOf returns the outcome by rules of an answer to a request for a path, with a header in pairs.
func outcomeOf(tb testing.TB, success, failure, asked string, a answer, header ...string) service.Outcome {
	tb.Helper()
	var rules Rules
	for text, list := range map[string]*[]Rule{success: &rules.Success, failure: &rules.Failure} {
		if text != "" {
			rule, err := ParseRule(text)
			if err != nil {
				tb.Fatal(err)
			}
			*list = append(*list, rule)
		}
	}
	u, err := url.ParseRequestURI(asked)
	if err != nil {
		tb.Fatal(err)
	}
	a.asked, a.header = u, http.Header{}
	for i := 0; i < len(header); i += 2 {
		a.header.Add(header[i], header[i+1])
	}
	return rules.outcome(a)
}

func TestALocationLeadsWhereABrowserGoes(t *testing.T) {
	t.Parallel()
	for _, location := range []string{
		"/login", "login", "login?error=1", "./login", "../login", "../../login", "/a/../login", "/a/b/../../login",
		"/%6cogin", "/%6Cogin", "?error=1",
		"", "#top", ".", "/.//login", "/a/%2e%2e/login", "/a/.%2E/login", "/a/..%2flogin", "/%256cogin", "//login",
		"//app.example/login", "///app.example/login",
		`\login`, `/\app.example\login`, `..\login`, " /login", "\t/login", "/lo\tgin", "\t//app.example/login ",
		"HTTPS://APP.example/login", "https:/login",
		"http:login", "https:\\\\app.example/login", "https://user:x@app.example:8443/login", "/Login", "/login;jsessionid=1",
		"//app.example/a/../login#x",
	} {
		a := answer{status: http.StatusSeeOther}
		asked := "/login"
		if location == "//login" { // it is a host for a browser, and the path is its root
			if got := outcomeOf(t, "status:303 location:/", "location:/login", asked, a, "Location",
				location); got != service.OutcomeSuccess {
				t.Errorf("%q: %q", location, got)
			}
			continue
		}
		if location == "." || location == "../login" || location == "../../login" || location == `..\login` {
			asked = "/login/"
		}
		if got := outcomeOf(t, "status:303 !location:/login", "", asked, a, "Location",
			location); got == service.OutcomeSuccess {
			t.Errorf("%q counts as a success", location)
		}
		if got := outcomeOf(t, "", "location:/login", asked, a, "Location", location); got != service.OutcomeFailure {
			t.Errorf("%q counts as %q where /login is a failure", location, got)
		}
	}
}

func TestALocationThatLeadsOnIsASuccess(t *testing.T) {
	t.Parallel()
	for location, prefix := range map[string]string{
		"/": "/", "/home": "/home", "/home/": "/home/", "home": "/home", "./": "/", "/a/../home?x=/login": "/home",
		"https://app.example":      "/",
		"https://app.example/home": "/home", "/%68ome": "/home", "//app.example/home#login": "/home",
		"/home?code=a%20b": "/home?code=a%20b",
		"com.app:/home":    "/home",
	} {
		got := outcomeOf(t, "status:303 !location:/login location:"+strings.ReplaceAll(prefix, "%", "%25"), "location:/login",
			"/login",
			answer{status: http.StatusSeeOther}, "Location", location)
		if got != service.OutcomeSuccess {
			t.Errorf("%q: %q", location, got)
		}
	}
}

func TestUnclearLocationIsNoSuccess(t *testing.T) {
	t.Parallel()
	for name, header := range map[string][]string{
		"two":             {"Location", "/home", "Location", "/login"},
		"two, turned":     {"Location", "/login", "Location", "/home"},
		"none":            nil,
		"another scheme":  {"Location", "javascript:0"},
		"by a path asked": {"Location", "login?error=1"},
	} {
		asked := "/login"
		if name == "by a path asked" { // an application that decodes it answers at /login
			asked = "/x/..%2flogin"
		}
		if got := outcomeOf(t, "status:303 !location:/login", "", asked, answer{status: http.StatusSeeOther},
			header...); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := outcomeOf(t, "location:/home", "location:/login", "/login", answer{status: http.StatusSeeOther}, "Location",
		"/home", "Location", "/login"); got !=
		service.OutcomeFailure {
		t.Errorf("one of two is the place of a failure: %q", got)
	}
}

func TestCookieCountsAsSetIfBrowserKeepsIt(t *testing.T) {
	t.Parallel()
	const success, failure = service.OutcomeSuccess, service.OutcomeFailure
	past, soon := time.Now().Add(-time.Hour).UTC(), time.Now().Add(time.Hour).UTC()
	for name, c := range map[string]struct {
		cookies []string
		want    service.Outcome
	}{
		"set":                             {[]string{"session=x; Path=/; HttpOnly"}, success},
		"until later":                     {[]string{"session=x; Expires=" + soon.Format(http.TimeFormat)}, success},
		"by an old date of two digits":    {[]string{"session=x; Expires=Thursday, 01-Jan-70 00:00:01 GMT"}, failure},
		"by C's date":                     {[]string{"session=x; expires=" + soon.Format(time.ANSIC)}, success},
		"with a space in its value":       {[]string{"session=a b,c\\; Path=/"}, success},
		"for a second":                    {[]string{"session=x; max-age=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT"}, success},
		"removed and set":                 {[]string{"session=; Max-Age=0; Path=/", "session=x; Path=/"}, success},
		"set, and removed at a path":      {[]string{"session=x; Path=/", "session=; Max-Age=0; Path=/old"}, success},
		"of a safe prefix":                {[]string{"__Host-session=x; Path=/; Secure"}, failure},
		"set and removed":                 {[]string{"session=x; Path=/", "session=; Max-Age=0; Path=/"}, failure},
		"set and removed by default path": {[]string{"session=x; Path=/", "session=deleted; path=x"}, failure},
		"removed for its domain":          {[]string{"session=x", "session=; Domain=app.example"}, failure},
		"none":                            {nil, failure},
		"removed by age":                  {[]string{"session=x; Max-Age=0"}, failure},
		"removed by a negative age":       {[]string{"session=x; Max-Age=-5"}, failure},
		"removed an hour ago":             {[]string{"session=x; Expires=" + past.Format(http.TimeFormat)}, failure},
		"deleted":                         {[]string{"session=deleted"}, failure},
		"of an empty text in quotes":      {[]string{`session=""`}, failure},
		"of a date in no known form":      {[]string{"session=x; Expires=tomorrow"}, failure},
		"of the last age":                 {[]string{"session=x; Max-Age=60; Max-Age=0"}, failure},
		"in another case":                 {[]string{"Session=x"}, failure},
		"inside of another":               {[]string{"a=b, session=x"}, failure},
		"without a value":                 {[]string{"session"}, failure},
		"too long":                        {[]string{"session=" + strings.Repeat("x", 5000)}, failure},
	} {
		header := []string{}
		for _, cookie := range c.cookies {
			header = append(header, "Set-Cookie", cookie)
		}
		got := outcomeOf(t, "cookie:session", "!cookie:session", "/login", answer{status: http.StatusOK}, header...)
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	for cookie, want := range map[string]service.Outcome{
		"__Host-s=x; Path=/; Secure": success, "__Host-s=x; Path=/": failure, "__Host-s=x; Secure": failure,
		"__Host-s=x; Path=/; Secure; Domain=a.b": failure,
	} {
		if got := outcomeOf(t, "cookie:__Host-s", "!cookie:__Host-s", "/login", answer{status: 200}, "Set-Cookie",
			cookie); got != want {
			t.Errorf("%s: %q, want %q", cookie, got, want)
		}
	}
}

func TestABodyThatCannotBeReadTellsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		success, failure, body string
		header                 []string
	}{
		"a coding": {"!body:wrong", "body:wrong", "\x1f\x8b", []string{"Content-Encoding", "gzip"}},
		"a charset of two bytes": {
			"!body:wrong", "body:wrong", "w\x00",
			[]string{"Content-Type", "text/html; charset=UTF-16LE"},
		},
		"no JSON":                  {"!json:/error", "json:/error", "<p>", nil},
		"a member twice":           {"json:/ok=true", "json:/ok=false", `{"ok":false,"ok":true}`, nil},
		"JSON with more behind it": {"json:/ok=true", "json:/ok=false", `{"ok":true} {"ok":false}`, nil},
		"a coding behind identity": {
			"!json:/error", "json:/error", `{}`,
			[]string{"Content-Encoding", "identity", "Content-Encoding", "br"},
		},
		"nothing where JSON was to": {"!json:/error", "json:/error", "", nil},
	} {
		if got := outcomeOf(t, c.success, c.failure, "/login", answer{status: 200, body: []byte(c.body)},
			c.header...); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestARuleReadsStatusTextAndMembers(t *testing.T) {
	t.Parallel()
	const success, failure = service.OutcomeSuccess, service.OutcomeFailure
	for name, c := range map[string]struct {
		success, failure string
		status           int
		body             string
		want             service.Outcome
	}{
		"a status":               {"status:302", "status:401", 302, "", success},
		"another status":         {"status:302", "status:401", 401, "", failure},
		"a status of no rule":    {"status:302", "status:401", 500, "", ""},
		"a class":                {"status:2xx", "status:4xx", 404, "", failure},
		"both":                   {"status:200", "status:2xx", 200, "", failure},
		"a text":                 {"status:200 body:Welcome%20back", "body:wrong", 200, "<p>Welcome back</p>", success},
		"another text":           {"status:200 body:Welcome", "body:wrong%2C", 200, "wrong, sorry", failure},
		"a member":               {"json:/status=OK", "json:/status=KO", 200, `{"status":"OK"}`, success},
		"a member that is there": {"json:/a/0/token", "json:/error", 200, `{"a":[{"token":"x"}]}`, success},
		"a member that is null":  {"json:/token", "json:/error", 200, `{"token":null}`, ""},
		"a truth":                {"json:/ok=true", "json:/ok=false", 200, `{"ok":false}`, failure},
		"a number":               {"json:/code=0", "json:/code=1", 200, `{"code":0}`, success},
	} {
		if got := outcomeOf(t, c.success, c.failure, "/login",
			answer{status: c.status, body: []byte(c.body)}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// FuzzNoSpellingOfFailurePlaceIsSuccess holds that a Location that net/url resolves to /login is none for a success
// elsewhere, and that no answer breaks a rule.
func FuzzNoSpellingOfFailurePlaceIsSuccess(f *testing.F) {
	for _, seed := range []string{
		"login?error=1", "./login", "?error=1", "../login", "/a/../login", "/%6cogin",
		"//h/login", "HTTP://h/login", "a/..//login", "",
	} {
		f.Add(seed, "session=x; Expires=Thu, 01 Jan 1970 00:00:00 GMT")
	}
	f.Fuzz(func(t *testing.T, location, cookie string) {
		asked := &url.URL{Path: "/login"}
		a := answer{
			asked: asked, status: http.StatusSeeOther,
			header: http.Header{"Location": {location}, "Set-Cookie": {cookie}},
		}
		to, err := asked.Parse(location)
		success, _ := ParseRule("!location:/login")
		isSuccess := success.holds(a, func(s evidence) bool { return s.yes && !s.no })
		if err == nil && strings.HasPrefix(to.Path, "/login") && !strings.HasPrefix(location, "///") && isSuccess {
			t.Fatalf("%q leads to %q and is a success", location, to)
		}
		kept := (&http.Response{Header: a.header}).Cookies()
		if is := a.sets("session"); is == certain(true) && len(kept) == 1 && kept[0].Name == "session" && kept[0].MaxAge < 0 {
			t.Fatalf("%q is set and removed", cookie)
		}
	})
}
