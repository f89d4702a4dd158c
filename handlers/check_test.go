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

func TestCheckAnswersInTheDocumentedOrder(t *testing.T) {
	t.Parallel()
	r := startWith(t, fixed(service.Decision{
		CheckedAt: service.At(time.Date(2026, 8, 24, 11, 15, 2, 120_000_000, time.FixedZone("", 7200))),
		Verdicts: []service.Verdict{{
			Bucket: bucketOf(1, "1_42"), TxnID: 981, Rate: 5, Window: service.Lasting(time.Minute), Velocity: 1,
		}},
	}))
	got := r.post(t, "/v1/check", `{"zone_id":1,"bucket_key":"1_42"}`)
	want := `{"blocked":false,"would_block":false,"txn_id":"981","retry_after":0,"checked_at":"2026-08-24T09:15:02.120000Z",` +
		`"buckets":[{"zone_id":1,"bucket_key":"1_42","blocked":false,"would_block":false,"txn_id":"981",` +
		`"rate":5,"window":60,"velocity":1,"remaining":4,"retry_after":0}]}`
	if got.status != http.StatusOK || got.body != want {
		t.Errorf("got %d\n%s\nwant\n%s", got.status, got.body, want)
	}
	if server := got.header.Get("Server"); server != "" {
		t.Errorf("the server names itself %q", server)
	}
}

func TestCheckBlocksWithStatus200(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	both := `{"buckets":[` + bucketJSON(1, "alice") + `,` + bucketJSON(2, "203.0.113.9") + `]}`
	if d := r.post(t, "/v1/check", both).decision(t); d.Blocked || len(d.Verdicts) != 2 || d.TxnID() != d.Verdicts[0].TxnID {
		t.Errorf("first: %+v", d)
	}
	got := r.post(t, "/v1/check", both)
	d := got.decision(t)
	if !d.Blocked || d.Verdicts[0].Blocked || !d.Verdicts[1].Blocked || d.RetryAfter() != d.Verdicts[1].RetryAfter.Duration {
		t.Errorf("second: %+v", d)
	}
	if d.Verdicts[0].Remaining() != 1 {
		t.Errorf("the user's bucket was charged: %+v", d.Verdicts[0])
	}
	if want := fmt.Sprint(service.WholeSeconds(d.RetryAfter())); d.RetryAfter() < time.Second || got.header.Get("Retry-After") != want {
		t.Errorf("Retry-After = %q, want %q", got.header.Get("Retry-After"), want)
	}
}

