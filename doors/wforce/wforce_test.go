package wforce_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/access"
)

func TestBothPathFormsAndEveryCredentialAreTaken(t *testing.T) {
	t.Parallel()
	p := guarded(t, access.ScopeCheck, access.ScopeReport)
	body := []byte(`{"login":"alice","remote":"::ffff:203.0.113.9","attrs":{"a":[1]}}`)
	for _, path := range []string{
		"/1/2/?command=allow", "/1/2?command=allow", "/1/2/command/allow", "/0/2/?command=allow",
		"/1/0/?command=allow",
	} {
		if a := p.send(t, http.MethodPost, "/wforce"+path, body); a.verdict(t) != 0 {
			t.Errorf("%s: %v", path, a.body)
		}
	}
	if n := len(p.Txns(service.Bucket{ZoneID: addressZone, Key: "203.0.113.9"})); n != 3 {
		t.Errorf("the address has %d txns, want 2 of the three that ask the same, and 1", n)
	}
	anyone := *p
	anyone.token = ""
	for name, value := range map[string]string{"X-API-Key": p.token, "Authorization": "Bearer " + p.token} {
		if a := anyone.send(t, http.MethodGet, "/wforce/1/2/?command=ping", nil, name, value); a.status != http.StatusOK {
			t.Errorf("%s: status %d, want 200", name, a.status)
		}
	}
}

func TestFailedRequestsSayWhyInProtocolsForm(t *testing.T) {
	t.Parallel()
	p := guarded(t, access.ScopeCheck)
	stranger := *p
	stranger.token = access.NewToken().Reveal()
	for _, asked := range []struct {
		by           *place
		method, path string
		body         string
		status       int
	}{
		{&stranger, "POST", "/wforce/1/2/?command=allow", "{}", 401},
		{&stranger, "POST", "/wforce/9/8/nowhere", "{", 401},
		{p, "POST", "/wforce/1/2/?command=allow", "{", 400},
		{p, "POST", "/wforce/1/2/?command=allow", "[]", 400},
		{p, "POST", "/wforce/1/2/?command=allow", string(bytes.Repeat([]byte(" "), 64<<10+1)), 413},
		{p, "POST", "/wforce/1/2/?command=nothing", "{}", 404},
		{p, "GET", "/wforce/1/2/?command=allow", "", 404},
		{p, "POST", "/wforce/1/?command=allow", "{}", 404},
		{p, "POST", "/wforce/0/0/?command=allow", "{}", 404},
		{p, "POST", "/wforce/-1/2/?command=allow", "{}", 404},
		{p, "POST", "/wforce/77/0/?command=allow", `{"login":"alice"}`, 404},
		{p, "POST", "/wforce/1/2/?command=report", `{"login":"alice","remote":"192.0.2.1"}`, 403},
		{p, "POST", "/wforce/1/2/?command=reset", `{"login":"alice"}`, 403},
	} {
		a := asked.by.send(t, asked.method, asked.path, []byte(asked.body))
		if a.status != asked.status || a.body["status"] != "failure" || a.body["reason"] == "" {
			t.Errorf("%s %s: %d %v, want %d", asked.method, asked.path, a.status, a.body, asked.status)
		}
		if a.status == http.StatusUnauthorized &&
			(a.body["reason"] != "Unauthorized" || a.header.Get("WWW-Authenticate") == "") {
			t.Errorf("a stranger: %v %v", a.header, a.body)
		}
	}
}

func TestAWebPageOfAnotherOriginChangesNothing(t *testing.T) {
	t.Parallel()
	p := open(t)
	for command, body := range map[string]string{
		"allow":  `{"login":"alice","remote":"203.0.113.9"}`,
		"report": `{"login":"alice","remote":"203.0.113.9","success":false}`,
		"reset":  `{"login":"alice"}`, "addBLEntry": `{"login":"alice","expire_secs":60}`,
	} {
		if a := p.send(t, http.MethodPost, "/wforce/1/2/?command="+command, []byte(body), "Sec-Fetch-Site",
			"cross-site"); a.status != http.StatusForbidden {
			t.Errorf("%s: status %d, want 403", command, a.status)
		}
	}
	if len(p.Buckets()) > 0 || len(p.Audits()) > 2 { // two zones were made
		t.Errorf("buckets %v, changes %v", p.Buckets(), p.Audits())
	}
}

