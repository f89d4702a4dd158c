package handlers

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/api"
	"velocityd/service"
	"velocityd/service/backtest"
)

func TestDescriptionAndRoutesAreTheSame(t *testing.T) {
	t.Parallel()
	d := described(t)
	var documented, routed []string
	paths, _ := d.part("paths")
	for _, path := range names(paths) {
		item, _ := d.part("paths", path)
		for _, method := range names(item) {
			documented = append(documented, strings.ToUpper(method)+" "+path)
			if method == "get" { // which says that HEAD is answered too
				documented = append(documented, "HEAD "+path)
			}
		}
	}
	for _, route := range newEcho(withAll(Options{Backtests: new(backtest.Runner)})).Routes() {
		path := strings.Replace(regexp.MustCompile(`:(\w+)`).ReplaceAllString(route.Path, "{$1}"), "/*", "/{path}", 1)
		if route.Method == anyMethod { // described as GET, with words for the others
			routed = append(routed, "GET "+path, "HEAD "+path)
			continue
		}
		routed = append(routed, route.Method+" "+path)
	}
	slices.Sort(documented)
	slices.Sort(routed)
	if !slices.Equal(documented, routed) {
		t.Errorf("described\n%q\nrouted\n%q", documented, routed)
	}
}

func TestDescriptionNamesEveryCode(t *testing.T) {
	t.Parallel()
	var coded, documented []string
	for _, k := range api.Kinds() {
		coded = append(coded, k.Code)
	}
	list, _ := described(t).part("components", "schemas", "Problem", "properties", "code", "enum")
	for _, code := range list.([]any) {
		documented = append(documented, code.(string))
	}
	slices.Sort(coded)
	slices.Sort(documented)
	if !slices.Equal(slices.Compact(coded), documented) {
		t.Errorf("codes are\n%q\ndescribed are\n%q", coded, documented)
	}
}

