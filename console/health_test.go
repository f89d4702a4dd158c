package console_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/webhook"
)

func TestHealthTellsHowEachTaskGoes(t *testing.T) {
	t.Parallel()
	p := open(t)
	began := time.Now().Add(-time.Minute)
	p.SetRetention(
		service.RetentionTask{
			Name: "old_txns", BeganAt: service.At(began), EndedAt: service.At(began),
			Error: "the disk is full: " + hostile,
		},
		service.RetentionTask{
			Name: "old_events", BeganAt: service.At(began), EndedAt: service.At(began),
			SucceededAt: service.At(began), Backlog: true, Removed: 1234,
		},
		service.RetentionTask{Name: "old_audit"},
	)
	page := p.browser(t).gets(t, "health", http.StatusOK, "In the background 3 tasks are not fine.",
		"velocityd is ready, since", "2026-11-27 12:30:01", "Single old attempts leave", "Failing", "the disk is full",
		"&lt;img", "Work is left", "1\u202f234", "Never ran", "There are no webhooks")
	lacks(t, page, "<img")
}

func TestFineTasksAreOneLineBelowOthers(t *testing.T) {
	t.Parallel()
	p := open(t)
	began := time.Now().Add(-time.Hour)
	fine := service.RetentionTask{
		Name: "old_events", BeganAt: service.At(began), EndedAt: service.At(began), SucceededAt: service.At(began),
		NextAt: service.At(time.Now().Add(-time.Minute)),
	}
	late, other := fine, fine
	late.Name, late.NextAt, other.Name = "old_txns", service.At(began), "marks"
	p.SetRetention(fine, late, other)
	page := p.browser(t).gets(t, "health", http.StatusOK, "In the background one task is not fine.", "Late</span>",
		"2 tasks are fine; the last ran at "+began.UTC().Format("15:04:05")+" UTC.")
	_, behind, _ := strings.Cut(page, "<details")
	contains(t, behind, "Old events leave", "The service marks that it is alive")
	lacks(t, behind, "Single old attempts leave", "Late</span>")
}

func TestHealthSaysWhyChecksAreNotDecided(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.unready = errors.New("table zone_txn is locked")
	page := p.browser(t).gets(t, "health", http.StatusOK, "Work in the background",
		`<p class="lead">velocityd is <strong>not ready</strong>: table zone_txn is locked, since `, "2026-11-27 12:30:01")
	lacks(t, page, "velocityd is ready")
}

func TestEachPageSaysThatDatabaseIsAway(t *testing.T) {
	t.Parallel()
	isAway, isCallerKnown := new(atomic.Bool), new(atomic.Bool)
	p := guarded(t, before(func(w http.ResponseWriter, r *http.Request) bool {
		isOwn := r.URL.Path == "/readyz" || isCallerKnown.Load() && r.URL.Path == "/v1/caller"
		return isAway.Load() && !isOwn && refuse(w, service.ErrBusy)
	}))
	b := p.person(t, "carol", access.ScopeAdmin).logIn(t)
	p.unready = errors.New("the database cannot be reached")
	isAway.Store(true)
	for _, isKnown := range []bool{false, true} {
		isCallerKnown.Store(isKnown)
		for _, path := range []string{"", "history", "locked", "zones", "audit", "tokens", "health", "txns/1", "search"} {
			if path == "search" && isKnown {
				continue // it asks for nothing
			}
			page := b.gets(t, path, http.StatusServiceUnavailable, "<h1>Not ready</h1>", "the database cannot be reached",
				"2026-11-27 12:30:01", "Checks are answered with 503", `id="away" data-live="5"`,
				`<noscript><meta http-equiv="refresh"`, `<a class="name"`, "Log out</button>")
			if strings.Contains(page, "<nav") != isKnown || strings.Contains(page, "is ready") ||
				strings.Contains(page, "<bdi class=\"key\"></bdi>") {
				t.Errorf("%q for a reader who is known (%t): %s", path, isKnown, page)
			}
		}
		_, page := b.post(t, "zones/1/delete", url.Values{"typed": {"1"}, "reason": {"x"}, "revision": {"1"}})
		contains(t, page, "<h1>Not ready</h1>", "Nothing was changed")
		lacks(t, page, "http-equiv", "data-live")
	}
	isAway.Store(false)
	p.unready = nil
	b.gets(t, "", http.StatusOK, "velocityd is ready, since")
}

func TestAdministratorsAloneSeeWebhooksAndResendDeadDeliveries(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	if _, err := p.AddWebhook(t.Context(), webhook.Webhook{URL: "https://hooks.example.com/v"}, "secret",
		"carol"); err != nil {
		t.Fatal(err)
	}
	admin, analyst := p.person(t, "carol", access.ScopeAdmin), p.person(t, "ann", access.ScopeHistory)
	admin.logIn(t).gets(t, "health", http.StatusOK, "https://hooks.example.com/v", "Nothing sent yet")
	admin.posts(t, "health/webhooks/1/resend", url.Values{"reason": {""}}, http.StatusBadRequest, "Must not be empty")
	admin.posts(t, "health/webhooks/1/resend", url.Values{"reason": {"it works again"}}, http.StatusOK,
		"Everything was received")
	_, page := analyst.logIn(t).get(t, "health")
	lacks(t, page, "hooks.example.com")
	analyst.posts(t, "health/webhooks/1/resend", url.Values{"reason": {"x"}}, 403)
}

func TestTheDoctorsSentencesAreShownTheWorstFirst(t *testing.T) {
	t.Parallel()
	p := newPlace(t, false)
	p.examine = func(context.Context) ([]service.Diagnosis, error) {
		return []service.Diagnosis{
			{Level: "ok", About: "clock", Is: "right"},
			{Level: "fault", About: "disk", Is: "full", Do: "make room"},
		}, nil
	}
	p.start(t, false)
	page := p.browser(t).gets(t, "health/doctor", http.StatusOK, "1 fault and 0 warnings", "make room")
	if strings.Index(page, ">disk<") > strings.Index(page, ">clock<") {
		t.Error("the fault comes last")
	}
}
