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

func keyClaims() map[string]claim {
	return map[string]claim{
		"KeysAreComparedByteByByte":               keysAreComparedByteByByte,
		"BadKeysAreRefusedAndRecordNothing":       badKeysAreRefusedAndRecordNothing,
		"SpellingsOfAUsernameAreOneBucket":        spellingsAreOneBucket,
		"SpellingsThatCollationsTakeForOneAreOne": accentsAreFolded,
		"SpellingsOfAnAddressAreOneBucket":        addressesAreOneBucket,
		"AddressesOfANetworkAreOneBucket":         networksAreOneBucket,
		"WhatIsNoAddressIsRefusedInAnAddressZone": notAnAddress,
		"NormalisedKeysAreValidatedAnew":          normalisedKeysAreValidated,
		"BucketThatIsNamedTwiceIsCountedOnce":     bucketNamedTwice,
		"EditedKeyKindTakesEffectAtTheNextCheck":  editedKeyKind,
		"KeyKindEditedBesideChecksFailsNone":      keyKindEditedBesideChecks,
		"RetryInAnotherSpellingIsTheSameAttempt":  retryInAnotherSpelling,
		"HiddenKeysNeedSecretKeys":                hiddenKeysNeedSecretKeys,
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

// wantBuckets asks about every spelling, in batches and alone. It wants all spellings
// of a line in the bucket that is the line's key.
func (b subject) wantBuckets(tb testing.TB, zone int64, spellings map[string][]string) {
	tb.Helper()
	for key, line := range spellings {
		var checks []service.Check
		for _, spelling := range line {
			checks = append(checks, one(zone, spelling))
		}
		velocity := 0
		for i, d := range b.all(tb, checks...) {
			velocity++
			if d.Err != nil || d.Verdicts[0].Bucket != at(zone, key) || d.Verdicts[0].Velocity != velocity {
				tb.Errorf("%q in a batch: %+v, want txn %d of %q", line[i], d, velocity, key)
			}
		}
		for _, spelling := range line {
			velocity++
			if v := b.check(tb, at(zone, spelling)).Verdicts[0]; v.Bucket != at(zone, key) || v.Velocity != velocity {
				tb.Errorf("%q: %+v, want txn %d of %q", spelling, v, velocity, key)
			}
		}
		if txns := b.Txns(tb, at(zone, key)); len(txns) != velocity || txns[0].Bucket.Key != key {
			tb.Errorf("%q has %d txns, want %d", key, len(txns), velocity)
		}
	}
}

func spellingsAreOneBucket(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1000, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyUsername}})
	b.wantBuckets(t, 1, map[string][]string{
		"bob":          {"bob", "BOB", "Bob", " bob", "bob  ", "\u00a0bob\u3000", "\uff22\uff4f\uff42", "\U0001d401ob"},
		"strasse":      {"stra\u00dfe", "STRASSE", "Stra\u1e9ee", "strasse"},
		"\u00e9":       {"\u00e9", "e\u0301", "\u00c9", "E\u0301"},
		"i\u0307":      {"\u0130", "i\u0307", "I\u0307"},
		"i":            {"i", "I"},
		"\u0131":       {"\u0131"},
		"office":       {"o\ufb03ce", "OFFICE"},
		"\u03c3\u03c3": {"\u03a3\u03a3", "\u03c3\u03c2", "\u03c3\u03c3"},
		"k":            {"\u212a", "k", "K"},
		"a b":          {"a b", "A\u00a0B"},
		"1_42":         {"1_42", "\u2460_42"},
		"\ud55c":       {"\ud55c", "\u1112\u1161\u11ab"},
	})
}

func accentsAreFolded(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1000, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyUsernameAI}})
	b.set(t, service.Zone{ID: 2, Rate: 1000, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyUsernameGeneral}})
	for zone := range int64(2) {
		b.wantBuckets(t, zone+1, map[string][]string{"alice": {"alice", "álice", "alîce", "ałice", "alİce", "ALICE\u200b"}})
	}
	b.wantBuckets(t, 1, map[string][]string{"bob😀": {"bob😀", "Bób😀"}, "bob🍣": {"bob🍣"}})
	b.wantBuckets(t, 2, map[string][]string{"bob\ufffd": {"bob😀", "bob🍣", "Bob\U0001d401"}})
}

func addressesAreOneBucket(t *testing.T, b subject) {
	b.set(t, service.Zone{
		ID: 1, Rate: 1000, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP, IPv6Prefix: 128},
	})
	b.wantBuckets(t, 1, map[string][]string{
		"203.0.113.9": {
			"203.0.113.9", "::ffff:203.0.113.9", "::FFFF:cb00:7109", "0:0:0:0:0:ffff:203.0.113.9", "203.0.113.9/32",
			"::203.0.113.9", "64:ff9b::cb00:7109", "2002:cb00:7109::1", "2002:cb00:7109:ffff::1", "2001:0:5ef5:79fb:8000:f227:34ff:8ef6",
		},
		"203.0.113.90": {"203.0.113.90"},
		"2001:db8::1":  {"2001:db8::1", "2001:DB8::1", "2001:0db8:0000:0000:0000:0000:0000:0001", "2001:db8:0:0::1", "2001:db8::1/128"},
		"::1":          {"::1", "0::1", "0:0:0:0:0:0:0:1"},
		"fe80::1":      {"fe80::1", "fe80::1%eth0", "fe80::1%lo"},
		"::":           {"::", "0::0"},
	})
}

