//go:build doors

package doors_test

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"velocityd/service"
)

// door is a gateway that guards logins of users.
type door struct {
	// start starts the gateway in front of a world and returns where it listens. replace is pairs for configure.
	start func(t *testing.T, w *world, replace ...string) (url string)
	// login makes the login of a user as the gateway can read it.
	login func(t *testing.T, url, user, password string) *http.Request
	// report is how the application reports: reportAttempt if nil.
	report func(w *world) func(*http.Request, string) error

	// The status while velocityd is away, while it does not answer, and while it answers that it cannot decide.
	away, slow, busy int

	noToken  int    // the status if velocityd does not know the token; 0: the gateway has none
	stranger string // what velocityd's log then says: the sentence of gates over HTTP if empty
	tells    bool   // it passes all headers of a refusal on to users
	opens    bool   // it can let requests pass while velocityd is away
}

// basic is the login of an interface: Authorization: Basic and a body.
func basic(t *testing.T, url, user, password string) *http.Request {
	t.Helper()
	r := request(t, http.MethodPost, url+"/basic/orders?page=%2F1", `{"order": "a \"b\" 100% é"}`)
	r.SetBasicAuth(user, password)
	r.Header.Set("Content-Type", "application/json")
	return r
}

// form is the login of a page.
func form(t *testing.T, to, user, password string) *http.Request {
	t.Helper()
	r := request(t, http.MethodPost, to+"/login?next=%2Fhome",
		url.Values{"username": {user}, "password": {password}}.Encode())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

// spellings are paths that some applications take as /login.
func spellings() []string {
	return []string{"/Login", "/login/", "//login", "/%6cogin", "/login.json", "/x/../login"}
}

// try sends a login from an address and returns the status.
func (d door) try(t *testing.T, url, from, user, password string) reply {
	t.Helper()
	r, err := send(t, d.login(t, url, user, password), from)
	if err != nil {
		t.Fatalf("the login of %s: %v", user, err)
	}
	return r
}

// guess sends n logins of a user with wrong passwords, which the application must see and refuse.
func (d door) guess(t *testing.T, url, from, user string, n int) {
	t.Helper()
	for i := range n {
		if r := d.try(t, url, from, user, fmt.Sprint("guess", i)); r.status != http.StatusUnauthorized {
			t.Fatalf("guess %d of %s: status %d %s, want the application's 401", i+1, user, r.status, r.body)
		}
	}
}

// prove holds a door against all that doors have in common.
func (d door) prove(t *testing.T) {
	t.Helper()
	var flags []string
	if d.noToken > 0 {
		flags = append(flags, "--require-auth")
	}
	w := newWorld(t, flags...)
	if d.report != nil {
		w.app.report = d.report(w)
	}
	at := d.start(t, w)
	for name, claim := range map[string]func(t *testing.T, w *world, at string){
		"the guess beyond the rate is refused":          d.refuses,
		"a success gives the place back":                d.givesBack,
		"headers, bodies and names arrive as they were": d.keeps,
		"what a client adds gains nothing":              d.distrusts,
		"no login passes while velocityd is away":       d.whileAway,
		"no login passes while velocityd is busy":       d.whileBusy,
		"no login passes with a wrong token":            d.withWrongToken,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim(t, w, at)
		})
	}
}

// refuses holds that the application sees `rate` guesses, each with the id of a txn, and no further one; and that
// others go on.
func (d door) refuses(t *testing.T, w *world, at string) {
	const from, user = "127.0.1.1", "mallory"
	d.guess(t, at, from, user, userRate)
	r := d.try(t, at, from, user, right)
	wait, err := strconv.Atoi(r.header.Get("Retry-After"))
	if r.status != http.StatusTooManyRequests || err != nil || wait < 1 || wait > 60 {
		t.Errorf("beyond the rate: status %d, Retry-After %q; want 429 and 1 to 60 seconds", r.status,
			r.header.Get("Retry-After"))
	}
	for name := range r.header {
		if !d.tells && strings.HasPrefix(name, "Ratelimit") || !d.tells && strings.HasPrefix(name, "X-Velocity") {
			t.Errorf("the user is told %s: %s", name, r.header.Get(name))
		}
	}
	var txns []string
	for _, s := range w.app.of(user) {
		txns = append(txns, s.header.Get("X-Velocity-Txn-Id"))
	}
	recorded := w.db.Txns(t, service.Bucket{ZoneID: userZone, Key: user})
	if len(txns) != userRate || len(recorded) != userRate+1 {
		t.Fatalf("the application saw %d, and %d are recorded; want %d and one more", len(txns), len(recorded), userRate)
	}
	for i, txn := range txns {
		if txn != fmt.Sprint(recorded[i].ID) {
			t.Errorf("guess %d has txn id %q, recorded is %d", i+1, txn, recorded[i].ID)
		}
	}
	if r := d.try(t, at, from, "bob", right); r.status != http.StatusOK {
		t.Errorf("another user: status %d, want 200", r.status)
	}
}

// givesBack holds that the outcome which the application reports reaches the attempt.
func (d door) givesBack(t *testing.T, w *world, at string) {
	const user, logins = "alice", 2*userRate + 1
	for i := range logins {
		if r := d.try(t, at, "127.0.1.2", user, right); r.status != http.StatusOK {
			t.Fatalf("login %d: status %d %s, want 200", i+1, r.status, r.body)
		}
	}
	for i, txn := range w.db.Txns(t, service.Bucket{ZoneID: userZone, Key: user}) {
		if txn.Outcome != service.OutcomeSuccess {
			t.Errorf("login %d has outcome %q, want success", i+1, txn.Outcome)
		}
	}
}

