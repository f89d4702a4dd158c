package service_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/memory"
	"velocityd/tools/servicetest"
)

// secretOf is the hexadecimal text of a key of 32 equal bytes.
func secretOf(digits string) string { return strings.Repeat(digits, 32) }

// ringOf returns a Keyring of keys by id, with secrets that differ.
func ringOf(tb testing.TB, ids ...string) *service.Keyring {
	tb.Helper()
	var keys []service.SecretKey
	for _, id := range ids {
		key, err := service.ParseSecretKey(id, secretOf(fmt.Sprintf("%02x", len(id)+int(id[len(id)-1]))))
		if err != nil {
			tb.Fatal(err)
		}
		keys = append(keys, key)
	}
	ring := new(service.Keyring)
	if err := ring.Replace(keys); err != nil {
		tb.Fatal(err)
	}
	return ring
}

func TestPseudonymIsTheHMACOfZoneAndKey(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		bucket service.Bucket
		secret string
	}{
		{at(1, "alice"), secretOf("0f")},
		{at(2, "alice"), secretOf("0f")},
		{at(2147483647, "203.0.113.0/24"), secretOf("a0")},
		{at(12, "日本語 𝄞"), strings.Repeat("0123456789abcdef", 32)},
		{at(1, strings.Repeat("x", 255)), secretOf("FF")},
	} {
		key, err := service.ParseSecretKey("2026-11", " \n"+test.secret+"\n")
		if err != nil {
			t.Fatal(err)
		}
		ring := new(service.Keyring)
		if err := ring.Replace([]service.SecretKey{key}); err != nil {
			t.Fatal(err)
		}
		var secret []byte
		if _, err := fmt.Sscanf(test.secret, "%x", &secret); err != nil {
			t.Fatal(err)
		}
		mac := hmac.New(sha256.New, secret)
		fmt.Fprintf(mac, "%d\x00%s", test.bucket.ZoneID, test.bucket.Key)
		want := "hmac:2026-11:" + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
		got, err := ring.Pseudonyms(test.bucket)
		if err != nil || len(got) != 1 || got[0] != at(test.bucket.ZoneID, want) {
			t.Errorf("%v: got %v (%v), want %s", test.bucket, got, err, want)
		}
		if !service.IsPseudonym(want) || got[0].Validate() != nil {
			t.Errorf("%s is not read as a pseudonym, or not as a key", want)
		}
	}
}

// A vector that does not come from this program: Python's module hmac has made it.
func TestPseudonymIsWhatOtherProgramsMake(t *testing.T) {
	t.Parallel()
	key, err := service.ParseSecretKey("k1", "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f")
	if err != nil {
		t.Fatal(err)
	}
	ring := new(service.Keyring)
	if err := ring.Replace([]service.SecretKey{key}); err != nil {
		t.Fatal(err)
	}
	got, err := ring.Pseudonyms(at(1, "alice"))
	if err != nil || got[0].Key != "hmac:k1:44q2vkckJ9cmgjH-QNXbvXrATOfUrBBsQIFwpi0LpQk" {
		t.Errorf("got %v (%v)", got, err)
	}
}

func TestAPseudonymIsKnownByItsForm(t *testing.T) {
	t.Parallel()
	mac := strings.Repeat("aZ9-_", 8) + "abc"
	for key, want := range map[string]bool{
		"hmac:k1:" + mac:                true,
		"hmac:2026-11-a-long-16:" + mac: false, // 17 characters
		"hmac:abcdefghijklmnop:" + mac:  true,
		"hmac::" + mac:                  false,
		"hmac:K1:" + mac:                false,
		"hmac:k1:" + mac + "a":          false,
		"hmac:k1:" + mac[1:]:            false,
		"hmac:k1:" + mac[1:] + "=":      false,
		"hmac:k1:" + mac[1:] + ":":      false,
		"hmac:k1:" + mac + "\n":         false,
		"HMAC:k1:" + mac:                false,
		"xhmac:k1:" + mac:               false,
		"alice":                         false,
		"":                              false,
		"hmac:k1":                       false,
	} {
		if got := service.IsPseudonym(key); got != want {
			t.Errorf("%q: %v", key, got)
		}
	}
}

