package servicetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

func keyClaims() map[string]claim { //nolint:funlen // a table of scripts
	return map[string]claim{
		"KeysAreComparedByteByByte":         keysAreComparedByteByByte,
		"BadKeysAreRefusedAndRecordNothing": badKeysAreRefusedAndRecordNothing,
		"SpellingsOfAUsernameAreOneBucket": script(`
			zone 1 rate=99 key_kind=username
			check 1/Bob -> v=1
			and 1/BOB -> v=2
			check 1/ｂｏｂ -> v=3
			check 1/É -> v=1
			count 1/bob -> 3 of 3
			count 1/é -> 1 of 1
		`),
		"SpellingsThatCollationsTakeForOneAreOne": script(`
			zone 1 rate=99 key_kind=username_ai_ci
			zone 2 rate=99 key_kind=username_general_ci
			check 1/ALİCE 2/ALİCE -> v=1 | v=1
			and 1/ałice 2/ałice -> v=2 | v=2
			check 1/Bób😀 2/Bób😀 -> v=1 | v=1
			check 1/bob🍣 2/bob🍣 -> v=1 | v=2
			count 1/alice -> 2 of 2
			count 2/alice -> 2 of 2
			count 1/bob😀 -> 1 of 1
			count 2/bob� -> 2 of 2
		`),
		"SpellingsOfAnAddressAreOneBucket": script(`
			zone 1 rate=99 key_kind=ip ipv6_prefix=128
			check 1/203.0.113.9 -> v=1
			and 1/::FFFF:cb00:7109 -> v=2
			check 1/64:ff9b::cb00:7109 -> v=3
			check 1/203.0.113.90 -> v=1
			check 1/2001:0DB8:0::1 -> v=1
			and 1/2001:db8::1/128 -> v=2
			check 1/fe80::1%eth0 -> v=1
			count 1/203.0.113.9 -> 3 of 3
			count 1/2001:db8::1 -> 2 of 2
			count 1/fe80::1 -> 1 of 1
		`),
		"AddressesOfANetworkAreOneBucket": script(`
			zone 1 rate=99 key_kind=ip
			zone 2 rate=99 key_kind=ip ipv4_prefix=24 ipv6_prefix=49
			check 1/203.0.113.9 2/203.0.113.9 -> v=1 | v=1
			and 1/203.0.113.10 2/::ffff:203.0.113.10 -> v=1 | v=2
			check 1/2001:DB8:0:0:ffff::1 2/2001:db8::1 -> v=1 | v=1
			and 1/2001:db8::/64 2/2001:db8:0:7fff::1 -> v=2 | v=2
			check 1/2001:db8:0:1::1 2/2001:db8:0:8000:: -> v=1 | v=1
			count 1/203.0.113.9 -> 1 of 1
			count 2/203.0.113.0/24 -> 2 of 2
			count 1/2001:db8::/64 -> 2 of 2
			count 2/2001:db8::/49 -> 2 of 2
			count 2/2001:db8:0:8000::/49 -> 1 of 1
		`),
		"WhatIsNoAddressIsRefusedInAnAddressZone": script(`
			zone 1 rate=99 key_kind=ip
			check 1/alice -> invalid
			check 1/203.0.113.9 -> v=1
			and 1/203.0.113.256 -> invalid
			and 1/203.0.113.0/24 -> invalid
			and 1/203.0.113.9 -> v=2
			count 1/alice -> 0 of 0
			count 1/203.0.113.256 -> 0 of 0
		`),
		"NormalisedKeysAreValidatedAnew":         normalisedKeysAreValidated,
		"BucketThatIsNamedTwiceIsCountedOnce":    bucketNamedTwice,
		"EditedKeyKindTakesEffectAtTheNextCheck": editedKeyKind,
		"KeyKindEditedBesideChecksFailsNone":     keyKindEditedBesideChecks,
		"RetryInAnotherSpellingIsTheSameAttempt": script(`
			zone 1 rate=9 key_kind=username
			zone 2 rate=9 key_kind=ip
			check 1/Bob 2/2001:db8::1 id=id as=first -> pass
			check 1/BOB 2/2001:DB8::2 id=id same=first
			check 1/Bob 2/2001:db8:0:1::1 id=id -> conflict // an address of another network
		`),
		"HiddenKeysNeedSecretKeys": script(`
			zone 1 rate=9 key_form=hmac
			zone 2 rate=9
			check 1/alice -> keyless
			check 1/alice -> keyless
			and 2/alice 1/alice -> keyless
			and 2/other -> pass
			edit 1 key_form=clear
			check 2/alice 1/alice -> v=1 | v=1 // no attempt was counted that was refused
			count 1/alice -> 1 of 1
		`),
		"OverridesAndOutcomesMeetTheNormalisedKey": script(`
			zone 1 rate=2 counts=failures key_kind=username
			deny 1/mallory
			check 1/Mallory -> block
			check 1/MALLORY -> block
			check 1/BOB as=bob -> pass
			report bob success
			check 1/Bob -> pass
			check 1/bob -> pass
			check 1/bOb -> block
			release 1/bob
			check 1/BoB -> pass v=1
		`),
		"SpellingsUnderContentionAreCountedTogether": spellingsUnderContention,
	}
}

