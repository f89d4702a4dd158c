package wforce_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/doors/wforce"
	"velocityd/service"
	"velocityd/service/access"
)

// sessions are those in which a login may stand.
func sessions() map[string]string {
	return map[string]string{"in a session": "bmCefdRgVJl", "without a session": ""}
}

func TestRightPasswordIsOneAttemptGivenBack(t *testing.T) {
	t.Parallel()
	for name, session := range sessions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t)
			for range 2 * userRate {
				asked := login(session, "Alice", "0f24")
				for range 2 { // before and after Dovecot looks at the password
					if a := p.say(t, "allow", asked); a.verdict(t) != 0 {
						t.Fatalf("refused: %v", a.body)
					}
				}
				p.say(t, "report", asked.ended(true))
			}
			txns, counted := p.of("alice")
			if len(txns) != 2*userRate || counted != 0 {
				t.Errorf("%d logins are %d txns, of which %d count; want one each, and none", 2*userRate, len(txns), counted)
			}
		})
	}
}

func TestEachGuessTakesPlaceDespiteSameHash(t *testing.T) {
	t.Parallel()
	for name, session := range sessions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t)
			asked := login(session, "mallory", "041c") // of every password with CRAM-MD5
			for i := range userRate {
				if a := p.say(t, "allow", asked); a.verdict(t) != 0 {
					t.Fatalf("guess %d is refused: %v", i+1, a.body)
				}
				p.say(t, "report", asked.ended(false))
			}
			a := p.say(t, "allow", asked)
			if a.verdict(t) != -1 || a.body["msg"] != denial {
				t.Errorf("the guess beyond the rate: %v, want -1 and %q", a.body, denial)
			}
			if txns, counted := p.of("mallory"); len(txns) != userRate+1 || counted != userRate {
				t.Errorf("%d txns, of which %d count; want %d and %d", len(txns), counted, userRate+1, userRate)
			}
		})
	}
}

func TestGuessesAtOnceTakeAPlaceForTwo(t *testing.T) {
	t.Parallel()
	p := open(t)
	const guesses = 4 * userRate
	passed := make(chan int, guesses)
	var all sync.WaitGroup
	for range guesses {
		all.Go(func() { passed <- p.say(t, "allow", login("", "mallory", "041c")).verdict(t) })
	}
	all.Wait()
	close(passed)
	allowed := 0
	for status := range passed {
		allowed += status + 1
	}
	if _, counted := p.of("mallory"); allowed > 2*userRate || counted != userRate {
		t.Errorf("%d of %d guesses passed, %d count; want at most %d, and %d", allowed, guesses, counted, 2*userRate,
			userRate)
	}
}

func TestInstancesFindOneAttempt(t *testing.T) {
	t.Parallel()
	first := open(t)
	second := first.instance(t)
	asked := login("bmCefdRgVJl", "alice", "0f24")
	first.say(t, "allow", asked)
	second.say(t, "allow", asked)
	first.instance(t).say(t, "report", asked.ended(true))
	if txns, counted := first.of("alice"); len(txns) != 1 || counted != 0 {
		t.Errorf("%d txns, of which %d count; want 1 that was given back", len(txns), counted)
	}
	second.say(t, "allow", asked)
	if txns, _ := first.of("alice"); len(txns) != 2 {
		t.Errorf("%d txns after the next login, want 2", len(txns))
	}
}

func TestThirdQuestionOrOtherSessionIsNewAttempt(t *testing.T) {
	t.Parallel()
	p := open(t)
	for range 3 {
		p.say(t, "allow", login("first", "mallory", "041c"))
	}
	if _, counted := p.of("mallory"); counted != 2 {
		t.Errorf("three questions take %d places, want 2", counted)
	}
	p.say(t, "allow", login("second", "mallory", "041c"))
	if _, counted := p.of("mallory"); counted != 3 {
		t.Errorf("two sessions take %d places, want 3", counted)
	}
}

func TestAnAttemptWithoutAReportEndsByTime(t *testing.T) {
	t.Parallel()
	p := open(t)
	asked := login("", "mallory", "041c")
	p.say(t, "allow", asked)
	later := p.instance(t, func(o *wforce.Options) {
		find := o.Attempts.Attempt
		o.Attempts = attempts(func(ctx context.Context, id string) (service.Recall, error) {
			found, err := find(ctx, id)
			found.Decision.CheckedAt.Time = found.Decision.CheckedAt.Add(-time.Minute)
			return found, err
		})
	})
	for _, by := range []string{"another instance, later", "the same again, whose own memory tells how old the attempt is"} {
		later.say(t, "allow", asked)
		if txns, _ := p.of("mallory"); len(txns) != 2 {
			t.Errorf("%s: %d txns, want 2", by, len(txns))
		}
	}
}