func TestSecretKeysAreReadStrictlyAndNeverShown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ id, text string }{
		"no id":            {"", secretOf("00")},
		"capital id":       {"K1", secretOf("00")},
		"id with colon":    {"k:1", secretOf("00")},
		"long id":          {"abcdefghijklmnopq", secretOf("00")},
		"short":            {"k1", "dead" + strings.Repeat("be", 29)},
		"odd":              {"k1", "dead" + secretOf("be") + "e"},
		"not hexadecimal":  {"k1", "dead" + secretOf("xy")},
		"empty":            {"k1", ""},
		"space in between": {"k1", "dead " + secretOf("be")},
		"two lines":        {"k1", "dead" + secretOf("be") + "\n" + secretOf("be")},
		"enormous":         {"k1", "dead" + strings.Repeat("be", 1024)},
	} {
		_, err := service.ParseSecretKey(test.id, test.text)
		if !errors.Is(err, service.ErrInvalid) || strings.Contains(fmt.Sprint(err), "dead") {
			t.Errorf("%s: %v", name, err)
		}
	}
	key, err := service.ParseSecretKey("k1", "dead"+secretOf("be"))
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, key); text != "k1" {
			t.Errorf("%s shows %s", verb, text)
		}
	}
}

func TestKeyringHoldsTwoKeysTheLastIdFirst(t *testing.T) {
	t.Parallel()
	ring := ringOf(t, "2026-10", "2026-11")
	hidden, err := ring.Pseudonyms(at(1, "alice"))
	if err != nil || len(hidden) != 2 || !strings.HasPrefix(hidden[0].Key, "hmac:2026-11:") ||
		!strings.HasPrefix(hidden[1].Key, "hmac:2026-10:") {
		t.Errorf("got %v (%v)", hidden, err)
	}
	if other, err := ring.Pseudonyms(at(2, "alice")); err != nil || other[0].Key == hidden[0].Key {
		t.Errorf("zones 1 and 2 have the same pseudonym: %v (%v)", other, err)
	}
	if itself, err := ring.Pseudonyms(hidden[1]); err != nil || !slices.Equal(itself, hidden[1:]) {
		t.Errorf("a pseudonym of a pseudonym: %v (%v)", itself, err)
	}
	before := ring.Keys()
	three := ringOf(t, "a", "b").Keys()
	for name, keys := range map[string][]service.SecretKey{
		"three": append(slices.Clone(before), three[0]), "two of one id": {before[0], before[0]},
		"none of those before": three, "another secret under a known id": {before[0], anotherSecret(t, before[1].String())},
	} {
		if err := ring.Replace(keys); !errors.Is(err, service.ErrInvalid) || len(ring.Keys()) != 2 {
			t.Errorf("%s: %v, %v", name, err, ring.Keys())
		}
	}
	for _, none := range []*service.Keyring{nil, new(service.Keyring)} {
		if _, err := none.Pseudonyms(at(1, "alice")); !errors.Is(err, service.ErrNoKeys) || !errors.Is(err, service.ErrBusy) {
			t.Errorf("without keys: %v", err)
		}
	}
}

func anotherSecret(t *testing.T, id string) service.SecretKey {
	t.Helper()
	key, err := service.ParseSecretKey(id, strings.Repeat("5a", 32))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestFingerprintsTellSecretsApartAndNothingElse(t *testing.T) {
	t.Parallel()
	a, b := anotherSecret(t, "a"), ringOf(t, "a").Keys()[0]
	if a.Fingerprint() == b.Fingerprint() || a.Fingerprint() != anotherSecret(t, "b").Fingerprint() ||
		len(a.Fingerprint()) != 16 {
		t.Errorf("%s, %s", a.Fingerprint(), b.Fingerprint())
	}
}

// hidingZones are a zone that keeps pseudonyms, one that does not, and one of addresses.
func hidingZones(tb testing.TB) *memory.Store {
	tb.Helper()
	m := memory.New()
	for _, zone := range []service.Zone{
		{ID: 1, Rate: 2, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyUsername, Form: service.KeyHMAC}},
		{ID: 2, Rate: 3, Window: time.Hour},
		{
			ID: 3, Rate: 4, Window: time.Hour,
			Keys: service.KeyRule{Kind: service.KeyIP, Form: service.KeyHMAC, IPv4Prefix: 24},
		},
	} {
		m.SetZone(tb, zone)
	}
	return m
}