func keysAreComparedByteByByte(t *testing.T, b subject) {
	b.zone(t, 1, 1, time.Hour)
	keys := []string{
		"Bob", "bob", "é", "e", "e\u0301", "bob ", " bob", "ß", "ss", `a'b`, `a"b`, `a\b`, `a\\b`,
		"%", "_", "1_42", "'; DROP TABLE zone_txn; --", `{"k":1}`, "null", "0", "00", "\u00a0",
		strings.Repeat("x", service.MaxKeyLength), strings.Repeat("🔑", service.MaxKeyLength),
	}
	for _, key := range keys {
		if d := b.check(t, at(1, key)); d.Blocked {
			t.Errorf("key %q shares a bucket with an earlier one", key)
		}
	}
	checks := make([]service.Check, len(keys))
	for i, key := range keys {
		checks[i] = one(1, key)
	}
	for i, d := range b.all(t, checks...) {
		if !d.Blocked || d.Verdicts[0].Bucket.Key != keys[i] {
			t.Errorf("key %q is not one bucket: %+v", keys[i], d)
		}
		if txns := b.Txns(t, at(1, keys[i])); len(txns) != 2 || txns[0].Bucket.Key != keys[i] {
			t.Errorf("key %q recorded as %+v", keys[i], txns)
		}
	}
}

func badKeysAreRefusedAndRecordNothing(t *testing.T, b subject) {
	b.zone(t, 1, 1, time.Hour)
	for _, key := range []string{
		"", strings.Repeat("x", service.MaxKeyLength+1), "a\x00b", "tab\t", "new\nline", "\x7f", "\u0085",
		"\xff\xfe", "a\xc3", "\xed\xa0\x80",
	} {
		_, err := b.ask(t.Context(), one(1, key))
		if !errors.Is(err, service.ErrInvalid) {
			t.Errorf("key %q: %v, want ErrInvalid", key, err)
		}
	}
}

