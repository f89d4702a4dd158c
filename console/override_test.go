package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

func TestOverridesAreAddedChangedAndDeletedByForms(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
	p.SetZone(t, service.Zone{ID: 2, Rate: 5, Window: time.Minute, Keys: service.KeyRule{Kind: service.KeyIP}})
	b := p.browser(t)
	_, page := b.post(t, "overrides",
		url.Values{"zone": {"1"}, "bucket_key": {hostile}, "action": {"deny"}, "lasts": {"never"}, "reason": {"he guesses"}})
	contains(t, page, "The override holds", "Always deny", "never ends", "he guesses", "&lt;img", "U+202E")
	lacks(t, page, "<img")
	b.posts(t, "overrides", url.Values{
		"zone": {"2"}, "bucket_key": {"203.0.113.0/24"}, "action": {"limit"}, "rate": {"500"},
		"lasts": {"3600"}, "reason": {"office"},
	}, http.StatusOK, "203.0.113.0/24", "Limit 500", "data-until")
	b.posts(t, "overrides/1/1", url.Values{
		"action": {"limit"}, "rate": {"9"}, "window": {"30"}, "lasts": {"until"},
		"expires_at": {"2030-01-02T03:04"}, "reason": {"less"},
	}, http.StatusOK, "Limit 9 in 30 s", "2030-01-02 03:04:00")
	b.posts(t, "overrides/1/1", url.Values{"action": {"limit"}, "lasts": {"same"}, "reason": {"less"}},
		http.StatusBadRequest, "Rate must be a whole number")
	b.posts(t, "overrides/1/1", url.Values{"action": {"deny"}, "lasts": {"same"}, "reason": {" "}}, http.StatusBadRequest,
		`id="wrong-reason">Must not be empty`)
	_, page = b.post(t, "overrides/1/1/delete", url.Values{"reason": {"over"}})
	contains(t, page, "The override was deleted", "203.0.113.0/24")
	lacks(t, page, "&lt;img")
}

func TestOverridesThatEndSoonestComeFirst(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
	for key, lasts := range map[string]time.Duration{"late": 48 * time.Hour, "soon": time.Hour, "never": 0} {
		o := service.Override{ZoneID: 1, Key: key, Action: service.OverrideAllow, Reason: "r"}
		if lasts > 0 {
			o.ExpiresAt.Time = time.Now().Add(lasts)
		}
		if _, err := p.AddOverride(t.Context(), o, "carol"); err != nil {
			t.Fatal(err)
		}
	}
	_, page := p.browser(t).get(t, "overrides")
	soon, late, never := strings.Index(page, ">soon<"), strings.Index(page, ">late<"), strings.Index(page, ">never<")
	if soon < 0 || soon > late || late > never {
		t.Errorf("soon is at %d, late at %d, never at %d", soon, late, never)
	}
	lacks(t, strings.ReplaceAll(page, ">soon<", ""), "soon\"", "keys/soon")
}

func TestOverridePageTellsWhetherItWasMet(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
	if _, err := p.AddOverride(t.Context(),
		service.Override{ZoneID: 1, Key: "alice", Action: service.OverrideDeny, Reason: "r"}, "carol"); err != nil {
		t.Fatal(err)
	}
	b := p.browser(t)
	b.gets(t, "overrides/1/1", http.StatusOK, "<dt>Newest attempt</dt><dd>none</dd>", "carol")
	p.ask(t, of(1, "alice"))
	b.gets(t, "overrides/1/1", http.StatusOK, "<dt>Met this override</dt><dd>yes</dd>")
}

func TestBlanketDenyIsConfirmedBeforeSaving(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.SetZone(t, service.Zone{ID: 2, Rate: 5, Window: time.Minute, Keys: service.KeyRule{Kind: service.KeyIP}})
	b := p.browser(t)
	form := url.Values{
		"zone": {"2"}, "bucket_key": {"0.0.0.0/0"}, "action": {"deny"}, "lasts": {"28800"},
		"reason": {"ticket 4711"},
	}
	b.posts(t, "overrides", form, http.StatusOK, "Nothing was saved yet", "covers much of the Internet",
		`value="0.0.0.0/0"`, `value="28800" selected`, `value="ticket 4711"`, "Save it all the same")
	if all, err := p.Overrides(t.Context(), 2, 0, 9); err != nil || len(all) != 0 {
		t.Errorf("there are %v, %v", all, err)
	}
	form.Set("do", "anyway")
	b.posts(t, "overrides", form, http.StatusOK, "The override holds", "0.0.0.0/0")
}