func networksAreOneBucket(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1000, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	b.set(t, service.Zone{
		ID: 2, Rate: 1000, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP, IPv4Prefix: 24, IPv6Prefix: 49},
	})
	b.wantBuckets(t, 1, map[string][]string{
		"203.0.113.9":       {"203.0.113.9", "::ffff:203.0.113.9"},
		"203.0.113.10":      {"203.0.113.10", "64:ff9b::cb00:710a"},
		"fe80::/64":         {"fe80::1234%lo", "fe80::1%eth0"},
		"2001:db8::/64":     {"2001:db8::1", "2001:db8::", "2001:DB8:0:0:ffff:ffff:ffff:ffff", "2001:db8::/64", "2001:db8::7/64"},
		"2001:db8:0:1::/64": {"2001:db8:0:1::1"},
	})
	b.wantBuckets(t, 2, map[string][]string{
		"203.0.113.0/24":       {"203.0.113.9", "203.0.113.255", "::ffff:203.0.113.0", "203.0.113.0/24"},
		"203.0.114.0/24":       {"203.0.114.0"},
		"2001:db8::/49":        {"2001:db8::1", "2001:db8:0:7fff::1", "2001:db8::/49"},
		"2001:db8:0:8000::/49": {"2001:db8:0:8000::", "2001:db8:0:ffff::1"},
	})
}

func notAnAddress(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 1000, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	for _, key := range []string{
		"alice", "203.0.113", "203.0.113.256", "203.0.113.09", " 203.0.113.9", "203.0.113.9 ", "203.0.113.9:22", "[::1]",
		"fe80::1%", "203.0.113.9%1", "fe80::%eth0/64", "64:ff9b::/64", ":::", "1::2::3", "2001:db8::/48", "203.0.113.0/24", "203.0.113.9/",
		"/", "2001:db8::/064", "0x7f000001", "2130706433",
	} {
		if _, err := b.ask(t.Context(), one(1, key)); !errors.Is(err, service.ErrInvalid) {
			t.Errorf("%q in an address zone: %v, want ErrInvalid", key, err)
		}
		decisions := b.all(t, one(1, "203.0.113.9"), one(1, key), one(1, "203.0.113.9"))
		if decisions[0].Err != nil || !errors.Is(decisions[1].Err, service.ErrInvalid) || decisions[2].Err != nil {
			t.Errorf("%q in a batch: %+v, want it refused alone", key, decisions)
		}
		if txns := b.Txns(t, at(1, key)); len(txns) != 0 {
			t.Errorf("%q was refused and recorded: %+v", key, txns)
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
		if len(first.Verdicts) != len(want) || first.Blocked != (i == 3) || first.Verdicts[1].TxnID != first.Verdicts[4].TxnID {
			t.Errorf("attempt %d: %+v", i+1, first)
		}
	}
	if d := b.check(t, at(2, "203.0.113.8"), at(2, "203.0.113.8")); len(d.Verdicts) != 2 || d.Verdicts[0] != d.Verdicts[1] ||
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
		{service.KeyRule{Kind: service.KeyUsername}, map[string]string{"Bob": "bob", "::FFFF:203.0.113.9": "::ffff:203.0.113.9"}},
		{service.KeyRule{Kind: service.KeyIP}, map[string]string{"Bob": "", "::FFFF:203.0.113.9": "203.0.113.9", "2001:db8::1": "2001:db8::/64"}},
		{service.KeyRule{Kind: service.KeyIP, IPv6Prefix: 48}, map[string]string{"2001:db8::1": "2001:db8::/48", "Bob": ""}},
		{service.KeyRule{Kind: service.KeyIP, IPv4Prefix: 8}, map[string]string{"2001:db8::1": "2001:db8::/64", "203.0.113.9": "203.0.0.0/8"}},
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

func retryInAnotherSpelling(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 9, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyUsername}})
	b.set(t, service.Zone{ID: 2, Rate: 9, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	first := b.attempt(t, "id", at(1, "Bob"), at(2, "2001:db8::1"))
	wantSame(t, first, b.attempt(t, "id", at(1, " bob"), at(2, "2001:DB8::2")))
	check := service.Check{AttemptID: "id", Buckets: []service.Bucket{at(1, "Bob"), at(2, "2001:db8:0:1::1")}}
	if _, err := b.ask(t.Context(), check); !errors.Is(err, service.ErrConflict) {
		t.Errorf("an address of another network: %v, want ErrConflict", err)
	}
}

// The limiter in front of the store has no secret keys.
func hiddenKeysNeedSecretKeys(t *testing.T, b subject) {
	b.set(t, service.Zone{ID: 1, Rate: 9, Window: time.Hour, Keys: service.KeyRule{Form: service.KeyHMAC}})
	b.zone(t, 2, 9, time.Hour)
	for _, check := range []service.Check{one(1, "alice"), {Buckets: []service.Bucket{at(2, "alice"), at(1, "alice")}}} {
		if _, err := b.ask(t.Context(), check); !errors.Is(err, service.ErrNoKeys) || strings.Contains(err.Error(), "alice") {
			t.Errorf("%v: %v, want ErrNoKeys", check.Buckets, err)
		}
	}
	b.zone(t, 1, 9, time.Hour)
	if d := b.check(t, at(2, "alice"), at(1, "alice")); d.Verdicts[0].Velocity != 1 || d.Verdicts[1].Velocity != 1 {
		t.Errorf("an attempt was counted that was refused: %+v", d)
	}
	if txns := b.Txns(t, at(1, "alice")); len(txns) != 1 {
		t.Errorf("%d txns, want 1", len(txns))
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