func TestAnApplicationThatOnlyReportsIsCounted(t *testing.T) {
	t.Parallel()
	p := open(t)
	for range userRate + 1 {
		if a := p.say(t, "report", login("", "mallory", "0f24").ended(false)); a.status != http.StatusOK ||
			a.body["status"] != "ok" {
			t.Errorf("report: %d %v", a.status, a.body)
		}
	}
	if txns, counted := p.of("mallory"); len(txns) != userRate+1 || counted != userRate {
		t.Errorf("%d txns, of which %d count; want %d and %d", len(txns), counted, userRate+1, userRate)
	}
	p.say(t, "report", login("", "alice", "0f24").ended(true))
	if txns, counted := p.of("alice"); len(txns) != 1 || txns[0].Outcome != service.OutcomeSuccess || counted != 0 {
		t.Errorf("a good login: %+v", txns)
	}
}

func TestUncheckedPasswordReportsNothing(t *testing.T) {
	t.Parallel()
	p := open(t)
	asked := login("bmCefdRgVJl", "alice", "0f24")
	p.say(t, "allow", asked)
	for name, value := range map[string]any{"policy_reject": true, "fail_type": "internal"} {
		report := asked.ended(false)
		report[name] = value
		p.say(t, "report", report)
	}
	if txns, _ := p.of("alice"); len(txns) != 1 || txns[0].Outcome != "" {
		t.Errorf("txns %+v, want one without an outcome", txns)
	}
}

func TestLoginThatIsNoKeyCountsForAddress(t *testing.T) {
	t.Parallel()
	p := open(t)
	for _, name := range []string{"", strings.Repeat("a", 300), "a\u0000b", "\u200b"} {
		before := len(p.Txns(service.Bucket{ZoneID: addressZone, Key: "203.0.113.9"}))
		if a := p.say(t, "allow", login("s", name, "0f24")); a.verdict(t) != 0 {
			t.Errorf("%q: %v", name, a.body)
		}
		if after := len(p.Txns(service.Bucket{ZoneID: addressZone, Key: "203.0.113.9"})); after != before+1 {
			t.Errorf("%q: the address has %d txns more, want 1", name, after-before)
		}
	}
	noAddress := login("s", "alice", "0f24")
	noAddress["remote"] = ""
	p.say(t, "allow", noAddress)
	if txns, _ := p.of("alice"); len(txns) != 1 {
		t.Errorf("without an address alice has %d txns, want 1", len(txns))
	}
	noAddress["login"] = ""
	if a := p.say(t, "allow", noAddress); a.verdict(t) != -1 {
		t.Errorf("without login and address: %v, want -1", a.body)
	}
}

func TestALostReportLetsNobodyGuessAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := openInside(
			t, answering(
				"/outcome", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
		asked := login("bmCefdRgVJl", "mallory", "041c")
		for range 2 {
			p.say(t, "allow", asked)
			if a := p.say(t, "report", asked.ended(false)); a.status < http.StatusInternalServerError ||
				a.body["status"] != "failure" {
				t.Errorf("the report: %d %v, want 503 or 504", a.status, a.body)
			}
		}
		if _, counted := p.of("mallory"); counted != 2 {
			t.Errorf("two guesses take %d places, want 2", counted)
		}
		time.Sleep(time.Minute) // of the bubble: the reports have given up
	})
}

func TestAllowDoesNotNeedTheRecordOfAttempts(t *testing.T) {
	t.Parallel()
	p := open(t, slowly(func(int64) bool { return true }))
	asked := login("bmCefdRgVJl", "mallory", "041c")
	for range 2 * userRate { // an attempt is asked for twice
		if a := p.say(t, "allow", asked); a.verdict(t) != 0 {
			t.Errorf("refused: %v", a.body)
		}
	}
	if a := p.say(t, "allow", asked); a.verdict(t) != -1 {
		t.Errorf("beyond the rate: %v", a.body)
	}
	if a := p.say(t, "report", asked.ended(true)); a.status != http.StatusServiceUnavailable {
		t.Errorf("report: %d %v, want 503", a.status, a.body)
	}
}

func TestAnAnswerThatDoesNotComeIs503(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := openInside(t, answering("/v1/check", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
		if a := p.say(t, "allow", login("s", "alice", "0f24")); a.status != http.StatusServiceUnavailable ||
			a.body["status"] != "failure" {
			t.Errorf("%d %v, want 503", a.status, a.body)
		}
	})
}

func TestCallersWithOtherTokensHaveOtherAttempts(t *testing.T) {
	t.Parallel()
	p := guarded(t, access.ScopeCheck, access.ScopeReport)
	asked := login("bmCefdRgVJl", "alice", "0f24")
	p.say(t, "allow", asked)
	other := p.credentials.AddToken(
		access.Caller{Name: "other", Scopes: []access.Scope{access.ScopeCheck, access.ScopeReport}})
	second := p.instance(t)
	second.token = other.Reveal()
	second.say(t, "allow", asked)
	if txns, _ := p.of("alice"); len(txns) != 2 || txns[0].AttemptID == txns[1].AttemptID {
		t.Errorf("txns %+v, want 2 of different attempts", txns)
	}
}