func TestEntriesOfListsAreOverrides(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.done(t, "addBLEntry", tuple{"login": "Mallory", "expire_secs": 60, "reason": "first"})
	p.done(t, "addBLEntry", tuple{"login": "mallory", "expire_secs": 3600, "reason": "again"})
	p.done(t, "addBLEntry", tuple{"netmask": "203.0.113.7/24", "expire_secs": 3600})
	p.done(t, "addBLEntry", tuple{"netmask": "203.0.113.0/24", "expire_secs": 3600, "reason": "net"})
	p.done(t, "addWLEntry", tuple{"ip": "203.0.113.9", "expire_secs": 3600, "reason": "office"})
	if a := p.say(t, "allow", login("s", "mallory", "0f24")); a.verdict(t) != -1 || a.body["msg"] != denial {
		t.Errorf("a login of the black list: %v", a.body)
	}
	lists := map[string]string{
		"getBL": "map[bl_entries:[map[expiration:T login:mallory reason:again] map[expiration:T netmask:203.0.113.0/24 " +
			"reason:net]]]",
		"getWL": "map[wl_entries:[map[expiration:T ip:203.0.113.9 reason:office]]]",
	}
	for command, want := range lists {
		a := p.send(t, http.MethodGet, "/wforce/1/2/command/"+command, nil)
		for _, list := range a.body {
			for _, entry := range list.([]any) {
				entry.(map[string]any)["expiration"] = "T"
			}
		}
		if got := fmt.Sprint(a.body); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
	p.done(t, "delWLEntry", tuple{"login": "mallory"}) // the user is on the other list
	p.done(t, "delBLEntry", tuple{"login": "mallory"})
	p.done(t, "delBLEntry", tuple{"netmask": "203.0.113.0/24"})
	p.done(t, "delWLEntry", tuple{"ip": "203.0.113.9"})
	if a := p.say(t, "allow", login("s", "mallory", "0f24")); a.verdict(t) != 0 {
		t.Errorf("a login that is on no list any more: %v", a.body)
	}
	for _, wrong := range []tuple{
		{"expire_secs": 60},
		{"login": "a", "ip": "203.0.113.9", "expire_secs": 60},
		{"ja3": "x", "expire_secs": 60},
		{"login": "a"},
		{"netmask": "here", "expire_secs": 60},
	} {
		if a := p.say(t, "addBLEntry", wrong); a.status != http.StatusBadRequest {
			t.Errorf("%v: %d %v, want 400", wrong, a.status, a.body)
		}
	}
}

func TestNetworkEntriesAreTakenBackByAddress(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string][2]string{
		"IPv6": {"2001:DB8::1", "2001:db8::2"}, "IPv4": {"203.0.113.1", "203.0.113.2"},
		"a network and an address": {"2001:db8::/64", "2001:db8::2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t)
			p.SetZone(t, service.Zone{
				ID: addressZone, Rate: 100, Window: time.Hour,
				Keys: service.KeyRule{Kind: service.KeyIP, IPv4Prefix: 24},
			})
			about := func(name string, expire int) tuple {
				member := "ip"
				if strings.Contains(name, "/") {
					member = "netmask"
				}
				return tuple{member: name, "expire_secs": expire, "reason": "guesses: many"}
			}
			stands := func(want int, until time.Duration) {
				t.Helper()
				all, err := service.AllOverrides(t.Context(), p.Store, addressZone)
				if err != nil || len(all) != want || want > 0 && time.Until(all[0].ExpiresAt.Time) < until {
					t.Fatalf("stand %+v, %v; want %d until %s from now", all, err, want, until)
				}
			}
			long, short := about(pair[0], 3600), about(pair[1], 20)
			for _, order := range [][]tuple{{long, short}, {short, long}} {
				p.done(t, "addBLEntry", order[0])
				p.done(t, "addBLEntry", order[1])
				stands(1, time.Hour/2)
				p.done(t, "delBLEntry", short)
				stands(1, time.Hour/2)
				p.done(t, "delBLEntry", long)
				stands(0, 0)
			}
			p.done(t, "addBLEntry", long)
			a := p.send(t, http.MethodGet, "/wforce/1/2/command/getBL", nil)
			if said := strings.ToLower(fmt.Sprint(a.body)); !strings.Contains(
				said, strings.ToLower(pair[0])+" reason:guesses: many") {
				t.Errorf("listed as %s", said)
			}
		})
	}
}