func TestLimiterHidesKeysFromStoreNotFromCaller(t *testing.T) {
	t.Parallel()
	for _, ids := range [][]string{{"k1"}, {"k1", "k2"}} {
		store, ring := hidingZones(t), ringOf(t, ids...)
		seen := &spy{CheckStore: store}
		limiter := service.NewLimiter(seen, service.LimiterOptions{Zones: store, Keys: ring, Timeout: time.Minute})
		asked := check(at(3, "203.0.113.9"), at(2, "Clear"), at(1, " ALICE "))
		for n := 1; n <= 3; n++ {
			decisions, err := limiter.CheckAll(t.Context(), []service.Check{asked, check(at(2, "other")), check(at(9, "alice"))})
			if err != nil || decisions[0].Err != nil || decisions[1].Err != nil ||
				!errors.Is(decisions[2].Err, service.ErrNotFound) {
				t.Fatalf("%v: %v (%v)", ids, decisions, err)
			}
			d := decisions[0]
			var named []service.Bucket
			for _, v := range d.Verdicts {
				named = append(named, v.Bucket)
			}
			if want := []service.Bucket{at(3, "203.0.113.0/24"), at(2, "Clear"), at(1, "alice")}; !slices.Equal(named, want) {
				t.Errorf("%v: verdicts on %v", ids, named)
			}
			if d.Blocked != (n == 3) || d.Verdicts[2].Velocity != min(n, 2) || d.Verdicts[0].Velocity != min(n, 2) ||
				d.Verdicts[0].Rate != 4 {
				t.Errorf("%v, attempt %d: %+v", ids, n, d)
			}
			txn, err := store.Txn(t.Context(), d.TxnID())
			if err != nil || !strings.HasPrefix(txn.Bucket.Key, "hmac:"+ids[len(ids)-1]+":") || txn.Bucket.ZoneID != 3 {
				t.Errorf("%v: the answer's txn is %+v (%v)", ids, txn, err)
			}
		}
		last := seen.asked[len(seen.asked)-1][0]
		if want := 1 + 2*len(ids); len(last.Buckets) != want || len(last.KeyRules) != want ||
			(last.Named != nil) != (len(ids) == 2) {
			t.Errorf("%v: asked %+v", ids, last)
		}
		for _, b := range last.Buckets {
			if b.ZoneID != 2 && !service.IsPseudonym(b.Key) {
				t.Errorf("%v: the store saw %v", ids, b)
			}
		}
	}
}

// spy is a store that notes what it is asked.
type spy struct {
	service.CheckStore
	asked [][]service.Check
}

// CheckAll implements service.CheckStore.
func (s *spy) CheckAll(ctx context.Context, call service.Call) ([]service.Decision, error) {
	s.asked = append(s.asked, call.Checks)
	return s.CheckStore.CheckAll(ctx, call)
}

