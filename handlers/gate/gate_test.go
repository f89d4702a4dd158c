package gate_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"velocityd/handlers/gate"
	"velocityd/service"
)

// request is a request of a gateway whose client is 192.0.2.7.
func request(tb testing.TB, method, path, body string, headers ...string) *gate.Request {
	tb.Helper()
	r, err := http.NewRequest(method, path, nil)
	if err != nil {
		tb.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return &gate.Request{
		HTTP:   r,
		Client: func() (netip.Addr, error) { return netip.MustParseAddr("192.0.2.7"), nil },
		Body:   func() ([]byte, error) { return []byte(body), nil },
	}
}

// only returns the gate of a file with one gate, which has these members.
func only(tb testing.TB, members string) gate.Gate {
	tb.Helper()
	file, err := gate.Parse([]byte("gates: {login: {" + members + "}}"))
	if err != nil {
		tb.Fatal(err)
	}
	g, ok := file.Gate("login")
	if !ok {
		tb.Fatal("there is no gate login")
	}
	return g
}

const (
	ofForm = "application/x-www-form-urlencoded"
	ofJSON = "application/json; charset=utf-8"
)

func TestGateTakesKeysWhereItsFileSays(t *testing.T) { //nolint:funlen // a table of cases
	t.Parallel()
	for name, c := range map[string]struct {
		key, path, body string
		headers         []string
		want            string // "": it is refused with text
		text            string
	}{
		"a header": {"header: x-user", "/", "", []string{"X-User", "alice"}, "alice", ""},
		"a header twice": {
			"header: X-User", "/", "",
			[]string{"X-User", "alice", "X-User", "bob"},
			"",
			"several times",
		},
		"no header":                {"header: X-User", "/", "", nil, "", "the header X-User is missing or empty"},
		"a parameter":              {"query: user", "/?user=al%20ice&x=y", "", nil, "al ice", ""},
		"a parameter twice":        {"query: user", "/?user=alice&user=bob", "", nil, "", "several times"},
		"a parameter in two cases": {"query: user", "/?user=alice&User=bob", "", nil, "", "another case"},
		"a malformed query":        {"query: user", "/?user=alice&x=%zz", "", nil, "", "malformed"},
		"a field": {
			"form: user", "/", "user=al+ice&password=x",
			[]string{"Content-Type", ofForm},
			"al ice",
			"",
		},
		"a field of any type":     {"form: user", "/", "user=alice", []string{"Content-Type", "none/such"}, "alice", ""},
		"a field without a type":  {"form: user", "/", "user=alice", nil, "alice", ""},
		"a field twice":           {"form: user", "/", "user=alice&user=bob", nil, "", "several times"},
		"a field with space":      {"form: user", "/", "user=alice&+user=bob", nil, "", "spelling"},
		"a field and a zero byte": {"form: user", "/", "user=alice&user%00x=bob", nil, "", "spelling"},
		"a field and a list":      {"form: user", "/", "user=alice&user[]=bob", nil, "", "spelling"},
		"a field of a variable":   {"form: user_id", "/", "user_id=alice&user.id=bob", nil, "", "spelling"},
		"a field of a list":       {"form: 'user[name]'", "/", "user[name]=alice&user[id]=bob", nil, "alice", ""},
		"a field in a charset": {
			"form: user", "/", "user=alice",
			[]string{"Content-Type", ofForm + "; charset=IBM037"},
			"", "charset",
		},
		"a field in Latin": {
			"form: user", "/", "user=alice",
			[]string{"Content-Type", ofForm + "; charset=ISO-8859-1"},
			"alice", "",
		},
		"a field of two types": {
			"form: user", "/", "user=alice",
			[]string{"Content-Type", ofForm, "Content-Type", ofJSON},
			"", "several",
		},
		"a field in another case": {"form: user", "/", "user=alice&USER=bob", nil, "", "another case"},
		"a field and a parameter": {"form: user", "/?x=%zz&User=bob", "user=alice", nil, "", "stands in the query"},
		"and one behind a proxy": {
			"form: user", "/", "user=alice",
			[]string{"X-Forwarded-Uri", "/login?user=bob"},
			"",
			"stands in the query",
		},
		"another parameter": {
			"form: user", "/?x=y", "user=alice",
			[]string{"X-Forwarded-Uri", "/login?y=user"},
			"alice", "",
		},
		"an empty field":           {"form: user", "/", "user=&x=y", nil, "", "missing or empty"},
		"no body":                  {"form: user", "/", "", nil, "", "nginx"},
		"a form that is malformed": {"form: user", "/", "user=alice;x=y", nil, "", "malformed"},
		"a form that is JSON": {
			"form: user", "/", `{"user":"alice"}`,
			[]string{"Content-Type", ofJSON},
			"",
			"missing or empty",
		},
		"a form in parts": {
			"form: user", "/", "x",
			[]string{"Content-Type", "multipart/form-data; boundary=x"},
			"",
			"multipart",
		},
		"a form with a coding": {
			"form: user", "/", "user=alice",
			[]string{"Content-Encoding", "gzip"},
			"",
			"Content-Encoding",
		},
		"a member": {
			"json: /user/name", "/", `{"user":{"name":"alice"}}`,
			[]string{"Content-Type", ofJSON},
			"alice", "",
		},
		"a member of a list":       {"json: /users/1", "/", `{"users":["bob","alice"]}`, nil, "alice", ""},
		"a member beyond a list":   {"json: /users/2", "/", `{"users":["bob","alice"]}`, nil, "", "missing"},
		"a member with a slash":    {"json: /a~1b", "/", `{"a/b":"alice"}`, nil, "alice", ""},
		"a number":                 {"json: /id", "/", `{"id":42}`, nil, "42", ""},
		"a number in another form": {"json: /id", "/", `{"id":4.2e1}`, nil, "", "whole number"},
		"an object":                {"json: /id", "/", `{"id":{}}`, nil, "", "string or a whole number"},
		"null":                     {"json: /id", "/", `{"id":null}`, nil, "", "missing"},
		"no member":                {"json: /id", "/", `{"x":1}`, nil, "", "missing"},
		"a member of no object":    {"json: /id/x", "/", `{"id":"y"}`, nil, "", "missing"},
		"a member twice":           {"json: /id", "/", `{"id":"alice","id":"bob"}`, nil, "", "each name once"},
		"a member in another case": {"json: /id", "/", `{"id":"alice","ID":"bob"}`, nil, "", "another case"},
		"JSON that is malformed":   {"json: /id", "/", `{"id":"alice"}x`, nil, "", "not JSON"},
		"JSON that is a form":      {"json: /id", "/", "id=alice", []string{"Content-Type", ofForm}, "", "missing"},
		"no JSON":                  {"json: /id", "/", "", nil, "", "nginx"},
		"a user": {
			"basic: user", "/", "",
			[]string{"Authorization", "Basic YWxpY2U6c2VjcmV0"},
			"alice",
			"",
		},
		"a user in small letters": {
			"basic: user", "/", "",
			[]string{"Authorization", "basic  YWxpY2U6c2VjcmV0"},
			"alice",
			"",
		},
		"a user twice": {
			"basic: user", "/", "",
			[]string{"Authorization", "Basic YTpi", "Authorization", "Basic Yzpk"},
			"", "several",
		},
		"another scheme": {
			"basic: user", "/", "",
			[]string{"Authorization", "Bearer YWxpY2U6c2VjcmV0"},
			"",
			"missing",
		},
		"a user without a password": {"basic: user", "/", "", []string{"Authorization", "Basic YWxpY2U="}, "", "malformed"},
		"a malformed user":          {"basic: user", "/", "", []string{"Authorization", "Basic ?"}, "", "malformed"},
		"nobody": {
			"basic: user", "/", "",
			[]string{"Authorization", "Basic OnNlY3JldA=="},
			"",
			"missing or empty",
		},
		"the client": {"client: address", "/", "", nil, "192.0.2.7", ""},
	} {
		g := only(t, "buckets: [{zone: 3, key: {"+c.key+"}}]")
		asked, err := g.Question(request(t, http.MethodPost, c.path, c.body, c.headers...), true)
		if c.want != "" {
			if want := []service.Bucket{{ZoneID: 3, Key: c.want}}; err != nil || !slices.Equal(asked.Check.Buckets, want) {
				t.Errorf("%s: %v %v, want %q", name, asked.Check.Buckets, err, c.want)
			}
			continue
		}
		if !errors.Is(err, service.ErrInvalid) || !strings.Contains(err.Error(), c.text) ||
			!strings.Contains(err.Error(), "gate login, zone 3") ||
			strings.Contains(err.Error(), "alice") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", name, err, c.text)
		}
	}
}