func TestCheckRefusesWhatItCannotMean(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	r.SetZone(t, service.Zone{ID: 3, Rate: 1, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	good := bucketJSON(1, "x")
	list := func(second string) string { return `{"buckets":[` + good + `,` + second + `]}` }
	for name, test := range map[string]struct{ body, pointer, detail string }{
		"both forms":        {`{"zone_id":1,"bucket_key":"x","buckets":[]}`, "", "Give either zone_id and bucket_key, or buckets, not both."},
		"neither form":      {`{}`, "", "Give zone_id and bucket_key, or buckets."},
		"no zone":           {`{"bucket_key":"x"}`, "/zone_id", "zone_id is missing."},
		"no key":            {`{"zone_id":1}`, "/bucket_key", "bucket_key is missing."},
		"no buckets":        {`{"buckets":[]}`, "/buckets", "buckets must hold 1 to 8 elements."},
		"nine buckets":      {`{"buckets":[` + strings.Repeat(good+",", 8) + good + `]}`, "/buckets", "buckets must hold 1 to 8 elements."},
		"zone 0":            {bucketJSON(0, "x"), "/zone_id", "zone_id must be 1 to 2147483647, is 0."},
		"zone too high":     {bucketJSON(1<<31, "x"), "/zone_id", "zone_id must be 1 to 2147483647, is 2147483648."},
		"empty key":         {bucketJSON(1, ""), "/bucket_key", "bucket_key must not be empty."},
		"long key":          {bucketJSON(1, strings.Repeat("x", 256)), "/bucket_key", "bucket_key must be at most 255 characters."},
		"control character": {bucketJSON(1, "x\n"), "/bucket_key", "bucket_key must not contain control characters."},
		"no address":        {bucketJSON(3, "x"), "/bucket_key", "bucket_key must be an IPv4 or IPv6 address in this zone."},
		"another network":   {bucketJSON(3, "2001:db8::/65"), "/bucket_key", "bucket_key must be an address or a network of /64 in this zone."},
		"empty attempt_id":  {`{"zone_id":1,"bucket_key":"x","attempt_id":""}`, "/attempt_id", "attempt_id must not be empty."},
		"attempt_id not ASCII": {
			`{"attempt_id":"é","buckets":[` + good + `]}`, "/attempt_id",
			"attempt_id must be 1 to 64 printable ASCII characters.",
		},
		"bucket without zone": {list(`{"bucket_key":"y"}`), "/buckets/1/zone_id", "bucket 1: zone_id is missing."},
		"bucket without key":  {list(`{"zone_id":2}`), "/buckets/1/bucket_key", "bucket 1: bucket_key is missing."},
		"bucket of zone 0":    {list(bucketJSON(0, "x")), "/buckets/1/zone_id", "bucket 1: zone_id must be 1 to 2147483647, is 0."},
		"bucket of no key":    {list(bucketJSON(1, "")), "/buckets/1/bucket_key", "bucket 1: bucket_key must not be empty."},
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

// badKeys are keys as they stand between the quotes of a JSON string.
func badKeys() map[string]string {
	return map[string]string{
		"empty":                "",
		"256 characters":       strings.Repeat("x", 256),
		"NUL":                  `secret\u0000key`,
		"C1 control":           `secret\u0085key`,
		"raw control":          "secret\x01key",
		"invalid UTF-8":        "secret\xff\xfekey",
		"surrogate as UTF-8":   "secret\xed\xa0\x80key",
		"lone high surrogate":  `secret\ud800key`,
		"unknown escape":       `secret\xkey`,
		"surrogate at the end": `secretkey\ud83d`,
	}
}

func TestServerRefusesEveryBadKey(t *testing.T) {
	t.Parallel()
	asked := startWith(t, func(context.Context, []service.Check) ([]service.Decision, error) {
		t.Error("the store was asked")
		return nil, service.ErrBusy
	})
	for name, key := range badKeys() {
		bucket := `{"zone_id":1,"bucket_key":"` + key + `"}`
		for _, body := range []string{bucket, `{"buckets":[` + bucket + `]}`} {
			p := asked.post(t, "/v1/check", body).refused(t, http.StatusBadRequest, "invalid_request")
			if strings.Contains(p.Detail, "secret") || strings.Contains(p.Detail, "xxx") {
				t.Errorf("%s: detail repeats the key: %s", name, p.Detail)
			}
		}
	}
	if log := asked.log.String(); strings.Contains(log, "secret") {
		t.Errorf("the log repeats a key: %s", log)
	}
}

func TestCheckTakesEveryGoodKey(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	for _, key := range []string{
		"Bob", "bob", "é", "e\u0301", " bob ", `a"b\c'd`, "<script>&", "null", "\u00a0", "\u2028", "\ufffd",
		strings.Repeat("🔑", 255), "%00", "../etc",
	} {
		d := r.post(t, "/v1/check", bucketJSON(1, key)).decision(t)
		if d.Verdicts[0].Key != key || d.Verdicts[0].Remaining() != 1 {
			t.Errorf("key %q came back as %+v", key, d.Verdicts[0])
		}
	}
	if d := r.post(t, "/v1/check", `{"zone_id":1,"bucket_key":"\ud83d\udd11"}`).decision(t); d.Verdicts[0].Key != "🔑" {
		t.Errorf("an escaped pair came back as %q", d.Verdicts[0].Key)
	}
}

func TestChecksAnswersEachByItself(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	got := r.post(t, "/v1/checks", `{"checks":[`+strings.Join([]string{
		bucketJSON(2, "alice"),
		bucketJSON(2, "alice"),
		bucketJSON(2, ""),
		bucketJSON(7, "bob"),
		`{}`,
		`{"zone_id":1,"bucket_key":"x","buckets":[]}`,
		`{"buckets":[{"zone_id":1}]}`,
		`{"buckets":[` + bucketJSON(1, "d") + `,` + bucketJSON(1, "") + `]}`,
		`{"buckets":[` + bucketJSON(1, "d") + `,` + bucketJSON(2, "bob") + `]}`,
	}, ",")+`]}`)
	if got.status != http.StatusOK {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	results := got.results(t)
	if len(results) != 9 {
		t.Fatalf("got %d results for 9 checks", len(results))
	}
	for i, want := range []string{
		"allowed", "blocked", "invalid_request", "not_found", "invalid_request", "invalid_request",
		"invalid_request", "invalid_request", "allowed",
	} {
		if got := word(results[i]); got != want {
			t.Errorf("check %d: %s, want %s: %+v", i, got, want, results[i].Problem)
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
		{`{"checks":[` + good + `,{"buckets":[` + good + `,{"zone_id":1,"bucket_key":null}]}]}`, "/checks/1/buckets/1/bucket_key"},
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

func TestChecksAnswersEachWithItsOwnProblemWhereAPartFailed(t *testing.T) {
	t.Parallel()
	errs := []error{
		nil, fmt.Errorf("%w: lock wait", service.ErrBusy), &service.BusyError{RetryAfter: 3 * time.Second},
		fmt.Errorf("check: %w: cut", service.ErrUndecided), errors.New("no such column"),
	}
	r := startWith(t, func(_ context.Context, checks []service.Check) ([]service.Decision, error) {
		decisions := make([]service.Decision, len(checks))
		for i, check := range checks {
			verdict := service.Verdict{Bucket: check.Buckets[0], TxnID: 1, Rate: 1, Window: service.Lasting(time.Minute)}
			decisions[i] = service.Decision{Err: errs[i], CheckedAt: service.At(time.Unix(1, 0)), Verdicts: []service.Verdict{verdict}}
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

func TestChecksAnswersWithoutTheStoreIfNoneMakesSense(t *testing.T) {
	t.Parallel()
	r := startWith(t, func(context.Context, []service.Check) ([]service.Decision, error) {
		t.Error("the store was asked")
		return nil, service.ErrBusy
	})
	for i, got := range r.post(t, "/v1/checks", `{"checks":[{},`+bucketJSON(1, "")+`]}`).results(t) {
		if word(got) != "invalid_request" {
			t.Errorf("result %d: %+v", i, got)
		}
	}
}

// results returns the answer of a batch.
func (r reply) results(t *testing.T) []api.Result {
	t.Helper()
	var answer api.Results
	if r.status != http.StatusOK {
		t.Fatalf("got %d %.200s, want results", r.status, r.body)
	}
	if err := newDecoder().decode([]byte(r.body), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Results
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
