package handlers

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"velocityd/service"
)

func TestRateLimitHeadersTellEndOfPeriod(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		edit  func(*service.Verdict)
		limit string
	}{
		"room": {func(*service.Verdict) {}, `"1";r=2;t=324000`},
		"full": {
			func(v *service.Verdict) { v.Velocity, v.Blocked, v.RetryAfter.Duration = 5, true, 90*time.Hour },
			`"1";r=0;t=324000`,
		},
		"locked for more": {
			func(v *service.Verdict) { v.Velocity, v.Blocked, v.RetryAfter.Duration = 5, true, 95*time.Hour },
			`"1";r=0;t=342000`,
		},
	} {
		v := service.Verdict{
			Bucket: bucketOf(1, "secret"), TxnID: 1, Rate: 5, Window: service.Lasting(service.PeriodMonth.Length()), Velocity: 3,
			ResetAfter: service.Lasting(90 * time.Hour),
		}
		test.edit(&v)
		d := service.Decision{CheckedAt: service.At(time.Now()), Blocked: v.Blocked, Verdicts: []service.Verdict{v}}
		got := startWith(t, fixed(d)).post(t, "/v1/check", bucketJSON(1, "secret")).header
		if got.Get("RateLimit-Policy") != `"1";q=5;w=2678400` || got.Get("RateLimit") != test.limit {
			t.Errorf("%s: got %q, %q", name, got.Get("RateLimit-Policy"), got.Get("RateLimit"))
		}
	}
}

func TestRateLimitHeadersSpeakOfEachZoneOnce(t *testing.T) { //nolint:funlen // a table of cases
	t.Parallel()
	free := func(zone int64, key string, velocity int) service.Verdict {
		return service.Verdict{
			Bucket: bucketOf(zone, key), TxnID: 1, Rate: 5, Window: service.Lasting(time.Minute),
			Velocity: velocity,
		}
	}
	blocked := func(zone int64, key string, wait time.Duration) service.Verdict {
		v := free(zone, key, 5)
		v.Blocked, v.RetryAfter.Duration = true, wait
		return v
	}
	beside := func(zone int64, key string) service.Verdict {
		v := free(zone, key, 0)
		v.Unmetered = true
		return v
	}
	for name, test := range map[string]struct {
		verdicts                  []service.Verdict
		policy, limit, retryAfter string
	}{
		"one bucket": {
			[]service.Verdict{free(1, "secret", 1)}, `"1";q=5;w=60`, `"1";r=4`, "",
		},
		"nothing left but not blocked": {
			[]service.Verdict{free(1, "secret", 5)}, `"1";q=5;w=60`, `"1";r=0`, "",
		},
		"a zone that only watches": {
			[]service.Verdict{{
				Bucket: bucketOf(1, "secret"), TxnID: 1, Rate: 5, Window: service.Lasting(time.Minute),
				Velocity: 5, WouldBlock: true,
			}},
			`"1";q=5;w=60`, `"1";r=0`, "",
		},
		"blocked": {
			[]service.Verdict{blocked(1, "secret", 42*time.Second)}, `"1";q=5;w=60`, `"1";r=0;t=42`, "42",
		},
		"two zones, one blocked": {
			[]service.Verdict{free(7, "secret", 1), blocked(3, "secret", 9*time.Second)},
			`"7";q=5;w=60, "3";q=5;w=60`, `"7";r=4, "3";r=0;t=9`, "9",
		},
		"two buckets of a zone, the fuller one speaks": {
			[]service.Verdict{free(1, "a", 1), free(1, "secret", 3)}, `"1";q=5;w=60`, `"1";r=2`, "",
		},
		"two blocked buckets of a zone, the longer wait speaks": {
			[]service.Verdict{blocked(1, "a", 9*time.Second), free(1, "b", 0), blocked(1, "secret", 8*time.Second)},
			`"1";q=5;w=60`, `"1";r=0;t=9`, "9",
		},
		"no limit decided about one of two buckets of a zone": {
			[]service.Verdict{beside(1, "vip"), free(1, "secret", 3), beside(3, "secret")}, `"1";q=5;w=60`, `"1";r=2`, "",
		},
		"no limit decided": {[]service.Verdict{beside(1, "secret")}, "", "", ""},
		"denied": {
			[]service.Verdict{{
				Bucket: bucketOf(1, "x"), TxnID: 1, Rate: 5, Window: service.Lasting(time.Minute), Unmetered: true, Blocked: true,
				RetryAfter: service.Lasting(time.Hour),
			}},
			"", "", "3600",
		},
		"rate 0": {
			[]service.Verdict{{
				Bucket: bucketOf(1, "x"), TxnID: 1, Window: service.Lasting(time.Hour), Blocked: true,
				RetryAfter: service.Lasting(time.Hour),
			}},
			`"1";q=0;w=3600`, `"1";r=0;t=3600`, "3600",
		},
	} {
		d := service.Decision{CheckedAt: service.At(time.Now()), Verdicts: test.verdicts}
		for _, v := range test.verdicts {
			d.Blocked, d.WouldBlock = d.Blocked || v.Blocked, d.WouldBlock || v.WouldBlock
		}
		got := startWith(t, fixed(d)).post(t, "/v1/check", bucketJSON(1, "secret")).header
		if got.Get("RateLimit-Policy") != test.policy || got.Get("RateLimit") != test.limit ||
			got.Get("Retry-After") != test.retryAfter {
			t.Errorf("%s: got %q, %q, %q", name, got.Get("RateLimit-Policy"), got.Get("RateLimit"), got.Get("Retry-After"))
		}
		for _, field := range []string{"RateLimit-Policy", "RateLimit"} {
			if _, exists := got[http.CanonicalHeaderKey(field)]; exists != (test.limit != "") {
				t.Errorf("%s: has %s: %v", name, field, exists)
			}
			if _, err := httpsfv.UnmarshalList(got.Values(field)); err != nil {
				t.Errorf("%s: %s is no structured field: %v", name, field, err)
			}
		}
		for field, values := range got {
			if strings.Contains(strings.Join(values, " "), "secret") {
				t.Errorf("%s: header %s holds the key: %q", name, field, values)
			}
		}
	}
}
