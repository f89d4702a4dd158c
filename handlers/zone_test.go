package handlers

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"velocityd/api"
	"velocityd/handlers/strictjson"
	"velocityd/service"
	"velocityd/service/memory"
)

func TestPutZonePointsAtWhatIsWrong(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	for _, test := range []struct{ members, pointer, detail string }{
		{`"window":60`, "/rate", "rate is missing"},
		{`"rate":5`, "/window", "window is missing"},
		{`"rate":null,"window":60`, "/rate", "null"},
		{`"rate":-1,"window":60`, "/rate", "must be 0 to 1000000, is -1"},
		{`"rate":9223372036854775808,"window":60`, "/rate", "whole number"},
		{`"rate":5,"window":18446744074`, "/window", "must be 1 to 31622400"}, // times a second, it overflows to a small one
		{`"rate":5,"window":"60s"`, "/window", "whole number"},
		{`"rate":5,"window":60,"reserve_ttl":61`, "/reserve_ttl", "must be 1 to 60 whole seconds, the window, is 61."},
		{`"rate":5,"window":60,"lockout_factor":1.005`, "/lockout_factor", "two decimals"},
		{`"rate":5,"window":60,"revision":1`, "/revision", "not known"},
		{`"rate":5,"rate":6,"window":60`, "/rate", "twice"},
		{`"Rate":5,"window":60`, "/Rate", "not known"},
	} {
		p := r.put(t, "/v1/zones/1", `{`+test.members+`}`).refused(t, http.StatusBadRequest, "invalid_request")
		if p.Pointer != test.pointer || !strings.Contains(p.Detail, test.detail) {
			t.Errorf("%.100s: at %q: %s; want %q at %q", test.members, p.Pointer, p.Detail, test.detail, test.pointer)
		}
	}
	r.put(t, "/v1/zones/0", `{"rate":5,"window":60}`).refused(t, http.StatusBadRequest, "invalid_request")
	r.put(t, "/v1/zones/2147483648", `{"rate":5,"window":60}`).refused(t, http.StatusBadRequest, "invalid_request")
	if zone, err := r.Zone(t.Context(), 1); err != nil || zone.Revision != 1 || len(r.Audits()) != 0 {
		t.Errorf("a refused zone was written: %+v, %v", zone, err)
	}
}

func TestEveryBodyMemberCanBePointedAt(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		"ShortCheck", "OutcomeRequest", "Report", "ZoneRequest", "OverrideRequest",
		"ReleaseRequest",
	} {
		members, _ := described(t).part("components", "schemas", schema, "properties")
		for _, name := range names(members) {
			if !strictjson.IsKnown("/" + name) {
				t.Errorf("%s has %s, which problems do not point at", schema, name)
			}
		}
	}
}

func TestStaleWritersOfAZoneAreRefused(t *testing.T) {
	t.Parallel()
	const body = `{"rate":7,"window":60}`
	for name, test := range map[string]struct {
		headers []string
		one     int // status of PUT to zone 1, which has revision 3
		none    int // and to zone 9, which does not exist
	}{
		"nothing":                 {nil, 200, 201},
		"the revision":            {[]string{"If-Match", `"3"`}, 200, 412},
		"an older revision":       {[]string{"If-Match", `"2"`}, 412, 412},
		"leading zero":            {[]string{"If-Match", `"03"`}, 412, 412},
		"weak":                    {[]string{"If-Match", `W/"3"`}, 412, 412},
		"beyond all revisions":    {[]string{"If-Match", `"99999999999999999999"`}, 412, 412},
		"any":                     {[]string{"If-Match", `*`}, 200, 412},
		"none":                    {[]string{"If-None-Match", `*`}, 412, 201},
		"any and none":            {[]string{"If-Match", "*", "If-None-Match", "*"}, 412, 412},
		"the revision and none":   {[]string{"If-Match", `"3"`, "If-None-Match", "*"}, 412, 412},
		"no quotes":               {[]string{"If-Match", "3"}, 400, 400},
		"a list":                  {[]string{"If-Match", `"3", "4"`}, 400, 400},
		"two headers":             {[]string{"If-Match", `"3"`, "If-Match", `"4"`}, 400, 400},
		"empty":                   {[]string{"If-Match", ""}, 400, 400},
		"none of a revision":      {[]string{"If-None-Match", `"3"`}, 400, 400},
		"none, empty":             {[]string{"If-None-Match", ""}, 400, 400},
		"two headers, both a any": {[]string{"If-None-Match", "*", "If-None-Match", "*"}, 400, 400},
	} {
		r := start(t, nil)
		for range 3 {
			r.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute})
		}
		for path, want := range map[string]int{"/v1/zones/1": test.one, "/v1/zones/9": test.none} {
			got := r.put(t, path, body, test.headers...)
			if got.status != want {
				t.Errorf("%s: PUT %s: %d %s, want %d", name, path, got.status, got.body, want)
			}
			if want == http.StatusPreconditionFailed {
				got.refused(t, want, "precondition_failed")
			}
		}
		if test.one == http.StatusOK && len(test.headers) > 0 && strings.Contains(test.headers[1], "3") {
			test.one = http.StatusPreconditionFailed // it has revision 4 by now
		}
		if got := r.delete(t, "/v1/zones/1", test.headers...); got.status != test.one && got.status != http.StatusNoContent ||
			got.status == http.StatusNoContent && test.one != http.StatusOK {
			t.Errorf("%s: DELETE: %d %s", name, got.status, got.body)
		}
	}
}

