package handlers

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"velocityd/api"
	"velocityd/service"
)

// overrideZones sets zone 1 of user names and zone 2 of addresses.
func (r *running) overrideZones(t *testing.T) {
	t.Helper()
	r.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyUsername}})
	r.SetZone(
		t, service.Zone{ID: 2, Rate: 1, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP, IPv4Prefix: 24}})
}

func TestOverrideSaysWhoMadeItIfToldSo(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.overrideZones(t)
	got := r.post(t, "/v1/zones/1/overrides", `{"bucket_key":" ALICE ","action":"allow","created_by":"script"}`,
		"X-Forwarded-User", "dba")
	want := `{"id":"1","zone_id":1,"bucket_key":"alice","action":"allow","reason":"","created_by":"script"}`
	if got.status != http.StatusCreated || got.body != want {
		t.Errorf("got %d %s, want %s", got.status, got.body, want)
	}
}

func TestOneOverrideForAKeyAtATime(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.overrideZones(t)
	r.post(t, "/v1/zones/1/overrides", `{"bucket_key":"alice","action":"allow","expires_at":"2000-01-01T00:00:00Z"}`)
	r.post(t, "/v1/zones/1/overrides", `{"bucket_key":"Alice","action":"allow"}`).answered(t, http.StatusCreated)
	p := r.post(t, "/v1/zones/1/overrides", `{"bucket_key":"ALICE","action":"deny"}`).refused(t, http.StatusConflict,
		"conflict")
	if !strings.Contains(p.Detail, "has not expired") || strings.Contains(strings.ToLower(p.Detail), "alice") {
		t.Errorf("detail = %q", p.Detail)
	}
	r.post(t, "/v1/zones/7/overrides", `{"bucket_key":"a","action":"deny"}`).refused(t, http.StatusNotFound, "not_found")
}

func TestBansOfOneBucketKeepTheLaterEnd(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.overrideZones(t)
	const path = "/v1/zones/2/overrides?same_reason=true"
	ban := func(address, until, reason string) string {
		return fmt.Sprintf(`{"bucket_key":"203.0.113.%s","action":"deny","expires_at":"%s-01-01T00:00:00Z","reason":"%s"}`,
			address, until, reason)
	}
	for _, step := range []struct{ body, want string }{
		{ban("1", "2150", "one"), "one"},
		{ban("2", "2140", "two"), "one"},
		{ban("3", "2160", "three"), "three"},
		{ban("1", "2150", "one"), "three"},
		{`{"bucket_key":"203.0.113.9","action":"deny","reason":"for ever"}`, "for ever"},
		{ban("4", "2190", "four"), "for ever"},
	} {
		got := r.post(t, path, step.body)
		if got.status != http.StatusOK || !strings.Contains(got.body, `"reason":"`+step.want+`"`) ||
			!strings.Contains(got.body, `"id":"1"`) {
			t.Errorf("%s: %d %s, want the reason %q", step.body, got.status, got.body, step.want)
		}
	}
	r.post(t, path, `{"bucket_key":"203.0.113.1","action":"allow"}`).refused(t, http.StatusConflict, "conflict")
	r.post(t, path+"&same_reason=true", ban("1", "2150", "one")).refused(t, http.StatusBadRequest, "invalid_request")
	const one = "/v1/zones/2/overrides/1?same_reason="
	r.delete(t, one+"yes", "X-Velocity-Reason", "for ever").refused(t, http.StatusBadRequest, "invalid_request")
	for _, header := range [][]string{{"X-Velocity-Reason", "three"}, nil} {
		r.delete(t, one+"true", header...).refused(t, http.StatusConflict, "conflict")
	}
	r.delete(t, one+"true", "X-Velocity-Reason", "for ever").answered(t, http.StatusNoContent)
}

