package client_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"velocityd/client"
	"velocityd/service"
	"velocityd/service/memory"
)

const life = 90 * 24 * time.Hour

func signingKey(fill byte) []byte { return bytes.Repeat([]byte{fill}, client.MinSigningKey) }

func sign(t *testing.T, key []byte, user string, at time.Time) string {
	t.Helper()
	cookie, err := client.SignClient(key, user, at)
	if err != nil {
		t.Fatal(err)
	}
	return cookie
}

func TestAKnownClientIsKnownForItsUserAndLifeAlone(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0)
	cookie := sign(t, signingKey(1), "alice", at)
	altered := []byte(cookie)
	altered[10] ^= 1
	for name, test := range map[string]struct {
		cookie, user string
		now          time.Time
		keys         [][]byte
		isKnown      bool
	}{
		"at once":                    {cookie, "alice", at, [][]byte{signingKey(1)}, true},
		"to the end of its life":     {cookie, "alice", at.Add(life - time.Second), [][]byte{signingKey(1)}, true},
		"signed by a clock ahead":    {cookie, "alice", at.Add(-time.Minute), [][]byte{signingKey(1)}, true},
		"after its life":             {cookie, "alice", at.Add(life), [][]byte{signingKey(1)}, false},
		"from the future":            {cookie, "alice", at.Add(-61 * time.Second), [][]byte{signingKey(1)}, false},
		"of another user":            {cookie, "bob", at, [][]byte{signingKey(1)}, false},
		"of no user":                 {cookie, "", at, [][]byte{signingKey(1)}, false},
		"while the key is changed":   {cookie, "alice", at, [][]byte{signingKey(2), signingKey(1)}, true},
		"by another key":             {cookie, "alice", at, [][]byte{signingKey(2)}, false},
		"by a short key":             {cookie, "alice", at, [][]byte{signingKey(1)[1:]}, false},
		"by no key":                  {cookie, "alice", at, nil, false},
		"altered":                    {string(altered), "alice", at, [][]byte{signingKey(1)}, false},
		"cut":                        {cookie[:len(cookie)-1], "alice", at, [][]byte{signingKey(1)}, false},
		"longer":                     {cookie + "A", "alice", at, [][]byte{signingKey(1)}, false},
		"without its form":           {cookie[3:], "alice", at, [][]byte{signingKey(1)}, false},
		"with a line feed inside":    {cookie[:20] + "\n" + cookie[20:], "alice", at, [][]byte{signingKey(1)}, false},
		"empty":                      {"", "alice", at, [][]byte{signingKey(1)}, false},
		"the form without a content": {"v1.", "alice", at, [][]byte{signingKey(1)}, false},
	} {
		id, isKnown := client.VerifyClient(test.cookie, test.user, test.now, life, test.keys...)
		if isKnown != test.isKnown || (id != "") != isKnown {
			t.Errorf("%s: got %q, %v", name, id, isKnown)
		}
	}
}

func TestEachSignatureIsAnotherClientWithAKeyThatZonesTake(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 100 {
		now := time.Now()
		cookie := sign(t, signingKey(1), "alice", now)
		id, isKnown := client.VerifyClient(cookie, "alice", now, life, signingKey(1))
		if err := (service.Bucket{ZoneID: 1, Key: id}).Validate(); !isKnown || seen[id] || err != nil {
			t.Fatalf("got %q, %v, %v", id, isKnown, err)
		}
		if strings.ContainsAny(cookie, "\"\\,; \t") || strings.Contains(cookie, "alice") || len(cookie) > 80 {
			t.Errorf("%q does not fit into a cookie, or names the user", cookie)
		}
		seen[id] = true
	}
}

// TestOnlyAKnownClientLocksItselfOut follows the table of docs/auth-server.md: who can lock out whom.
func TestOnlyAKnownClientLocksItselfOut(t *testing.T) {
	t.Parallel()
	m, now := memory.New(), time.Now()
	const users, addresses, clients = 1, 2, 5
	for _, id := range []int64{users, addresses, clients} {
		m.SetZone(t, service.Zone{ID: id, Rate: 3, Window: time.Hour, Lockout: time.Hour})
	}
	passes := func(cookie, user, address string) bool {
		t.Helper()
		buckets := []service.Bucket{{ZoneID: users, Key: user}, {ZoneID: addresses, Key: address}}
		if id, isKnown := client.VerifyClient(cookie, user, now, life, signingKey(1)); isKnown {
			buckets = []service.Bucket{{ZoneID: clients, Key: id}}
		}
		decisions, err := m.CheckAll(t.Context(), service.Call{Checks: []service.Check{{Buckets: buckets}}})
		if err != nil || decisions[0].Err != nil {
			t.Fatal(err, decisions)
		}
		return !decisions[0].Blocked
	}
	flood := func(cookie, user, address string) {
		t.Helper()
		for range 3 {
			passes(cookie, user, address)
		}
		if passes(cookie, user, address) {
			t.Errorf("guesses at %s from %s are not stopped", user, address)
		}
	}
	const home, office, elsewhere, nobodys = "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"
	phone, laptop := sign(t, signingKey(1), "alice", now), sign(t, signingKey(1), "alice", now)
	flood("", "alice", elsewhere)                                          // a stranger
	flood(sign(t, signingKey(1), "mallory", now), "alice", "198.51.100.1") // with a cookie of an own account
	flood("", "mallory", office)                                           // somebody behind the same address
	if passes("", "alice", home) || passes("", "bob", office) {
		t.Error("a stranger passes a bucket of a user or an address that is locked")
	}
	for _, address := range []string{home, office, elsewhere} {
		if !passes(laptop, "alice", address) {
			t.Errorf("a stranger has locked out a known client at %s", address)
		}
	}
	flood(phone, "alice", nobodys) // a thief of the cookie, or an old password in it
	if !passes("", "bob", nobodys) || passes(phone, "alice", home) {
		t.Error("guesses by a known client count for its address, or not for itself")
	}
}

func TestSigningAClientNeedsALongKeyAndAUser(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"short key": errorOf(client.SignClient(signingKey(1)[1:], "alice", time.Now())),
		"no user":   errorOf(client.SignClient(signingKey(1), "", time.Now())),
	} {
		if !errors.Is(err, service.ErrInvalid) || strings.Contains(err.Error(), "alice") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func errorOf(_ string, err error) error { return err }

// FuzzVerifyClient looks for a cookie that is known and was not signed.
func FuzzVerifyClient(f *testing.F) {
	at := time.Unix(1_800_000_000, 0)
	cookie, err := client.SignClient(signingKey(1), "alice", at)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(cookie, "alice")
	f.Add(cookie[:30], "bob")
	f.Add("v1.", "")
	f.Fuzz(func(t *testing.T, text, user string) {
		id, isKnown := client.VerifyClient(text, user, at, life, signingKey(1))
		if isKnown && (text != cookie || user != "alice") || isKnown == (id == "") {
			t.Errorf("%q of %q: got %q, %v", text, user, id, isKnown)
		}
	})
}
