package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/service"
)

func TestReportIsMadeFromTheDatabaseAndOverHTTP(t *testing.T) {
	t.Parallel()
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Description: "per user", Rate: 2, Window: time.Hour}, service.Zone{ID: 2, Rate: 99, Window: time.Hour})
		direct := environment{"VELOCITY_DSN": d.DSN}
		i := start(t, direct, "serve")
		over := environment{"VELOCITY_URL": i.url}
		for n := range 4 {
			body := fmt.Sprintf(`{"buckets":[{"zone_id":1,"bucket_key":"<u%d>"},{"zone_id":2,"bucket_key":"192.0.2.1"}]}`, n)
			mustAsk(t, i.url+"/v1/check", body, http.StatusOK)
		}
		for range 3 {
			command(direct, nil, "check", "1", "alice")
		}
		mustAsk(t, i.url+"/v1/txns/1/outcome", `{"outcome":"success"}`, http.StatusOK)
		args := []string{"report", "--zone", "1", "--addresses-zone", "2", "--spray-users", "3", "--since", "2000-01-01", "--until", "2000-12-31"}
		sameJSON(t, must(t, direct, append(args, "--json")...), must(t, over, append(args, "--json")...))
		args = append(args[:7], "--since", "2h")
		for _, env := range []environment{direct, over} {
			table := strings.Join(strings.Fields(must(t, env, args...)), " ")
			for _, wanted := range []string{
				"zone id 1 ", "rows 11 cut false from 2", "would block successes failures 7 6 1", "sprays bucket key others", "192.0.2.1 3 ", " <u0>", "alice",
			} {
				if !strings.Contains(table, wanted) {
					t.Errorf("the table lacks %q:\n%s", wanted, table)
				}
			}
		}
		if r := command(over, nil, "report", "--zone", "7"); r.code != exitError || !strings.Contains(r.stderr, "zone list") {
			t.Errorf("a zone that does not exist: %+v", r)
		}
	})
}