func TestDescriptionExamplesFitTheirSchemas(t *testing.T) {
	t.Parallel()
	d := described(t)
	seen := 0
	var walk func(node any, pointer string)
	walk = func(node any, pointer string) {
		if list, ok := node.([]any); ok {
			for i, inner := range list {
				walk(inner, fmt.Sprint(pointer, "/", i))
			}
		}
		object, ok := node.(map[string]any)
		if !ok {
			return
		}
		if schema, ok := object["schema"]; ok && schema != nil {
			values := []any{}
			if example, ok := object["example"]; ok {
				values = append(values, example)
			}
			for _, name := range names(object["examples"]) {
				named := object["examples"].(map[string]any)[name].(map[string]any)
				if ref, isRef := named["$ref"].(string); isRef {
					shared, _ := d.part(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
					named = shared.(map[string]any)
				}
				values = append(values, named["value"])
			}
			for _, value := range values {
				seen++
				if err := d.matches(pointer+"/schema", value); err != nil {
					t.Errorf("example of %s: %v", pointer, err)
				}
			}
		}
		for name, inner := range object {
			walk(inner, pointer+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
		}
	}
	walk(d.doc, "")
	if seen < 50 {
		t.Errorf("only %d examples were seen", seen)
	}
}

// bodies returns bodies of requests by the schema that accepts or refuses them.
func bodies() (accepted, refused map[string][]string) { //nolint:funlen // a table of cases
	long, eight := strings.Repeat("🔑", 255), strings.Repeat(`,{"zone_id":1,"bucket_key":"x"}`, 8)
	accepted = map[string][]string{
		"Check": {
			`{"bucket_key":"1_42","zone_id":1}`, `{"zone_id":1,"bucket_key":"` + long + `"}`,
			`{"zone_id":1,"bucket_key":"\u00a0","attempt_id":"~ !"}`,
			`{"attempt_id":"z","buckets":[{"zone_id":1,"bucket_key":"y"},{"zone_id":1,"bucket_key":"y"}]}`,
		},
		"ZoneRequest": {
			`{"rate":0,"window":1}`, `{"rate":1000000,"window":31622400,"description":"` + strings.Repeat("é", 255) + `"}`,
			`{"rate":5,"window":60,"mode":"off","counts":"failures","reserve_ttl":60,"reset_on_success":true,"concurrent":1000,"repeat_secret":"free"}`,
			`{"rate":5,"window":60,"lockout":0,"lockout_factor":1.15,"lockout_max":1,"lockout_decay":31622400}`,
			`{"rate":5,"window":60,"lockout":31622400,"lockout_factor":100}`,
			`{"rate":5,"window":60,"key_kind":"ip","ipv4_prefix":1,"ipv6_prefix":128}`,
			`{"rate":5,"window":60,"on_failure":"block","record_blocked":1000000,"keep_days":36500,"totals":true}`,
			`{"rate":5,"window":60,"key_form":"hmac"}`, `{"rate":5,"period":"month","period_offset":-840,"period_anchor":31}`,
			`{"rate":5,"window":86400,"period":"day","period_offset":840}`,
			`{"rate":5,"window":60,"period":"none","period_anchor":2}`,
		},
		"OverrideRequest": {
			`{"bucket_key":"203.0.113.9","action":"allow"}`,
			`{"prefix":"203.0.0.0/16","action":"deny","reason":"x","created_by":"y"}`,
			`{"bucket_key":"198.51.100.10","action":"limit","rate":7}`,
			`{"bucket_key":"198.51.100.11","action":"limit","rate":7,"period_anchor":31}`,
			`{"bucket_key":"198.51.100.9","action":"limit","rate":0,"window":1,"expires_at":"2099-09-01T00:00:00+02:00"}`,
		},
		"OutcomeRequest": {`{"outcome":"success"}`}, "ReleaseRequest": {`{"reason":"x"}`},
		"Reports": {
			`{"reports":[{"txn_id":18446744073709551615,"outcome":"failure"}]}`,
			`{"reports":[{"txn_id":"18446744073709551615","outcome":"failure"}]}`,
		},
	}
	refused = map[string][]string{
		"Check": {
			`{}`, `[]`, `null`, `{"zone_id":1}`, `{"bucket_key":"x"}`, `{"zone_id":1,"bucket_key":"` + long + `x"}`,
			`{"zone_id":1,"bucket_key":""}`,
			`{"zone_id":1,"bucket_key":"\u0085"}`, `{"zone_id":0,"bucket_key":"x"}`, `{"zone_id":2147483648,"bucket_key":"x"}`,
			`{"zone_id":1.5,"bucket_key":"x"}`, `{"zone_id":"1","bucket_key":"x"}`, `{"zone_id":null,"bucket_key":"x"}`,
			`{"Zone_ID":1,"bucket_key":"x"}`, `{"zone_id":1,"bucket_key":"x","note":"y"}`, `{"buckets":[]}`, `{"buckets":null}`,
			`{"buckets":[{"zone_id":1}]}`, `{"buckets":[{"zone_id":1,"bucket_key":"y","rate":1}]}`,
			`{"buckets":[{"zone_id":1,"bucket_key":"y","attempt_id":"a"}]}`, `{"buckets":[{"zone_id":1,"bucket_key":"x"}` +
				eight + `]}`,
			`{"zone_id":1,"buckets":[{"zone_id":1,"bucket_key":"y"}]}`, `{"zone_id":1,"bucket_key":"x","attempt_id":""}`,
			`{"zone_id":1,"bucket_key":"x","attempt_id":"é"}`, `{"zone_id":1,"bucket_key":"x","attempt_id":"` +
				strings.Repeat("a", 65) + `"}`,
		},
		"ZoneRequest": {
			`{}`, `{"rate":5}`, `{"window":60}`, `{"rate":-1,"window":60}`, `{"rate":1000001,"window":60}`,
			`{"rate":5,"window":0}`,
			`{"rate":5,"window":31622401}`, `{"rate":5,"window":60,"mode":"on"}`, `{"rate":5,"window":60,"counts":""}`,
			`{"rate":5,"window":60,"reserve_ttl":0}`, `{"rate":5,"window":60,"lockout":-1}`,
			`{"rate":5,"window":60,"lockout_factor":1.001}`,
			`{"rate":5,"window":60,"lockout_factor":0}`, `{"rate":5,"window":60,"lockout_factor":100.01}`,
			`{"rate":5,"window":60,"lockout_max":0}`,
			`{"rate":5,"window":60,"lockout_decay":31622401}`, `{"rate":5,"window":60,"key_kind":"x"}`,
			`{"rate":5,"window":60,"key_form":"x"}`, `{"rate":5,"window":60,"ipv4_prefix":33}`,
			`{"rate":5,"window":60,"ipv6_prefix":0}`, `{"rate":5,"window":60,"on_failure":"deny"}`,
			`{"rate":5,"window":60,"concurrent":1001}`,
			`{"rate":5,"window":60,"record_blocked":-1}`, `{"rate":5,"window":60,"repeat_secret":"never"}`,
			`{"rate":5,"window":60,"keep_days":36501}`, `{"rate":5,"window":60,"totals":1}`,
			`{"rate":5,"period":"none"}`, `{"rate":5,"period":"year"}`, `{"rate":5,"period":"day","period_offset":841}`,
			`{"rate":5,"period":"month","period_anchor":0}`, `{"rate":5,"period":"month","period_anchor":32}`,
			`{"rate":5,"window":60,"id":1}`, `{"rate":5,"window":60,"mode":null}`, `{"rate":5,"window":60,"description":"a\nb"}`,
			`{"rate":5,"window":60,"description":"\u007f"}`,
		},
		"OverrideRequest": {
			`{}`, `{"action":"allow"}`, `{"bucket_key":"1.2.3.4"}`, `{"bucket_key":"","action":"allow"}`,
			`{"bucket_key":"1.2.3.4","action":"x"}`,
			`{"bucket_key":"1.2.3.4","prefix":"1.0.0.0/8","action":"allow"}`, `{"bucket_key":"1.2.3.4","action":"limit"}`,
			`{"bucket_key":"1.2.3.4","action":"limit","window":1}`,
			`{"bucket_key":"1.2.3.4","action":"limit","rate":1,"window":0}`,
			`{"bucket_key":"1.2.3.4","action":"limit","rate":1,"window":1,"period_anchor":1}`,
			`{"bucket_key":"1.2.3.4","action":"limit","rate":1,"period_anchor":0}`,
			`{"bucket_key":"1.2.3.4","action":"deny","period_anchor":1}`,
			`{"bucket_key":"1.2.3.4","action":"allow","rate":0}`, `{"bucket_key":"1.2.3.4","action":"deny","window":1}`,
			`{"bucket_key":"1.2.3.4","action":"deny","reason":"\u001b[2J"}`,
			`{"bucket_key":"1.2.3.4","action":"deny","created_by":"a\u0085"}`,
			`{"bucket_key":"1.2.3.4","action":"deny","expires_at":"tomorrow"}`,
			`{"bucket_key":"1.2.3.4","action":"deny","id":1}`,
		},
		"OutcomeRequest": {`{}`, `{"outcome":"x"}`, `{"outcome":"success","txn_id":1}`},
		"ReleaseRequest": {
			`{}`, `{"reason":""}`, `{"reason":"` + strings.Repeat("x", 256) + `"}`, `{"reason":" "}`, `{"reason":"a\u0000"}`,
			`{"reason":"a\nb"}`,
		},
		"Reports": {
			`{}`, `{"reports":[]}`, `{"reports":[{"txn_id":-1,"outcome":"success"}]}`,
			`{"reports":[{"txn_id":"","outcome":"success"}]}`, `{"reports":[{"txn_id":"1.0","outcome":"success"}]}`,
			`{"reports":[{"txn_id":"01","outcome":"success"}]}`, `{"reports":[{"txn_id":1.5,"outcome":"success"}]}`,
			`{"reports":[{"txn_id":1,"outcome":"success","x":1}]}`,
		},
	}
	return accepted, refused
}

func TestDescriptionAcceptsTheBodiesThatTheServerAccepts(t *testing.T) {
	t.Parallel()
	accepted, refused := bodies()
	r := start(t, nil)
	r.SetZone(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	r.SetZone(t, service.Zone{ID: 3, Rate: 5, Window: time.Hour})
	r.post(t, "/v1/check", bucketJSON(1, "203.0.113.1")).decision(t)
	ask := map[string]func(body string) reply{
		"Check": func(body string) reply {
			return r.post(t, "/v1/check", strings.ReplaceAll(body, `"zone_id":1`, `"zone_id":3`))
		},
		"ZoneRequest":     func(body string) reply { return r.put(t, "/v1/zones/2", body) },
		"OverrideRequest": func(body string) reply { return r.post(t, "/v1/zones/1/overrides", body) },
		"OutcomeRequest":  func(body string) reply { return r.post(t, "/v1/txns/1/outcome", body) },
		"ReleaseRequest":  func(body string) reply { return r.post(t, "/v1/zones/1/buckets/1.2.3.4/release", body) },
		"Reports":         func(body string) reply { return r.post(t, "/v1/outcomes", body) },
	}
	for schema, send := range ask {
		for want, bodies := range map[bool][]string{true: accepted[schema], false: refused[schema]} {
			for _, body := range bodies {
				if err := described(t).textMatches("/components/schemas/"+schema, body); (err == nil) != want {
					t.Errorf("described: %s %s: %v, want accepted %v", schema, body, err, want)
				}
				if got := send(body); (got.status < 300) != want || !want && got.status != http.StatusBadRequest {
					t.Errorf("server: %s %s: %d %s, want accepted %v", schema, body, got.status, got.body, want)
				}
			}
		}
	}
}
