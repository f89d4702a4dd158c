package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/lockout"
)

// locking makes a zone and locks keys out in it.
func (p *place) locking(t *testing.T, zone int64, keys ...string) {
	t.Helper()
	p.SetZone(t, service.Zone{ID: zone, Rate: 1, Window: time.Hour, Lockout: time.Hour, Description: "users"})
	for _, key := range keys {
		p.ask(t, of(int(zone), key), of(int(zone), key))
	}
}

// lockedKeys returns the keys that are locked out, the newest first.
func (p *place) lockedKeys(t *testing.T, zone int64) (keys []string) {
	t.Helper()
	lockouts, err := lockout.All(t.Context(), p, zone, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, lockout := range lockouts {
		keys = append(keys, lockout.Key)
	}
	return keys
}

// fields returns the hidden fields of the form with an action.
func fields(t *testing.T, page, action string) url.Values {
	t.Helper()
	form := regexp.MustCompile(`(?s)<form[^>]*action="/console/` + action + `[?"].*?</form>`).FindString(page)
	if form == "" {
		t.Fatalf("there is no form %s in %s", action, page)
	}
	values := url.Values{}
	for _, field := range regexp.MustCompile(`<input type="hidden" name="([a-z]*)" value="([^"]*)"`).FindAllStringSubmatch(
		form, -1) {
		values.Add(field[1], field[2])
	}
	return values
}

func TestTheMarkedAreReleasedUnderThePersonsName(t *testing.T) {
	t.Parallel()
	p := guarded(t)
	p.locking(t, 1, "alice", "bob", "carol")
	helen := p.person(t, "helen", access.ScopePeek, access.ScopeRelease).logIn(t)
	_, page := helen.get(t, "locked")
	boxes := regexp.MustCompile(`name="txn" value="([0-9]+)"`).FindAllStringSubmatch(page, -1)
	if len(boxes) != 3 || strings.Contains(page, "/console/txns/") {
		t.Fatalf("%d keys can be marked, of 3, in %s", len(boxes), page)
	}
	form := fields(t, page, "locked/release")
	form["txn"] = []string{boxes[0][1], boxes[2][1]}
	helen.posts(t, "locked/release", form, http.StatusBadRequest)
	form.Set("reason", "ticket 4711")
	helen.posts(t, "locked/release", form, http.StatusOK, "The buckets are released")
	if left := fmt.Sprint(p.lockedKeys(t, 1)); left != "[bob]" {
		t.Errorf("locked out are %s", left)
	}
	for _, audit := range p.Audits() {
		if strings.HasPrefix(audit.Action, "release") && (audit.Principal != "helen" || audit.Reason != "ticket 4711") {
			t.Errorf("the audit has %+v", audit)
		}
	}
}

func TestRenewedLockoutIsLeftAlone(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.locking(t, 1, "alice", "bob")
	b := p.browser(t)
	_, page := b.get(t, "locked?zone=1")
	form := fields(t, page, "locked/release")
	for _, box := range regexp.MustCompile(`name="txn" value="([0-9]+)"`).FindAllStringSubmatch(page, -1) {
		form.Add("txn", box[1])
	}
	if err := p.Release(t.Context(), service.Bucket{ZoneID: 1, Key: "alice"}, "", "by another person"); err != nil {
		t.Fatal(err)
	}
	p.locking(t, 1, "alice")
	form.Set("reason", "x")
	b.posts(t, "locked/release", form, http.StatusOK)
	if left := fmt.Sprint(p.lockedKeys(t, 1)); left != "[alice]" {
		t.Errorf("locked out are %s", left)
	}
}

func TestTypingZoneReleasesAllItsLockoutsInParts(t *testing.T) {
	t.Parallel()
	p := open(t)
	keys := make([]string, 250)
	for i := range keys {
		keys[i] = fmt.Sprint("user-", i)
	}
	p.locking(t, 7, keys...)
	b := p.browser(t)
	_, page := b.get(t, "locked?zone=7")
	form := fields(t, page, "locked/release-all")
	form.Set("reason", "a botnet has locked everybody out")
	for _, typed := range []string{"", "1", "user"} {
		form.Set("confirm", typed)
		if status, _ := b.post(t, "locked/release-all", form); status != http.StatusBadRequest ||
			len(p.lockedKeys(t, 7)) != 250 {
			t.Fatalf("%q confirms: %d, %d are locked out", typed, status, len(p.lockedKeys(t, 7)))
		}
	}
	form.Set("confirm", "users")
	p.locking(t, 7, "later") // than the page
	for _, want := range []string{
		"Released 100 of 250, 150 left.", "Released 200 of 250, 50 left.",
		"Done: 250 buckets are released.",
	} {
		status, page := b.post(t, "locked/release-all", form)
		if status != http.StatusOK || !strings.Contains(page, want) {
			t.Fatalf("want %q, got %d, %s", want, status, page)
		}
		if strings.Contains(want, "left") {
			form = fields(t, page, "locked/release-all")
			p.locking(t, 7, "late") // a key that is locked out meanwhile stays
			if err := p.Release(t.Context(), service.Bucket{ZoneID: 7, Key: "late"}, "", "x"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if left := fmt.Sprint(p.lockedKeys(t, 7)); left != "[later]" {
		t.Errorf("locked out are %v", left)
	}
}

func TestAPageOfLockoutsCountsAndGoesOn(t *testing.T) {
	t.Parallel()
	p := open(t)
	keys := make([]string, 120)
	for i := range keys {
		keys[i] = fmt.Sprint("user-", i)
	}
	p.locking(t, 1, keys...)
	p.SetZone(t, service.Zone{ID: 2, Rate: 1, Window: time.Hour})
	b := p.browser(t)
	_, all := b.get(t, "locked")
	if n := strings.Count(all, "data-until"); n != 10 || !strings.Contains(all, "120</span>") ||
		strings.Contains(all, "zone-2") {
		t.Errorf("the page of all zones shows %d lockouts: %s", n, all)
	}
	_, first := b.get(t, link(t, all, "All of this zone"))
	_, second := b.get(t, link(t, first, "Older"))
	if a, b := strings.Count(first, "data-until"), strings.Count(second, "data-until"); a != 100 || b != 20 {
		t.Errorf("the pages show %d and %d lockouts", a, b)
	}
	b.gets(t, "locked?zone=99", http.StatusNotFound)
}
