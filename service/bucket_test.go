package service_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"velocityd/service"
)

func TestBucketValidateKnowsEveryLimit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		bucket service.Bucket
		field  string
	}{
		{"smallest zone", at(1, "1_42"), ""},
		{"largest zone", at(math.MaxInt32, "1_42"), ""},
		{"zone 0", at(0, "1_42"), "zone_id"},
		{"zone negative", at(-1, "1_42"), "zone_id"},
		{"zone beyond INT", at(math.MaxInt32+1, "1_42"), "zone_id"},
		{"one character", at(1, "a"), ""},
		{"255 characters", at(1, strings.Repeat("x", 255)), ""},
		{"255 emoji", at(1, strings.Repeat("🔑", 255)), ""},
		{"a space is a key", at(1, " "), ""},
		{"quotes and backslashes", at(1, `'"\`+"`"), ""},
		{"first character after the controls", at(1, "\u00a0"), ""},
		{"the replacement character itself", at(1, "\ufffd"), ""},
		{"empty", at(1, ""), "bucket_key"},
		{"256 characters", at(1, strings.Repeat("x", 256)), "bucket_key"},
		{"256 emoji", at(1, strings.Repeat("🔑", 256)), "bucket_key"},
		{"NUL", at(1, "secret\x00"), "bucket_key"},
		{"newline", at(1, "secret\n"), "bucket_key"},
		{"last of the C0 controls", at(1, "secret\x1f"), "bucket_key"},
		{"DEL", at(1, "\x7fsecret"), "bucket_key"},
		{"last of the C1 controls", at(1, "secret\u009f"), "bucket_key"},
		{"not UTF-8", at(1, "secret\xff"), "bucket_key"},
		{"cut in a character", at(1, "secret\xc3"), "bucket_key"},
		{"a surrogate", at(1, "secret\xed\xa0\x80"), "bucket_key"},
		{"overlong encoding", at(1, "secret\xc0\xaf"), "bucket_key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := test.bucket.Validate()
			wantInvalid(t, err, test.field)
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("error %q repeats the key", err)
			}
		})
	}
}

func FuzzBucketValidate(f *testing.F) {
	for _, key := range []string{"1_42", "", "é", "\x00", "\u0085", "\xff", strings.Repeat("🔑", 255), strings.Repeat("x", 256)} {
		f.Add(int64(1), key)
	}
	f.Add(int64(0), "a")
	f.Add(int64(math.MaxInt32+1), "a")
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
		if !errors.Is(err, service.ErrInvalid) {
			t.Errorf("zone %d, key %q: %v is not ErrInvalid", zone, key, err)
		}
		// Short keys may be words of the message.
		if len(key) > 60 && strings.Contains(err.Error(), key) {
			t.Errorf("error %q repeats the key", err)
		}
	})
}
