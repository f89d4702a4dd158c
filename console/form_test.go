package console_test

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/audit"
	"velocityd/service/webhook"
)

// wrongForm is a form that cannot be carried out, and its field that is wrong; "" if it is none of the fields.
type wrongForm struct {
	path, field string
	form        url.Values
}

// wrongForms returns a wrong form of each action. sealed is the bucket of alice.
func wrongForms(sealed string) []wrongForm {
	key := "keys/" + sealed
	return []wrongForm{
		{"overrides", "zone", url.Values{"zone": {"no such zone"}, "bucket_key": {"x"}}},
		{"overrides", "bucket_key", url.Values{"zone": {"2"}, "bucket_key": {"no address"}, "action": {"deny"}, "lasts": {"never"}}},
		{"overrides/2/1", "rate", url.Values{"action": {"limit"}, "rate": {"many"}, "lasts": {"same"}}},
		{"overrides/2/1", "window", url.Values{"action": {"limit"}, "rate": {"1"}, "window": {"1.5"}, "lasts": {"same"}}},
		{"overrides/2/1/delete", "reason", url.Values{"reason": {" "}}},
		{key + "/override?zone=1", "rate", url.Values{"bucket": {sealed}, "action": {"limit"}, "rate": {""}, "lasts": {"never"}}},
		{key + "/override?zone=1", "lasts", url.Values{"bucket": {sealed}, "action": {"deny"}, "lasts": {"-1"}}},
		{key + "/release?zone=1", "reason", url.Values{"bucket": {sealed}, "reason": {""}}},
		{"zones/new", "id", url.Values{"id": {"0"}, "rate": {"5"}, "window": {"60"}}},
		{"zones/new", "id", url.Values{"id": {"1"}, "rate": {"5"}, "window": {"60"}, "mode": {"shadow"}}},
		{"zones/1/edit", "lockout_factor", url.Values{"lockout_factor": {"1.234"}, "do": {"save"}}},
		{"zones/1/edit", "", url.Values{"revision": {"77"}, "rate": {"1"}, "do": {"save"}}},
		{"zones/1/delete", "typed", url.Values{"typed": {"7"}}},
		{"zones/1/versions/7", "typed", url.Values{"typed": {"7"}}},
		{"tokens/1/revoke", "typed", url.Values{"typed": {"somebody"}}},
		{"locked/release?zone=1", "reason", url.Values{"zone": {"1"}, "txn": {"2"}, "reason": {""}}},
		{"locked/release?zone=1", "", url.Values{"zone": {"1"}}},
		{"locked/release-all?zone=1", "confirm", url.Values{"zone": {"1"}, "confirm": {"2"}}},
		{"health/webhooks/1/resend", "reason", url.Values{"reason": {""}}},
		{"search", "text", url.Values{"text": {strings.Repeat("x", 2000)}}},
	}
}