// keeps holds that users' names reach velocityd as they are, and that requests reach the application untouched, with
// bodies in chunks as well.
func (d door) keeps(t *testing.T, w *world, at string) {
	for i, name := range []string{`o'brien "the" admin\`, "a b", "100%41+x", "zoë 名", "a&username=c;d", "<b>,{c}"} {
		sent := d.login(t, at, name, right)
		copied, err := sent.GetBody()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(copied)
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 {
			sent.ContentLength = -1 // in chunks
		}
		if r, err := send(t, sent, "127.0.1.3"); err != nil || r.status != http.StatusOK {
			t.Errorf("%q: status %d %s (%v), want 200", name, r.status, r.body, err)
			continue
		}
		got := w.app.of(name)
		if len(got) != 1 {
			t.Fatalf("%q: the application saw it %d times", name, len(got))
		}
		for _, field := range []string{"Authorization", "Content-Type"} {
			if got[0].header.Get(field) != sent.Header.Get(field) {
				t.Errorf("%q: %s is %q, sent was %q", name, field, got[0].header.Get(field), sent.Header.Get(field))
			}
		}
		if got[0].body != string(body) {
			t.Errorf("%q: the application got the body %q, sent was %q", name, got[0].body, body)
		}
		if n := len(w.db.Txns(t, service.Bucket{ZoneID: userZone, Key: name})); n != 1 {
			t.Errorf("%q has %d txns, want 1", name, n)
		}
	}
}

// distrusts holds that a client cannot choose its address, its bucket, its attempt or its token.
func (d door) distrusts(t *testing.T, w *world, at string) {
	const from, user, txn = "127.0.1.4", "eve", "999999"
	for i := range userRate + 1 {
		r := d.login(t, at, user, "guess")
		r.Host = "login.example.com"
		for name, value := range map[string]string{
			"X-Forwarded-For": "203.0.113." + fmt.Sprint(i), "X-Real-Ip": "203.0.113.8", "Forwarded": "for=203.0.113.7",
			"X-Velocity-Attempt": "mine", "X-Request-Id": "mine", "X-Velocity-Zone": "9",
			"X-Velocity-Key":    fmt.Sprint("other", i),
			"X-Velocity-Txn-Id": txn, "X-Api-Key": printedToken, "Origin": "https://login.example.com",
			"Sec-Fetch-Site": "same-origin",
		} {
			r.Header.Set(name, value)
		}
		answer, err := send(t, r, from)
		if err != nil {
			t.Fatal(err)
		}
		if want := []int{http.StatusUnauthorized, http.StatusTooManyRequests}[i/userRate]; answer.status != want {
			t.Fatalf("guess %d: status %d %s, want %d", i+1, answer.status, answer.body, want)
		}
	}
	if n := len(w.db.Txns(t, service.Bucket{ZoneID: addressZone, Key: from})); n != userRate+1 {
		t.Errorf("the client's address has %d txns, want %d", n, userRate+1)
	}
	if n := w.db.Count(
		t, "SELECT COUNT(*) FROM zone_txn WHERE bucket_key LIKE '203.0.113.%' OR bucket_key LIKE 'other%'"); n > 0 {
		t.Errorf("%d txns are in buckets of the client's choice", n)
	}
	isOwn := func(s seen) bool { return s.header.Get("X-Velocity-Txn-Id") == txn }
	if slices.ContainsFunc(w.app.of(user), isOwn) {
		t.Error("the application got the client's X-Velocity-Txn-Id")
	}
}

// whileAway holds the answer that the user gets when velocityd does not listen, and when it does not answer. A gateway
// that is configured to fail open lets the login pass, with its body.
func (d door) whileAway(t *testing.T, _ *world, _ string) {
	for name, at := range map[string]string{"refuses": freeAddress(t), "is silent": silent(t)} {
		w := away(t, at)
		want := d.away
		if name == "is silent" {
			want = d.slow
		}
		if r := d.try(t, d.start(t, w), "127.0.1.5", "alice", right); r.status != want || len(w.app.of("alice")) > 0 {
			t.Errorf("the address %s connections: status %d %s, want %d without the application", name, r.status, r.body, want)
		}
		if !d.opens {
			continue
		}
		r := d.try(t, d.start(t, w, open()...), "127.0.1.5", "alice", right)
		if r.status != http.StatusOK || len(w.app.of("alice")) != 1 {
			t.Errorf("the address %s connections, fail open: status %d %s, want 200 of the application", name, r.status, r.body)
		}
	}
}

// whileBusy holds the answer that the user gets when velocityd cannot decide and says so. Only a gate with `busy:
// allow` lets the login pass then. The gateway does not.
func (d door) whileBusy(t *testing.T, _ *world, _ string) {
	w := away(t, busy(t))
	if r := d.try(t, d.start(t, w), "127.0.1.7", "alice", right); r.status != d.busy || len(w.app.of("alice")) > 0 {
		t.Errorf("status %d %s, want %d without the application", r.status, r.body, d.busy)
	}
}

// withWrongToken holds that no login passes, and that velocityd's log has the reason.
func (d door) withWrongToken(t *testing.T, w *world, _ string) {
	if d.noToken == 0 {
		return
	}
	wrong := away(t, w.address)
	wrong.grpc = w.grpc
	if r := d.try(t, d.start(t, wrong), "127.0.1.6", "alice", right); r.status != d.noToken ||
		len(wrong.app.of("alice")) > 0 {
		t.Errorf("status %d %s, want %d without the application", r.status, r.body, d.noToken)
	}
	if !strings.Contains(w.velocity.log(t), cmp.Or(d.stranger, "The gateway has not proved its identity")) {
		t.Errorf("the log does not say why:\n%s", w.velocity.log(t))
	}
}
