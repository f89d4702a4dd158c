package client_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"velocityd/client"
	"velocityd/service"
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

func TestClientIsKnownForUserAndLifetimeAlone(t *testing.T) {
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

func TestEachSignatureIsNewClientWithValidKey(t *testing.T) {
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

func TestSigningClientNeedsLongKeyAndUser(t *testing.T) {
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