func normalisedKeysAreValidated(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 9, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyUsername}})
	b.set(t, service.Zone{ID: 2, Rate: 9, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	for name, buckets := range map[string][]service.Bucket{
		"nothing but space":        {at(1, " \u3000 ")},
		"longer than a key may be": {at(1, strings.Repeat("\ufdfa", service.MaxKeyLength))},
	} {
		_, err := b.ask(t.Context(), service.Check{Buckets: buckets})
		if !errors.Is(err, service.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	for _, bucket := range []service.Bucket{at(1, "bob"), at(2, "::/64"), at(2, "2001:db8::/64")} {
		if txns := b.Txns(t, bucket); len(txns) != 0 {
			t.Errorf("refused, and recorded %+v", txns)
		}
	}
	// As long as allowed, though it was longer before.
	key := strings.Repeat("e\u0301", service.MaxKeyLength/2)
	if v := b.check(t, at(1, key)).Verdicts[0]; v.Bucket.Key != strings.Repeat("\u00e9", service.MaxKeyLength/2) {
		t.Errorf("got the bucket %q", v.Bucket.Key)
	}
}

// bucketNamedTwice claims that a person whose user name and address of mail are alike can log in.
func bucketNamedTwice(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 3, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyUsername}})
	b.set(t, service.Zone{ID: 2, Rate: 9, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	check := service.Check{Buckets: []service.Bucket{
		at(1, "Bob"), at(2, "64:ff9b::cb00:7109"), at(1, "bob "), at(1, "bob"),
		at(2, "203.0.113.9"),
	}}
	for i := range 4 {
		want := []service.Bucket{at(1, "bob"), at(2, "203.0.113.9"), at(1, "bob"), at(1, "bob"), at(2, "203.0.113.9")}
		check.AttemptID = fmt.Sprint("twice-", i)
		first := b.all(t, check)[0]
		again := b.all(t, check, one(1, "alice"))[0]
		for j, v := range first.Verdicts {
			if v.Bucket != want[j] || v.TxnID != first.Verdicts[slices.Index(want, v.Bucket)].TxnID || again.Verdicts[j] != v {
				t.Errorf("attempt %d, bucket %d: %+v, again %+v", i+1, j, v, again.Verdicts[j])
			}
		}
		if len(first.Verdicts) != len(want) || first.Blocked != (i == 3) ||
			first.Verdicts[1].TxnID != first.Verdicts[4].TxnID {
			t.Errorf("attempt %d: %+v", i+1, first)
		}
	}
	if d := b.check(t, at(2, "203.0.113.8"), at(2, "203.0.113.8")); len(d.Verdicts) != 2 ||
		d.Verdicts[0] != d.Verdicts[1] ||
		d.Verdicts[0].Velocity != 1 {
		t.Errorf("one key twice: %+v", d)
	}
	for _, bucket := range []service.Bucket{at(1, "bob"), at(2, "203.0.113.9")} {
		if recorded, counted := b.counted(t, bucket); recorded != 4 || counted != 3 {
			t.Errorf("%d recorded and %d counted, want 4 and 3", recorded, counted)
		}
	}
}

func editedKeyKind(t *testing.T, b subject) {
	zone := service.Zone{ID: 1, Rate: 1000, Window: time.Hour}
	for i, step := range []struct {
		rule service.KeyRule
		keys map[string]string // from a spelling to its bucket, or to "" if it is refused
	}{
		{service.KeyRule{}, map[string]string{"Bob": "Bob", "::FFFF:203.0.113.9": "::FFFF:203.0.113.9"}},
		{
			service.KeyRule{Kind: service.KeyUsername},
			map[string]string{"Bob": "bob", "::FFFF:203.0.113.9": "::ffff:203.0.113.9"},
		},
		{
			service.KeyRule{Kind: service.KeyIP},
			map[string]string{"Bob": "", "::FFFF:203.0.113.9": "203.0.113.9", "2001:db8::1": "2001:db8::/64"},
		},
		{service.KeyRule{Kind: service.KeyIP, IPv6Prefix: 48}, map[string]string{"2001:db8::1": "2001:db8::/48", "Bob": ""}},
		{
			service.KeyRule{Kind: service.KeyIP, IPv4Prefix: 8},
			map[string]string{"2001:db8::1": "2001:db8::/64", "203.0.113.9": "203.0.0.0/8"},
		},
		{service.KeyRule{Kind: service.KeyUsername}, map[string]string{"Bob": "bob", "2001:DB8::1": "2001:db8::1"}},
		{service.KeyRule{Kind: service.KeyOpaque}, map[string]string{"Bob": "Bob", "2001:DB8::1": "2001:DB8::1"}},
	} {
		for spelling, key := range step.keys {
			// A different rule in between, so that each key meets a stale one.
			zone.Keys = service.KeyRule{Kind: service.KeyIP, IPv4Prefix: 1 + i}
			b.set(t, zone)
			b.check(t, at(1, "198.51.100.1"))
			zone.Keys = step.rule
			b.set(t, zone)
			d, err := b.ask(t.Context(), one(1, spelling))
			if key == "" {
				if !errors.Is(err, service.ErrInvalid) {
					t.Errorf("step %d, %q: %+v, %v, want ErrInvalid", i, spelling, d, err)
				}
				continue
			}
			if err != nil || d.Verdicts[0].Bucket != at(1, key) {
				t.Errorf("step %d, %q: %+v, %v, want the bucket %q", i, spelling, d, err, key)
			}
		}
	}
}

// keyKindEditedBesideChecks edits zones while checks are running. Each check is
// decided by one rule or the other, and no check fails.
func keyKindEditedBesideChecks(t *testing.T, b subject) {
	zone := service.Zone{ID: 1, Rate: 1000, Window: time.Hour}
	b.set(t, zone)
	answers := b.begin(40, func(i int) service.Check { return one(1, []string{"Bob", "bob"}[i%2]) })
	for _, kind := range []service.KeyKind{service.KeyUsername, service.KeyOpaque} {
		zone.Keys.Kind = kind
		b.set(t, zone)
	}
	recorded := map[string]int{}
	for i, d := range answers(t) {
		key := d.Verdicts[0].Bucket.Key
		recorded[key]++
		if key != "bob" && (key != "Bob" || i%2 == 1) {
			t.Errorf("caller %d was answered for %q", i, key)
		}
	}
	for key, want := range recorded {
		if txns := b.Txns(t, at(1, key)); len(txns) != want {
			t.Errorf("%q has %d txns, want %d", key, len(txns), want)
		}
	}
}

func spellingsUnderContention(t *testing.T, b subject) {
	const callers, rate = 120, 5
	b.set(t, service.Zone{ID: 1, Rate: rate, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyUsername}})
	b.set(t, service.Zone{ID: 2, Rate: 1000, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	names := []string{"bob", "Bob", "BOB ", "\uff42ob"}
	allowed := allowedOf(b.together(t, callers, func(i int) service.Check {
		return service.Check{Buckets: []service.Bucket{at(2, fmt.Sprintf("2001:db8::%x", i+1)), at(1, names[i%len(names)])}}
	}))
	_, name := b.counted(t, at(1, "bob"))
	if _, network := b.counted(t, at(2, "2001:db8::/64")); allowed != rate || name != rate || network != rate {
		t.Errorf("allowed %d, counted %d for the name and %d for the network, want %d", allowed, name, network, rate)
	}
}