func TestEachWrongFormIsShownAgainAtItsField(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	p.guardLogins(t)
	p.attempt(t, "", user("alice"))
	p.attempt(t, "", user("alice")) // txn 2 begins a lockout
	o := service.Override{ZoneID: 2, Key: "192.0.2.1", Action: service.OverrideDeny, Reason: "r"}
	if _, err := p.AddOverride(t.Context(), o, "carol"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.AddWebhook(t.Context(), webhook.Webhook{URL: "https://hooks.example.com/v"}, "secret", ""); err != nil {
		t.Fatal(err)
	}
	b := p.person(t, "dora", access.ScopeAdmin).logIn(t)
	p.audit = []audit.Entry{{ID: 7, Subject: "zone", Action: "update", ZoneID: 1, Before: state(5), After: state(9)}}
	_, page := b.search(t, "alice")
	sealed := regexp.MustCompile(`name="bucket" value="([^"]*)"`).FindStringSubmatch(page)[1]
	for _, wrong := range wrongForms(sealed) {
		if !wrong.form.Has("reason") {
			wrong.form.Set("reason", "ticket 4711")
		}
		status, page := b.post(t, wrong.path, wrong.form)
		if wrong.path == "health/webhooks/1/resend" { // it has no dead delivery, and so no form
			contains(t, page, "was typed is kept", "Send it again", "<li>Must not be empty.</li>")
			continue
		}
		mark := ` aria-invalid="true" aria-describedby="wrong-` + wrong.field + `" autofocus`
		if wrong.field == "" {
			mark = `role="alert" tabindex="-1" autofocus`
		}
		if status < 400 || strings.Count(page, mark) != 1 || strings.Count(page, " autofocus") != 1 ||
			wrong.field != "" && strings.Count(page, `id="wrong-`+wrong.field+`">`) != 1 {
			t.Errorf("%s with a wrong %s: %d, %s", wrong.path, wrong.field, status, page)
		}
		if !strings.Contains(page, `value="ticket 4711"`) && wrong.field != "reason" && wrong.field != "text" {
			t.Errorf("%s with a wrong %s has lost the reason: %s", wrong.path, wrong.field, page)
		}
		lacks(t, page, "Go back", "was typed is kept")
	}
}

func TestMarkedKeysStayMarkedInWrongForm(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.locking(t, 1, "alice", "bob")
	b := p.browser(t)
	_, page := b.get(t, "locked?zone=1")
	marked := regexp.MustCompile(`name="txn" value="([0-9]+)"`).FindStringSubmatch(page)[1]
	_, page = b.post(t, "locked/release?zone=1", url.Values{"zone": {"1"}, "txn": {marked}, "reason": {""}})
	if boxes := regexp.MustCompile(`name="txn" value="([0-9]+)"[^>]* checked`).FindAllStringSubmatch(page, -1); len(boxes) != 1 ||
		boxes[0][1] != marked || strings.Count(page, "<details class=\"change-form\" open>") != 0 {
		t.Errorf("of %s are marked %v in %s", marked, boxes, page)
	}
}

// AddOverride is that of the store, or ErrBusy.
func (p *place) AddOverride(ctx context.Context, o service.Override, by string) (service.Override, error) {
	if p.away {
		return o, service.ErrAway
	}
	return p.Store.AddOverride(ctx, o, by)
}

// Overrides is that of the store, or ErrBusy.
func (p *place) Overrides(ctx context.Context, zone int64, after uint64, limit int) ([]service.Override, error) {
	if p.away {
		return nil, service.ErrAway
	}
	return p.Store.Overrides(ctx, zone, after, limit)
}

func TestFormOutlivesAnAwayDatabase(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
	form := url.Values{
		"zone": {"1"}, "bucket_key": {"alice"}, "action": {"deny"}, "lasts": {"3600"}, "reason": {"ticket 4711"},
	}
	p.away = true
	b := p.browser(t)
	b.posts(t, "overrides", form, http.StatusServiceUnavailable, "This cannot be answered now", "What was typed is kept",
		`name="bucket_key" value="alice"`, `name="reason" value="ticket 4711"`, "Send it again")
	p.away = false
	b.posts(t, "overrides", form, http.StatusOK, "The override holds")
}

func TestEndThatHasPassedIsRefusedAtItsField(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
	b := p.browser(t)
	form := url.Values{
		"zone": {"1"}, "bucket_key": {"alice"}, "action": {"deny"}, "lasts": {"until"}, "expires_at": {"2020-01-02T03:04"},
		"reason": {"ticket 4711"},
	}
	for _, at := range []string{"2020-01-02T03:04", "0001-01-01T00:00"} {
		form.Set("expires_at", at)
		b.posts(t, "overrides", form, http.StatusBadRequest, `id="wrong-expires_at">Must lie in the future`, `value="`+at+`"`,
			`value="until" selected`)
	}
	o := service.Override{ZoneID: 1, Key: "bob", Action: service.OverrideDeny, Reason: "r"}
	o.ExpiresAt.Time = p.now().Add(time.Hour)
	if _, err := p.AddOverride(t.Context(), o, "carol"); err != nil {
		t.Fatal(err)
	}
	p.pass(2 * time.Hour)
	form = url.Values{"action": {"deny"}, "lasts": {"same"}, "reason": {"r"}}
	b.posts(t, "overrides/1/1", form, http.StatusBadRequest, `id="wrong-lasts">Must lie in the future`)
	if all, err := p.Overrides(t.Context(), 1, 0, 9); err != nil || len(all) != 1 {
		t.Errorf("there are %v, %v", all, err)
	}
}

func TestEachPathAsksBeforeSavingMistakes(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.guardLogins(t)
	p.attempt(t, "", host("192.0.2.7"))
	o := service.Override{ZoneID: 2, Key: "192.0.2.1", Action: service.OverrideDeny, Reason: "r"}
	if _, err := p.AddOverride(t.Context(), o, "carol"); err != nil {
		t.Fatal(err)
	}
	b := p.browser(t)
	path, page := b.search(t, "192.0.2.7")
	bucket := regexp.MustCompile(`name="bucket" value="([^"]*)"`).FindStringSubmatch(page)[1]
	zero := url.Values{"action": {"limit"}, "rate": {"0"}, "lasts": {"never"}}
	for _, odd := range []struct {
		path string
		form url.Values
	}{
		{"zones/new", url.Values{"id": {"9"}, "rate": {"0"}, "window": {"60"}, "do": {"save"}}},
		{"zones/1/edit", url.Values{"revision": {"1"}, "rate": {"0"}, "do": {"save"}}},
		{"zones/1/edit", url.Values{"revision": {"1"}, "do": {"save:0"}}},
		{"overrides", url.Values{"zone": {"2"}, "bucket_key": {"0.0.0.0/0"}, "action": {"deny"}, "lasts": {"never"}}},
		{"overrides/2/1", zero},
		{path + "/override?zone=2", url.Values{"bucket": {bucket}, "action": {"limit"}, "rate": {"0"}, "lasts": {"never"}}},
	} {
		odd.form.Set("reason", "ticket 4711")
		_, page := b.post(t, odd.path, odd.form)
		_, top, isAsked := strings.Cut(page,
			`<section class="panel odd" role="alert" aria-labelledby="odd" tabindex="-1" autofocus>`)
		if !isAsked {
			t.Errorf("%s is answered with %s", odd.path, page)
		}
		top, _, _ = strings.Cut(top, "<label")
		contains(t, top, "Nothing was saved yet", `value="anyway">Save it all the same`, `name="reason" value="ticket 4711"`)
	}
	if changes := p.Audits(); len(changes) != 1 {
		t.Errorf("the audit has %+v", changes)
	}
	zero.Set("do", "anyway")
	b.posts(t, "overrides/2/1", zero, http.StatusOK, "The override holds", "Limit 0<")
}
