package service_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	strict "github.com/go-json-experiment/json"

	"velocityd/service"
)

func FuzzInstantIsWrittenWithSixDigitsInUTC(f *testing.F) {
	for _, at := range []int64{0, 1, 999_999, 1_756_034_102_120_000, -1, 253_402_300_799_999_999} {
		f.Add(at, int64(0), 0)
	}
	f.Add(int64(1), int64(999), 7200)
	f.Fuzz(func(t *testing.T, micro, nano int64, offset int) {
		at := time.UnixMicro(micro).Add(time.Duration(nano % 1000)).In(time.FixedZone("", offset%86400))
		if year := at.UTC().Year(); year < 0 || year > 9999 {
			return // RFC 3339 has no such years
		}
		want := at.UTC().Format(`"2006-01-02T15:04:05.000000Z"`)
		text, err := service.At(at).MarshalJSON()
		if err != nil || string(text) != want {
			t.Fatalf("wrote %s, %v, want %s", text, err, want)
		}
		var read service.Instant
		if err := read.UnmarshalJSON(text); err != nil || read.Time != at.UTC().Truncate(time.Microsecond) {
			t.Fatalf("%s came back as %s, %v", text, read, err)
		}
	})
}

// through encodes value as JSON and decodes it again.
func through[T any](t *testing.T, value T) (T, string) {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var again T
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return again, string(text)
}

func second(n int) time.Time { return time.Date(2026, 8, 24, 9, 15, n, 120_000, time.UTC) }

func TestAbsentMembersAreLeftOut(t *testing.T) {
	t.Parallel()
	_, override := through(t, service.Override{ID: 1, ZoneID: 2, Key: "k", Action: service.OverrideDeny})
	if want := `{"id":"1","zone_id":2,"bucket_key":"k","action":"deny","reason":"","created_by":""}`; override != want {
		t.Errorf("override is %s, want %s", override, want)
	}
	_, limit := through(
		t, service.OverrideRequest{Key: "k", Action: service.OverrideLimit, Window: service.Lasting(time.Second)})
	if want := `{"bucket_key":"k","action":"limit","rate":0,"window":1}`; limit != want {
		t.Errorf("request is %s, want %s", limit, want)
	}
	_, decision := through(t, service.Decision{Degraded: true, Verdicts: []service.Verdict{
		{Bucket: service.Bucket{ZoneID: 1, Key: "k"}, Rate: 5, Window: service.Lasting(time.Minute), Velocity: 5},
	}})
	if want := `{"blocked":false,"would_block":false,"degraded":true,"retry_after":0,"buckets":[{"zone_id":1,"bucket_key":"k",` +
		`"blocked":false,"would_block":false,"rate":5,"window":60,"retry_after":0}]}`; decision != want {
		t.Errorf("degraded decision is %s, want %s", decision, want)
	}
	_, peek := through(t, service.Peek{At: service.At(second(1))})
	for _, member := range []string{"locked_until", "override", "null"} {
		if strings.Contains(peek, member) {
			t.Errorf("%s has %s", peek, member)
		}
	}
}

func TestIDsAreWrittenAsStrings(t *testing.T) {
	t.Parallel()
	answer := service.Txn{ID: 1<<53 + 1, OverrideID: math.MaxUint64}
	again, text := through(t, answer)
	if !strings.HasPrefix(text, `{"id":"9007199254740993",`) ||
		!strings.Contains(text, `"override_id":"18446744073709551615"`) || again != answer {
		t.Errorf("%s came back as %+v", text, again)
	}
}

// FuzzDecisionsAreReadAsTheyAreWritten holds the encoder, which is written by hand, against the reader, which goes by
// the tags.
func FuzzDecisionsAreReadAsTheyAreWritten(f *testing.F) {
	f.Add(int64(1), "1_42", false, false, false, uint64(981), 5, int64(60), 1, int64(0), int64(1756034102120000))
	f.Add(int64(2147483647), "<a> & \"b\"\\\u2028\x7f\u0085\x00\t\x1f", true, true, true, uint64(math.MaxUint64), 0,
		int64(31622400), 0, int64(42), int64(-1))
	f.Add(int64(1), "\xff", false, false, false, uint64(1), 1, int64(1), 1, int64(1), int64(1))
	f.Fuzz(func(
		t *testing.T, zone int64, key string, blocked, degraded, unmetered bool, txn uint64, rate int, window int64,
		velocity int, retry, at int64,
	) {
		if window > math.MaxInt32 || retry > math.MaxInt32 || window < 0 || retry < 0 {
			return // no number of seconds that a Duration holds
		}
		one := service.Verdict{
			Bucket: service.Bucket{ZoneID: zone, Key: key}, Blocked: blocked, WouldBlock: !blocked, TxnID: txn,
			OverrideID: txn / 2, Rate: rate,
			Window:     service.Lasting(time.Duration(window) * time.Second),
			RetryAfter: service.Lasting(time.Duration(retry) * time.Second),
			ResetAfter: service.Lasting(time.Duration(window/2) * time.Second), Reason: service.ReasonFull,
			Unmetered: unmetered && !degraded,
		}
		switch {
		case degraded:
			one.Velocity = rate
		case !one.Unmetered:
			one.Velocity = velocity
		}
		other := one
		other.Bucket.Key, other.Blocked = "x", !blocked
		want := service.Decision{
			Blocked: blocked, WouldBlock: true, Degraded: degraded, CheckedAt: service.At(time.UnixMicro(at).UTC()),
			Verdicts: []service.Verdict{one, other},
		}
		text, err := want.AppendJSON([]byte("before"))
		if (err == nil) != utf8.ValidString(key) {
			t.Fatalf("%q is written with %v", key, err)
		}
		if err != nil {
			return
		}
		var got service.Decision
		if err := strict.Unmarshal(text[len("before"):], &got); err != nil || got.Blocked != want.Blocked ||
			got.WouldBlock != want.WouldBlock || got.Degraded != want.Degraded || got.CheckedAt != want.CheckedAt ||
			!slices.Equal(got.Verdicts, want.Verdicts) {
			t.Fatalf("%s came back as %+v, %v; want %+v", text, got, err, want)
		}
	})
}
