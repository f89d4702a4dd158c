package service_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"velocityd/service"
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
func TestPseudonymEqualsThatOfOtherPrograms(t *testing.T) {
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
