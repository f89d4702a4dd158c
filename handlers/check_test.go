package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/api"
	"velocityd/service"
)

// zones sets zone 1 with room for two an hour and zone 2 with room for one.
func (r *running) zones(t *testing.T) {
	t.Helper()
	r.SetZone(t, service.Zone{ID: 1, Description: "login per user", Rate: 2, Window: time.Hour})
	r.SetZone(t, service.Zone{ID: 2, Description: "login per address", Rate: 1, Window: time.Minute})
}

func bucketJSON(zone int64, key string) string {
	return fmt.Sprintf(`{"zone_id":%d,"bucket_key":%s}`, zone, quoted(key))
}

// fixed decides every check alike.
func fixed(d service.Decision) storeFunc {
	return func(_ context.Context, checks []service.Check) ([]service.Decision, error) {
		decisions := make([]service.Decision, len(checks))
		for i := range checks {
			decisions[i] = d
		}
		return decisions, nil
	}
}

func bucketOf(zone int64, key string) service.Bucket { return service.Bucket{ZoneID: zone, Key: key} }

func TestCheckRefusesWhatItCannotMean(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	r.SetZone(t, service.Zone{ID: 3, Rate: 1, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	good := bucketJSON(1, "x")
	list := func(second string) string { return `{"buckets":[` + good + `,` + second + `]}` }
	for name, test := range map[string]struct{ body, pointer, detail string }{
		"both forms": {
			`{"zone_id":1,"bucket_key":"x","buckets":[]}`, "",
			"Give either zone_id and bucket_key, or buckets, not both.",
		},
		"neither form": {`{}`, "", "Give zone_id and bucket_key, or buckets."},
		"no zone":      {`{"bucket_key":"x"}`, "/zone_id", "zone_id is missing."},
		"no key":       {`{"zone_id":1}`, "/bucket_key", "bucket_key is missing."},
		"no buckets":   {`{"buckets":[]}`, "/buckets", "buckets must hold 1 to 8 elements."},
		"nine buckets": {
			`{"buckets":[` + strings.Repeat(good+",", 8) + good + `]}`, "/buckets",
			"buckets must hold 1 to 8 elements.",
		},
		"zone 0":        {bucketJSON(0, "x"), "/zone_id", "zone_id must be 1 to 2147483647, is 0."},
		"zone too high": {bucketJSON(1<<31, "x"), "/zone_id", "zone_id must be 1 to 2147483647, is 2147483648."},
		"empty key":     {bucketJSON(1, ""), "/bucket_key", "bucket_key must not be empty."},
		"long key": {
			bucketJSON(1, strings.Repeat("x", 256)), "/bucket_key",
			"bucket_key must be at most 255 characters.",
		},
		"control character": {bucketJSON(1, "x\n"), "/bucket_key", "bucket_key must not contain control characters."},
		"no address":        {bucketJSON(3, "x"), "/bucket_key", "bucket_key must be an IPv4 or IPv6 address in this zone."},
		"another network": {
			bucketJSON(3, "2001:db8::/65"), "/bucket_key",
			"bucket_key must be an address or a network of /64 in this zone.",
		},
		"empty attempt_id": {
			`{"zone_id":1,"bucket_key":"x","attempt_id":""}`, "/attempt_id",
			"attempt_id must not be empty.",
		},
		"attempt_id not ASCII": {
			`{"attempt_id":"é","buckets":[` + good + `]}`, "/attempt_id",
			"attempt_id must be 1 to 64 printable ASCII characters.",
		},
		"bucket without zone": {list(`{"bucket_key":"y"}`), "/buckets/1/zone_id", "bucket 1: zone_id is missing."},
		"bucket without key":  {list(`{"zone_id":2}`), "/buckets/1/bucket_key", "bucket 1: bucket_key is missing."},
		"bucket of zone 0": {
			list(bucketJSON(0, "x")), "/buckets/1/zone_id",
			"bucket 1: zone_id must be 1 to 2147483647, is 0.",
		},
		"bucket of no key": {list(bucketJSON(1, "")), "/buckets/1/bucket_key", "bucket 1: bucket_key must not be empty."},
		"bucket of no address": {
			list(bucketJSON(3, "x")), "/buckets/1/bucket_key",
			"bucket 1: bucket_key must be an IPv4 or IPv6 address in this zone.",
		},
		"list of no address": {
			`{"buckets":[` + bucketJSON(3, "x") + `]}`, "/buckets/0/bucket_key",
			"bucket 0: bucket_key must be an IPv4 or IPv6 address in this zone.",
		},
	} {
		p := r.post(t, "/v1/check", test.body).refused(t, http.StatusBadRequest, "invalid_request")
		if p.Pointer != test.pointer || p.Detail != test.detail {
			t.Errorf("%s: at %q: %s; want %q at %q", name, p.Pointer, p.Detail, test.detail, test.pointer)
		}
		// In a batch, the place is one of the whole body.
		results := r.post(t, "/v1/checks", `{"checks":[`+bucketJSON(7, "x")+`,`+test.body+`]}`).results(t)
		if p := results[1].Problem; p == nil || p.Pointer != "/checks/1"+test.pointer || p.Detail != test.detail {
			t.Errorf("%s in a batch: %+v", name, p)
		}
	}
}

func TestChecksRefusesAWrongShapeWhole(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	good := bucketJSON(1, "alice")
	for _, test := range []struct{ body, pointer string }{
		{`{"checks":[` + good + `,{"zone_id":"1","bucket_key":"x"}]}`, "/checks/1/zone_id"},
		{`{"checks":[` + good + `,{"zone_id":1,"bucket_key":"x","note":1}]}`, "/checks/1/note"},
		{`{"checks":[` + good + `,{"zone_id":1,"zone_id":2}]}`, "/checks/1/zone_id"},
		{
			`{"checks":[` + good + `,{"buckets":[` + good + `,{"zone_id":1,"bucket_key":null}]}]}`,
			"/checks/1/buckets/1/bucket_key",
		},
		{`{"checks":[` + good + `,null]}`, "/checks/1"},
		{`{"checks":[` + good + `,{"buckets":{}}]}`, "/checks/1/buckets"},
		{`{"checks":null}`, "/checks"},
		{`{"checks":[]}`, "/checks"},
		{`{}`, "/checks"},
		{`{"checks":[` + good + `],"more":1}`, "/more"},
		{`{"checks":[` + good + `]} {}`, ""},
		{`{"checks":[` + strings.Repeat("{},", 1000) + `{}]}`, "/checks"},
		{`{"checks":[` + strings.Repeat("{},", 300_000) + `{}]}`, "/checks"},
	} {
		p := r.post(t, "/v1/checks", test.body).refused(t, http.StatusBadRequest, "invalid_request")
		if p.Pointer != test.pointer {
			t.Errorf("%.120s: pointer is %q, want %q: %s", test.body, p.Pointer, test.pointer, p.Detail)
		}
	}
	if txns := r.Txns(bucketOf(1, "alice")); len(txns) != 0 {
		t.Errorf("refused calls recorded %+v", txns)
	}
}

func TestChecksAnswersEachFailedPartWithOwnProblem(t *testing.T) {
	t.Parallel()
	errs := []error{
		nil, fmt.Errorf("%w: lock wait", service.ErrBusy), &service.BusyError{RetryAfter: 3 * time.Second},
		fmt.Errorf("check: %w: cut", service.ErrUndecided), errors.New("no such column"),
	}
	r := startWith(t, func(_ context.Context, checks []service.Check) ([]service.Decision, error) {
		decisions := make([]service.Decision, len(checks))
		for i, check := range checks {
			verdict := service.Verdict{Bucket: check.Buckets[0], TxnID: 1, Rate: 1, Window: service.Lasting(time.Minute)}
			decisions[i] = service.Decision{
				Err: errs[i], CheckedAt: service.At(time.Unix(1, 0)),
				Verdicts: []service.Verdict{verdict},
			}
		}
		return decisions, nil
	})
	checks := strings.Join(slices.Repeat([]string{bucketJSON(1, "alice")}, len(errs)), ",")
	results := r.post(t, "/v1/checks", `{"checks":[`+checks+`]}`).results(t)
	for i, want := range []string{"allowed", "busy", "busy", "undecided", "internal"} {
		if got := word(results[i]); got != want {
			t.Errorf("check %d: %s, want %s: %+v", i, got, want, results[i].Problem)
		}
	}
	if text := r.log.String(); strings.Count(text, "request failed") != 1 || !strings.Contains(text, "cut") {
		t.Errorf("the log has not the first fault alone:\n%s", text)
	}
}

// results returns the answer of a batch.
func (r reply) results(t *testing.T) []api.Result {
	t.Helper()
	return read[api.Results](t, r).Results
}

func word(r api.Result) string {
	switch {
	case r.Problem != nil:
		return r.Problem.Code
	case r.Decision.Blocked:
		return "blocked"
	default:
		return "allowed"
	}
}