// withEngineWords returns an error that says more than a caller may know.
func withEngineWords(err error) error {
	return fmt.Errorf("%w: Error 1062 (23000): Duplicate entry in hidden_name", err)
}

func TestChangesMapErrorsAndHideEnginesWords(t *testing.T) {
	t.Parallel()
	memory := memory.New()
	memory.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute})
	for _, k := range api.Kinds()[1:8] { // those of package service
		log := &logLines{}
		handler := New(Options{
			Reader: memory, Writer: &endingStore{err: withEngineWords(k.Err)}, Logger: slog.New(slog.NewJSONHandler(log, nil)),
			AccessLog: true,
		})
		for _, change := range changes()[:6] {
			// Not by a running service: not every change can meet every error, and what
			// it cannot meet need not be described.
			path, body := strings.Replace(change.path, "alice", "secret", 1), strings.Replace(change.body, "alice", "secret", 1)
			request := httptest.NewRequestWithContext(t.Context(), change.method, path, strings.NewReader(body))
			request.Header.Set("Content-Type", "application/json")
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			var p api.Problem
			if err := json.Unmarshal(answer.Body.Bytes(), &p); err != nil || answer.Code != k.Status || p.Code != k.Code {
				t.Errorf("%s %s: %v is %d %s", change.method, path, k.Err, answer.Code, answer.Body)
			}
			if strings.Contains(p.Detail, "secret") || strings.Contains(p.Detail, "hidden_name") {
				t.Errorf("%s %s: the caller learns %s", change.method, path, p.Detail)
			}
			if named := strings.Contains(path+body, "secret"); named && strings.Contains(fmt.Sprint(log.Last(t)), "secret") {
				t.Errorf("the log holds a key: %v", log.Last(t))
			}
		}
	}
}

func TestPathIDsAreStrictDecimals(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	for _, id := range []string{
		"0", "-1", "+1", "01", "1.0", "1e0", "0x1", "1_0", "%201", "one", "null", "1%2F2", "%31x", "١", "%ff", "%00",
		"18446744073709551616", strings.Repeat("9", 500),
	} {
		for _, path := range []string{"/v1/zones/", "/v1/txns/"} {
			p := r.get(t, path+id).refused(t, http.StatusBadRequest, "invalid_request")
			if !strings.Contains(p.Detail, "whole number, 1 to ") {
				t.Errorf("%s%s: %s", path, id, p.Detail)
			}
		}
	}
	r.get(t, "/v1/zones/2147483647").refused(t, http.StatusNotFound, "not_found")
	r.get(t, "/v1/zones/2147483648").refused(t, http.StatusBadRequest, "invalid_request")
	r.get(t, "/v1/txns/18446744073709551615").refused(t, http.StatusNotFound, "not_found")
}

func TestLookUpsNameAbsentThingsInSameWords(t *testing.T) {
	t.Parallel()
	absent := start(t, func(o *Options) {
		o.Reader = &endingStore{err: fmt.Errorf("read zone 9: try 1: %w", service.ErrNotFound)}
	})
	barred := start(t, func(o *Options) {
		o.Reader = &endingStore{err: fmt.Errorf("read zone 9: try 1: %w", service.ErrForbidden)}
	})
	for path, want := range map[string]string{
		"/v1/zones/9": "zone 9: not found.", "/v1/zones/9/buckets/alice": "zone 9: not found.",
		"/v1/zones/9/report":    "zone 9: not found.",
		"/v1/zones/9/overrides": "zone 9: not found.", "/v1/zones/9/overrides/3": "override 3 of zone 9: not found.",
		"/v1/txns/9": "txn 9: not found.",
	} {
		if p := absent.get(t, path).refused(t, http.StatusNotFound, "not_found"); p.Detail != want {
			t.Errorf("%s: detail = %q, want %q", path, p.Detail, want)
		}
		barred.get(t, path).refused(t, http.StatusForbidden, "forbidden")
	}
	p := absent.post(t, "/v1/zones/9/overrides", `{"bucket_key":"x","action":"deny"}`).refused(t, http.StatusNotFound,
		"not_found")
	if p.Detail != "zone 9: not found." {
		t.Errorf("detail = %q", p.Detail)
	}
	barred.get(t, "/v1/zones").refused(t, http.StatusForbidden, "forbidden")
}
