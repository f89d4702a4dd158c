package console_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
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
	page := p.browser(t).gets(t, "health", http.StatusOK, "Single old attempts leave", "Failing", "the disk is full",
		"&lt;img", "Work is left", "1\u202f234", "Never ran", "There are no webhooks")
	lacks(t, page, "<img")
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