func TestOptionalBucketWithoutKeyIsLeftOut(t *testing.T) {
	t.Parallel()
	g := only(t, "buckets: [{zone: 1, key: {form: user}, optional: true}, {zone: 2, key: {json: /user}, optional: true}, "+
		"{zone: 3, key: {client: address}, optional: false}]")
	for body, want := range map[string]string{
		"user=alice":       "[{1 alice} {3 192.0.2.7}]",
		`{"user":"alice"}`: "[{2 alice} {3 192.0.2.7}]",
		"":                 "[{3 192.0.2.7}]",
	} {
		media := ofForm
		if strings.HasPrefix(body, "{") {
			media = ofJSON
		}
		asked, err := g.Question(request(t, http.MethodPost, "/", body, "Content-Type", media), false)
		if got := fmt.Sprint(asked.Check.Buckets); err != nil || got != want {
			t.Errorf("%s: %s %v, want %s", body, got, err, want)
		}
	}
	if _, err := g.Question(request(t, http.MethodPost, "/", "user=a&user=b", "Content-Type", ofForm), false); err == nil {
		t.Error("a field that is there twice is left out like one that is missing")
	}
	for kind, c := range map[string]struct{ body, media string }{
		"form": {"user=a", ofJSON},
		"json": {`{"user":"a"}`, ofForm},
	} {
		alone := only(t, "buckets: [{zone: 1, key: {client: address}}, {zone: 2, key: {"+kind+": /user}, optional: true}]")
		if asked, err := alone.Question(request(t, http.MethodPost, "/", c.body, "Content-Type", c.media), false); !errors.Is(
			err, service.ErrInvalid) {
			t.Errorf("a body of the gate's kind with the other Content-Type has no key: %+v %v", asked, err)
		}
		if asked, err := alone.Question(request(t, http.MethodPost, "/", "", "Content-Type", c.media), false); err != nil {
			t.Errorf("no body, and the other Content-Type: %+v %v", asked, err)
		}
	}
	in := only(t, "buckets: [{zone: 1, key: {client: address}}, {zone: 2, key: {form: user}, optional: true}]")
	if asked, err := in.Question(request(t, http.MethodPost, "/login?user=alice", ""), true); !errors.Is(
		err, service.ErrInvalid) {
		t.Errorf("a key in the query of the address in place of the form: %+v %v", asked, err)
	}
	none := only(t, "buckets: [{zone: 1, key: {form: user}, optional: true}]")
	if _, err := none.Question(request(t, http.MethodPost, "/", ""), false); !errors.Is(err, service.ErrInvalid) {
		t.Errorf("a request without any key: %v", err)
	}
}

