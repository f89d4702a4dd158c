package servicetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

func keysAreComparedByteByByte(t *testing.T, b bench) {
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

func badKeysAreRefusedAndRecordNothing(t *testing.T, b bench) {
	b.zone(t, 1, 1, time.Hour)
	for _, key := range []string{
		"", strings.Repeat("x", service.MaxKeyLength+1), "a\x00b", "tab\t", "new\nline", "\x7f", "\u0085",
		"\xff\xfe", "a\xc3", "\xed\xa0\x80",
	} {
		_, err := b.limiter.Check(context.Background(), one(1, key))
		if !errors.Is(err, service.ErrInvalid) {
			t.Errorf("key %q: %v, want ErrInvalid", key, err)
		}
	}
}