func TestOverridePointsAtWhatIsWrong(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.overrideZones(t)
	for _, test := range []struct {
		zone                 int
		body, pointer, about string
	}{
		{1, `{}`, "/action", "action is missing"},
		{1, `{"bucket_key":"a","action":"block"}`, "/action", "allow, deny or limit"},
		{1, `{"action":"allow"}`, "", "either bucket_key or prefix"},
		{2, `{"bucket_key":"203.0.113.7","prefix":"203.0.0.0/16","action":"allow"}`, "", "either bucket_key or prefix"},
		{1, `{"bucket_key":"","action":"allow"}`, "/bucket_key", "must not be empty"},
		{2, `{"bucket_key":"secret","action":"allow"}`, "/bucket_key", "IPv4 or IPv6"},
		{1, `{"prefix":"203.0.113.0/24","action":"allow"}`, "/prefix", "key_kind is ip"},
		{2, `{"prefix":"","action":"allow"}`, "/prefix", "such as 203.0.113.0/24"},
		{2, `{"prefix":"203.0.113.7/24","action":"allow"}`, "/prefix", "write 203.0.113.0/24"},
		{1, `{"bucket_key":"a","action":"limit","window":60}`, "/rate", "rate is missing"},
		{
			1, `{"bucket_key":"a","action":"limit","rate":1,"window":60,"period_anchor":3}`, "/period_anchor",
			"a limit with a window slides",
		},
		{1, `{"bucket_key":"a","action":"limit","rate":1,"period_anchor":32}`, "/period_anchor", "1 to 31"},
		{1, `{"bucket_key":"a","action":"allow","period_anchor":3}`, "/period_anchor", "action limit alone"},
		{1, `{"bucket_key":"a","action":"limit","rate":-1,"window":60}`, "/rate", "0 to 1000000"},
		{1, `{"bucket_key":"a","action":"limit","rate":1,"window":18446744074}`, "/window", "1 to 31622400"},
		{1, `{"bucket_key":"a","action":"allow","rate":0}`, "/rate", "action limit alone"},
		{1, `{"bucket_key":"a","action":"deny","window":60}`, "/window", "action limit alone"},
		{1, `{"bucket_key":"a","action":"deny","expires_at":"2099-09-01T2:00:00Z"}`, "/expires_at", "RFC 3339"},
		{1, `{"bucket_key":"a","action":"deny","expires_at":"2099-09-01T02:00:00,5Z"}`, "/expires_at", "RFC 3339"},
		{1, `{"bucket_key":"a","action":"deny","expires_at":"2099-02-29T02:00:00Z"}`, "/expires_at", "RFC 3339"},
		{1, `{"bucket_key":"a","action":"deny","expires_at":"0001-01-01T00:00:00Z"}`, "/expires_at", "1970 to 2199"},
		{1, `{"bucket_key":"a","action":"deny","expires_at":7}`, "/expires_at", "a string"},
		{1, `{"bucket_key":"a","action":"deny","reason":"` + strings.Repeat("é", 256) + `"}`, "/reason", "255"},
		{1, `{"bucket_key":"a","action":"deny","created_by":"` + strings.Repeat("é", 129) + `"}`, "/created_by", "128"},
		{1, `{"bucket_key":"a","action":"deny","id":1}`, "/id", "not known"},
	} {
		path := fmt.Sprintf("/v1/zones/%d/overrides", test.zone)
		for _, got := range []reply{r.post(t, path, test.body), r.put(t, path+"/1", test.body)} {
			p := got.refused(t, http.StatusBadRequest, "invalid_request")
			if p.Pointer != test.pointer || !strings.Contains(p.Detail, test.about) || strings.Contains(p.Detail, "secret") {
				t.Errorf("%.120s: at %q: %s; want %q at %q", test.body, p.Pointer, p.Detail, test.about, test.pointer)
			}
		}
	}
	if len(r.Audits()) != 0 {
		t.Errorf("a refused override was written: %+v", r.Audits())
	}
}

func TestOverridesAreListedInPages(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.overrideZones(t)
	if got := r.get(t, "/v1/zones/1/overrides"); got.status != http.StatusOK || got.body != `{"overrides":[]}` {
		t.Errorf("got %d %s", got.status, got.body)
	}
	for i := range 250 {
		zone := 1 + i%2 // every second id belongs to the other zone
		key := map[int]string{1: fmt.Sprint("user-", i), 2: fmt.Sprintf("10.0.%d.0", i)}[zone]
		r.post(t, fmt.Sprintf("/v1/zones/%d/overrides", zone), `{"action":"allow","bucket_key":"`+key+`"}`)
	}
	for query, test := range map[string]struct {
		n           int
		first, next uint64
	}{
		"": {100, 1, 199}, "?limit=1": {1, 1, 1}, "?limit=125": {125, 1, 0}, "?limit=124": {124, 1, 247},
		"?limit=1000": {125, 1, 0},
		"?after=199":  {25, 201, 0}, "?after=2&limit=2": {2, 3, 5}, "?after=249": {0, 0, 0},
		"?after=18446744073709551615": {0, 0, 0}, "?after=0": {100, 1, 199}, "?verbose=1": {100, 1, 199},
	} {
		page := read[api.Overrides](t, r.get(t, "/v1/zones/1/overrides"+query))
		if len(page.Overrides) != test.n || page.Next != test.next || test.n > 0 && page.Overrides[0].ID != test.first {
			t.Errorf("%s: got %d, next %d, want %+v", query, len(page.Overrides), page.Next, test)
		}
	}
	for _, query := range []string{
		"?limit=0", "?limit=1001", "?limit=-1", "?limit=x", "?limit=", "?limit=1&limit=2", "?after=-1", "?after=x", "?after=",
		"?after=1&after=2", "?after=18446744073709551616", "?limit=%zz", "?limit=1;after=1",
	} {
		r.get(t, "/v1/zones/1/overrides"+query).refused(t, http.StatusBadRequest, "invalid_request")
	}
	r.get(t, "/v1/zones/7/overrides").refused(t, http.StatusNotFound, "not_found")
	r.get(t, "/v1/zones/1/overrides/2").refused(t, http.StatusNotFound, "not_found")
	r.get(t, "/v1/zones/1/overrides/x").refused(t, http.StatusBadRequest, "invalid_request")
}
