package handlers

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/memory"
)

// If every check is refused, no user is limited or none can log in. The log must show that, with the zones.
func TestRefusedChecksLogTheirZonesOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		zone := int64(0)
		f := newFaulty(nil)
		memory := memory.New() // it has no zones
		f.Handler = New(
			Options{Logger: f.logger(), Limiter: service.NewLimiter(memory, service.LimiterOptions{Timeout: time.Minute})})
		for range 500 {
			zone = zone%3 + 1
			f.ask(t, "/v1/check", bucketJSON(zone, "secret"))
			f.ask(t, "/v1/checks", `{"checks":[`+bucketJSON(7, "secret")+`]}`)
		}
		lines := f.lines(t)
		if len(lines) != 2 || lines[0]["level"] != "WARN" || lines[0]["msg"] != "request refused" ||
			lines[0]["code"] != "not_found" ||
			lines[0]["error"] != "zone 1: not found" || fmt.Sprint(lines[0]["zone_ids"]) != "[1]" {
			t.Errorf("at once: %v", lines)
		}
		time.Sleep(faultPause)
		synctest.Wait()
		for _, line := range f.lines(t) {
			want := map[any]string{"/v1/check": "[2 3 1]", "/v1/checks": "[7]"}[line["route"]]
			if line["left_out"] != 499.0 || line["level"] != "WARN" || fmt.Sprint(line["zone_ids"]) != want ||
				strings.Contains(fmt.Sprint(line), "secret") {
				t.Errorf("after a second: %v, want zones %s", line, want)
			}
		}
	})
}

func TestEachRefusalKindIsLoggedWithoutCallersText(t *testing.T) {
	t.Parallel()
	g := guard(t)
	g.SetZone(t, service.Zone{ID: 3, Rate: 5, Window: time.Minute, Keys: service.KeyRule{Kind: service.KeyIP}})
	all := g.as("all", nil, access.ScopeAdmin)
	bound := g.as("bound", []int64{1}, access.ScopeCheck)
	g.post(t, "/v1/check", `{"zone_id":1,"bucket_key":"secret","attempt_id":"x"}`, all...)
	for _, c := range []struct {
		path, body, code string
		header           []string
	}{
		{"/v1/check", bucketJSON(9, "secret"), "not_found", all},
		{"/v1/check", bucketJSON(3, "secret"), "invalid_request", all},
		{"/v1/check", `{"zone_id":2,"bucket_key":"secret","attempt_id":"x"}`, "conflict", all},
		{"/v1/check", `{"secret":2}`, "invalid_request", all},
		{"/v1/check", `{"zone_id":"secret"}`, "invalid_request", all},
		{"/v1/check", `secret`, "invalid_request", all},
		{"/v1/check", bucketJSON(2, "secret"), "missing_scope", bound},
		{"/v1/check", bucketJSON(2, "secret"), "unauthenticated", []string{"Authorization", "Bearer secret"}},
		{"/v1/checks", `{"checks":[` + bucketJSON(9, "secret") + `]}`, "not_found", all},
		{"/v1/checks", `{"checks":[` + bucketJSON(2, "secret") + `]}`, "missing_scope", bound},
		{"/v1/checks", `{"checks":[]}`, "invalid_request", all},
		{"/v1/outcomes", `{"reports":[{"txn_id":1000,"outcome":"success"}]}`, "not_found", all},
		{"/v1/outcomes", `{"reports":[{"txn_id":1,"outcome":"secret"}]}`, "invalid_request", all},
		{"/v1/txns/1000/outcome", `{"outcome":"success"}`, "not_found", all},
		{"/v1/txns/1/outcome", `{"outcome":"success"}`, "missing_scope", bound},
	} {
		before := len(g.log.String())
		g.post(t, c.path, c.body, c.header...)
		text := g.log.String()[before:]
		if !strings.Contains(text, `"level":"WARN","msg":"request refused"`) ||
			!strings.Contains(text, `"code":"`+c.code+`"`) ||
			strings.Contains(text, "secret") {
			t.Errorf("%s %s: logged %s", c.path, c.body, text)
		}
	}
	g.ask(t, http.MethodGet, "/v1/zones/9", "", all...).refused(t, http.StatusNotFound, "not_found")
	if line := g.log.Last(t); line["level"] != "INFO" {
		t.Errorf("a look-up of what does not exist is logged as %v", line)
	}
}