func TestAddressOverridesAnswerUnlessQueryIsEndUsers(t *testing.T) {
	t.Parallel()
	g := only(
		t, "buckets: [{zone: 1, key: {client: address}}], attempt: {header: X-Request-Id}, allow: 200, deny: 401, busy: deny")
	for _, c := range []struct {
		path    string
		isBelow bool
		want    gate.Answer
	}{
		{"/gate/login", false, gate.Answer{Allow: 200, Deny: 401, Busy: gate.BusyDenies}},
		{"/gate/login?deny=429&other=x", false, gate.Answer{Allow: 200, Deny: 429, Busy: gate.BusyDenies}},
		{"/gate/login/app?deny=429&x=%zz", true, gate.Answer{Allow: 200, Deny: 401, Busy: gate.BusyDenies}},
	} {
		asked, err := g.Question(request(t, http.MethodGet, c.path, "", "X-Request-Id", "one"), c.isBelow)
		if err != nil || asked.Answer != c.want || asked.Check.AttemptID != "one" {
			t.Errorf("%s: %+v %v, want %+v", c.path, asked, err, c.want)
		}
	}
	if _, err := g.Question(request(t, http.MethodGet, "/gate/login?deny=200", ""), false); !errors.Is(
		err, service.ErrInvalid) {
		t.Errorf("a status of its own for a blocked attempt: %v", err)
	}
	if asked, err := g.Question(request(t, http.MethodGet, "/", ""), false); err != nil || asked.Check.AttemptID != "" {
		t.Errorf("a request without an attempt id: %+v %v", asked, err)
	}
	chosen := only(t, "buckets: [{zone: 1, key: {client: address}}], attempt: {query: id}")
	for isBelow, want := range map[bool]string{false: "one", true: ""} {
		asked, err := chosen.Question(request(t, http.MethodGet, "/?id=one", ""), isBelow)
		if asked.Check.AttemptID != want || (err != nil) != isBelow {
			t.Errorf("an attempt id in the query, below the gate's path: %v: %+v %v", isBelow, asked, err)
		}
	}
	if _, err := g.Question(request(t, http.MethodGet, "/", "", "X-Request-Id", "a", "X-Request-Id", "b"),
		false); err == nil {
		t.Error("of two attempt ids one is taken")
	}
}

func TestBodyAndClientFaultsStayUnchanged(t *testing.T) {
	t.Parallel()
	busy := service.NewBusyError(0, "no memory")
	for _, key := range []string{"form: user", "json: /user", "client: address"} {
		r := request(t, http.MethodPost, "/", "")
		r.Body = func() ([]byte, error) { return nil, busy }
		r.Client = func() (netip.Addr, error) { return netip.Addr{}, busy }
		_, err := only(t, "buckets: [{zone: 1, key: {"+key+"}, optional: true}]").Question(r, false)
		if !errors.Is(err, service.ErrBusy) || errors.Is(err, service.ErrInvalid) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
