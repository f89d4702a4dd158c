package service_test

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzBucketValidate(f *testing.F) {
	for _, key := range []string{
		"1_42", "", "é", "a", " ", `'"\` + "`", "\u00a0", "\ufffd", "\x00", "\n", "\x1f", "\x7f", "\u0085", "\u009f", "\xff",
		"\xc3",
		"\xed\xa0\x80", "\xc0\xaf", strings.Repeat("🔑", 255), strings.Repeat("🔑", 256), strings.Repeat("x", 255),
		strings.Repeat("x", 256),
	} {
		f.Add(int64(1), key)
	}
	for _, zone := range []int64{-1, 0, math.MaxInt32, math.MaxInt32 + 1} {
		f.Add(zone, "a")
	}
	f.Fuzz(func(t *testing.T, zone int64, key string) {
		err := at(zone, key).Validate()
		bad := zone < 1 || zone > math.MaxInt32 || !utf8.ValidString(key)
		runes := 0
		for _, r := range key {
			runes++
			bad = bad || r < 0x20 || r >= 0x7f && r < 0xa0
		}
		bad = bad || runes < 1 || runes > 255
		if (err != nil) != bad {
			t.Fatalf("zone %d, key %q: %v, want refused %v", zone, key, err, bad)
		}
		if err == nil {
			return
		}
		wantInvalid(t, err, map[bool]string{true: "zone_id", false: "bucket_key"}[zone < 1 || zone > math.MaxInt32])
		// Short keys may be words of the message.
		if len(key) > 60 && strings.Contains(err.Error(), key) {
			t.Errorf("error %q repeats the key", err)
		}
	})
}