func TestAnEntryLeavesTheOtherListAlone(t *testing.T) {
	t.Parallel()
	p := open(t)
	lists := []string{"WL", "BL"}
	for i, about := range []tuple{{"ip": "203.0.113.78"}, {"login": "alice"}, {"netmask": "198.51.100.0/24"}} {
		for _, first := range lists {
			other := lists[0]
			if first == other {
				other = lists[1]
			}
			about["expire_secs"] = 600
			if a := p.say(t, "add"+first+"Entry", about); a.status != http.StatusOK {
				t.Fatalf("%v: %d %v", about, a.status, a.body)
			}
			if a := p.say(t, "add"+other+"Entry", about); a.status != http.StatusConflict ||
				!strings.Contains(fmt.Sprint(a.body["reason"]), "other list") {
				t.Errorf("%v, on the other list: %d %v, want 409", about, a.status, a.body)
			}
			if a := p.say(t, "del"+other+"Entry", about); a.status != http.StatusOK {
				t.Errorf("%v: %d %v", about, a.status, a.body)
			}
			if all := p.entries(t); len(all) != 1 {
				t.Errorf("%d: entries %+v, want the first one", i, all)
			}
			p.say(t, "del"+first+"Entry", about)
			if all := p.entries(t); len(all) != 0 {
				t.Errorf("%d: entries %+v, want none", i, all)
			}
		}
	}
}

func TestAnEntryLeavesTheOverridesOfOthersAlone(t *testing.T) {
	t.Parallel()
	p := open(t)
	ban := service.Override{
		ZoneID: addressZone, Key: "203.0.113.78", Action: service.OverrideDeny,
		Reason: "fail2ban sshd",
	}
	if _, err := p.AddOverride(t.Context(), ban, ""); err != nil {
		t.Fatal(err)
	}
	about := tuple{"ip": "203.0.113.78", "expire_secs": 600}
	p.say(t, "addBLEntry", about)
	p.say(t, "delBLEntry", about)
	if all := p.entries(t); len(all) != 1 || all[0].Reason != ban.Reason || !all[0].ExpiresAt.IsZero() {
		t.Errorf("entries %+v, want %+v", all, ban)
	}
}

// entries returns the overrides of both zones.
func (p *place) entries(t *testing.T) (all []service.Override) {
	t.Helper()
	for _, zone := range []int64{userZone, addressZone} {
		some, err := service.AllOverrides(t.Context(), p.Store, zone)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, some...)
	}
	return all
}

func TestResetReleasesAndStatsPeek(t *testing.T) {
	t.Parallel()
	p := open(t)
	for range userRate {
		p.say(t, "report", login("", "alice", "0f24").ended(false))
	}
	who := tuple{"login": "Alice", "ip": "203.0.113.9"}
	const full = "map[blacklisted:false ip:203.0.113.9 login:alice stats:map[ip:map[rate:100 retry_after:0 velocity:3 " +
		"window:3600] login:map[rate:3 retry_after:3600 velocity:3 window:3600]] whitelisted:false]"
	if got := fmt.Sprint(p.say(t, "getDBStats", who).body); got != full {
		t.Errorf("stats %s, want %s", got, full)
	}
	if a := p.say(t, "reset", who); a.body["status"] != "ok" {
		t.Errorf("reset: %d %v", a.status, a.body)
	}
	if _, counted := p.of("alice"); counted != 0 {
		t.Errorf("%d txns count after the reset", counted)
	}
	if txns := p.Txns(service.Bucket{ZoneID: addressZone, Key: "203.0.113.9"}); txns[0].Counted {
		t.Error("the address was not released")
	}
	if a := p.say(t, "reset", tuple{}); a.status != http.StatusBadRequest {
		t.Errorf("reset of nothing: %d %v, want 400", a.status, a.body)
	}
	p.say(t, "addWLEntry", tuple{"login": "alice", "expire_secs": 60, "reason": "trusted"})
	if a := p.say(t, "getDBStats", tuple{"login": "alice"}); a.body["whitelisted"] != true ||
		a.body["wl_reason"] != "trusted" {
		t.Errorf("stats of a login of the white list: %v", a.body)
	}
}