func TestStoreRefusesClearKeysOfHidingZones(t *testing.T) {
	t.Parallel()
	store := hidingZones(t)
	if _, err := store.CheckAll(t.Context(), service.Call{Checks: []service.Check{check(at(1, "alice"))}}); !errors.Is(err,
		service.ErrInvalid) {
		t.Errorf("a clear key: %v", err)
	}
	hidden, err := ringOf(t, "k1").Pseudonyms(at(1, "alice"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.CheckAll(t.Context(), service.Call{Checks: []service.Check{check(hidden...)}}); err != nil {
		t.Errorf("a pseudonym: %v", err)
	}
}

func TestNewlyHidingZoneIsObeyedAtNextCheck(t *testing.T) {
	t.Parallel()
	store, ring := hidingZones(t), ringOf(t, "k1")
	limiter := service.NewLimiter(store, service.LimiterOptions{Zones: store, Keys: ring, Timeout: time.Minute})
	ask := func() service.Decision {
		decisions, err := limiter.CheckAll(t.Context(), []service.Check{check(at(2, "alice"))})
		if err != nil || decisions[0].Err != nil {
			t.Fatalf("%v (%v)", decisions, err)
		}
		return decisions[0]
	}
	ask()
	store.SetZone(t, service.Zone{ID: 2, Rate: 3, Window: time.Hour, Keys: service.KeyRule{Form: service.KeyHMAC}})
	if d := ask(); d.Verdicts[0].Velocity != 1 || d.Verdicts[0].Bucket != at(2, "alice") {
		t.Errorf("the windows did not begin anew: %+v", d)
	}
	if txns := store.Txns(at(2, "alice")); len(txns) != 1 {
		t.Errorf("%d txns under the clear key", len(txns))
	}
	store.SetZone(t, service.Zone{ID: 2, Rate: 3, Window: time.Hour})
	if d := ask(); d.Verdicts[0].Velocity != 2 {
		t.Errorf("the clear window is not the former one: %+v", d)
	}
}

func TestAttemptsAreTheSameAcrossARotation(t *testing.T) {
	t.Parallel()
	store := hidingZones(t)
	limiters := map[string]*service.Limiter{}
	for name, ids := range map[string][]string{"old": {"k1"}, "both": {"k1", "k2"}, "new": {"k2"}} {
		limiters[name] = service.NewLimiter(
			store, service.LimiterOptions{Zones: store, Keys: ringOf(t, ids...), Timeout: time.Minute})
	}
	ask := func(by, id string, buckets ...service.Bucket) service.Decision {
		decisions, err := limiters[by].CheckAll(t.Context(), []service.Check{{Buckets: buckets, AttemptID: id}})
		if err != nil {
			t.Fatal(err)
		}
		return decisions[0]
	}
	alice, bob, clear := at(1, "alice"), at(1, "bob"), at(2, "alice")
	for i, test := range []struct {
		first, then string
		buckets     []service.Bucket
		others      []service.Bucket // what is no retry
	}{
		{"old", "both", []service.Bucket{alice, clear}, []service.Bucket{bob, clear}},
		{"both", "old", []service.Bucket{clear, alice}, []service.Bucket{alice}},
		{"both", "new", []service.Bucket{alice, clear}, []service.Bucket{alice, bob, clear}},
		{"both", "both", []service.Bucket{bob, clear}, []service.Bucket{clear}},
		{"both", "new", []service.Bucket{at(1, "carol"), at(1, "dave")}, []service.Bucket{at(1, "carol")}},
		{"new", "both", []service.Bucket{at(1, "erin")}, []service.Bucket{at(1, "frank")}},
	} {
		id := fmt.Sprint("attempt-", i)
		first := ask(test.first, id, test.buckets...)
		if first.Err != nil {
			t.Fatalf("%+v: %v", test, first.Err)
		}
		again := ask(test.then, id, test.buckets...)
		if again.Err != nil || again.Blocked != first.Blocked || len(again.Verdicts) != len(test.buckets) ||
			!again.CheckedAt.Equal(first.CheckedAt.Time) {
			t.Errorf("%+v: answered %+v, then %+v", test, first, again)
		}
		for j, v := range again.Verdicts {
			if v.Bucket != test.buckets[j] || v.Velocity != first.Verdicts[j].Velocity || v.TxnID == 0 ||
				v.TxnID != first.Verdicts[j].TxnID {
				t.Errorf("%+v: verdict %d was %+v, and is %+v", test, j, first.Verdicts[j], v)
			}
		}
		if other := ask(test.then, id, test.others...); !errors.Is(other.Err, service.ErrConflict) {
			t.Errorf("%+v: other buckets: %+v", test, other)
		}
	}
}

func TestAnOverrideOfOnePseudonymHoldsForAll(t *testing.T) {
	t.Parallel()
	store, old, both := hidingZones(t), ringOf(t, "k1"), ringOf(t, "k1", "k2")
	hidden := func(ring *service.Keyring, key string) service.Bucket {
		all, err := ring.Pseudonyms(at(1, key))
		if err != nil {
			t.Fatal(err)
		}
		return all[0]
	}
	for _, o := range []service.Override{
		{Key: hidden(old, "raised").Key, Action: service.OverrideLimit, Rate: 5, Window: service.Lasting(time.Hour)},
		{Key: hidden(both, "denied").Key, Action: service.OverrideDeny},
		{Key: hidden(old, "allowed").Key, Action: service.OverrideAllow},
	} {
		o.ZoneID = 1
		servicetest.InMemory(store).SetOverride(t, o)
	}
	limiter := service.NewLimiter(store, service.LimiterOptions{Zones: store, Keys: both, Timeout: time.Minute})
	for key, want := range map[string]int{"raised": 5, "denied": 0, "allowed": 7, "plain": 2} {
		passed := 0
		for range 7 {
			decisions, err := limiter.CheckAll(t.Context(), []service.Check{check(at(1, key))})
			if err != nil || decisions[0].Err != nil {
				t.Fatalf("%v (%v)", decisions, err)
			}
			if !decisions[0].Blocked {
				passed++
			}
		}
		if passed != want {
			t.Errorf("%s: %d of 7 passed, want %d", key, passed, want)
		}
	}
}

// TestNewZonesKeyStaysUntilZoneIsRead asks about a zone that was made after the
// rules were read.
func TestNewZonesKeyStaysUntilZoneIsRead(t *testing.T) {
	t.Parallel()
	store := hidingZones(t)
	seen := &spy{CheckStore: store}
	limiter := service.NewLimiter(seen, service.LimiterOptions{Zones: store, Keys: ringOf(t, "k1"), Timeout: time.Minute})
	if _, err := limiter.CheckAll(t.Context(), []service.Check{check(at(2, "clear"))}); err != nil {
		t.Fatal(err)
	}
	store.SetZone(t, service.Zone{ID: 4, Rate: 1, Window: time.Hour, Keys: service.KeyRule{Form: service.KeyHMAC}})
	if decisions, err := limiter.CheckAll(t.Context(), []service.Check{check(at(4, "alice"))}); err != nil ||
		decisions[0].Err != nil {
		t.Errorf("%+v, %v", decisions, err)
	}
	for _, asked := range slices.Concat(seen.asked...) {
		if slices.Contains(asked.Buckets, at(4, "alice")) {
			t.Errorf("the store was asked for %+v", asked)
		}
	}
}
