package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"velocityd/cmd/velocityd/ask"
	"velocityd/handlers"
	"velocityd/service"
	"velocityd/service/memory"
	"velocityd/service/queue"
	"velocityd/tools/enginetest"
)

// askEverything makes requests of every route with clear keys, good ones and bad ones, and returns the
// answers that are problems. Answers to good requests may name the key that was sent.
func askEverything(t *testing.T, url string) string {
	t.Helper()
	user := fmt.Sprintf(`{"zone_id":1,"bucket_key":%q}`, hiddenUser)
	bucket := "/v1/zones/1/buckets/" + hiddenUser
	override := `{"bucket_key":"` + hiddenUser + `","action":"limit","rate":9,"window":60`
	var problems strings.Builder
	for _, request := range []struct{ method, path, body string }{
		{"POST", "/v1/check", user},
		{"POST", "/v1/check", user},
		{"POST", "/v1/check", user},
		{"POST", "/v1/check", everyBucket()},
		{"POST", "/v1/checks", `{"checks":[` + user + `,` + everyBucket() + `,` + strings.Replace(user, "1", "9", 1) + `]}`},
		{"POST", "/v1/check", strings.TrimSuffix(user, "}") + `,"attempt_id":"a-1"}`},
		{"POST", "/v1/check", strings.Replace(everyBucket(), "]}", `],"attempt_id":"a-1"}`, 1)}, // conflict
		{"POST", "/v1/check", strings.Replace(user, "1", "9", 1)},
		{"POST", "/v1/check", strings.Replace(user, "1", "2", 1)},
		{"POST", "/v1/check", strings.Replace(user, hiddenUser, hiddenUser+`\n`, 1)},
		{"POST", "/v1/check", `{"` + hiddenUser + `":1}`},
		{"POST", "/v1/check", user + user},
		{"POST", "/v1/check", `{"zone_id":1,"bucket_key":"` + hiddenUser},
		{"POST", "/v1/check?key=" + hiddenUser, user},
		{"GET", "/" + hiddenUser, ""},
		{"POST", "/v1/check/" + hiddenAddress, user},
		{"GET", bucket, ""},
		{"GET", bucket + "%0A", ""},
		{"GET", "/v1/zones/2/buckets/" + hiddenUser, ""},
		{"GET", "/v1/zones/9/buckets/" + hiddenUser, ""},
		{"GET", "/v1/zones/2/buckets/" + hiddenAddress, ""},
		{"GET", "/v1/zones/3/buckets/" + hiddenIPv6, ""},
		{"PUT", bucket, user},
		{"POST", bucket + "/release", `{"reason":"called us"}`},
		{"POST", bucket + "/release", `{"reason":""}`},
		{"POST", "/v1/zones/1/overrides", override + `,"reason":"trial"}`},
		{"POST", "/v1/zones/1/overrides", override + `}`},
		{"POST", "/v1/zones/1/overrides", override + `,"` + hiddenUser + `":1}`},
		{"PUT", "/v1/zones/1/overrides/1", override + `,"reason":"x"}`},
		{"PUT", "/v1/zones/1/overrides/77", override + `}`},
		{"GET", "/v1/zones/1/overrides", ""},
		{"GET", "/v1/zones/1/overrides/1", ""},
		{"POST", "/v1/zones/2/overrides", `{"prefix":"` + hiddenAddress + `/32","action":"deny"}`},
		{"POST", "/v1/zones/2/overrides", `{"prefix":"198.51.0.0/16","action":"deny"}`},
		{"POST", "/v1/zones/2/overrides", `{"bucket_key":"` + hiddenAddress + `","action":"deny"}`},
		{"DELETE", "/v1/zones/1/overrides/" + hiddenUser, ""},
		{"GET", "/v1/txns/1", ""},
		{"GET", "/v1/txns/" + hiddenUser, ""},
		{"POST", "/v1/txns/1/outcome", `{"outcome":"success"}`},
		{"POST", "/v1/txns/1/outcome", `{"outcome":"` + hiddenUser + `"}`},
		{"POST", "/v1/outcomes", `{"reports":[{"txn_id":2,"outcome":"failure"},{"txn_id":99,"outcome":"failure"}]}`},
		{"PUT", "/v1/zones/4", `{"rate":1,"window":60,"key_form":"hmac"}`},
		{"PUT", "/v1/zones/4", `{"rate":1,"window":60,"key_form":"` + hiddenUser + `"}`},
		{"DELETE", "/v1/zones/4", ""},
		{"GET", "/v1/zones", ""},
		{"GET", "/readyz", ""},
		{"GET", "/livez", ""},
		{"GET", "/openapi.yaml", ""},
		{"GET", "/", ""},
	} {
		r := send(t, request.method, url+request.path, request.body)
		// The answer names a misspelt member, or a word that is no key: that is the caller's own text.
		isEchoed := strings.Contains(request.body, `"`+hiddenUser+`":`) ||
			strings.Contains(request.body, `key_form":"`+hiddenUser)
		if r.status >= http.StatusBadRequest && !isEchoed {
			fmt.Fprintf(&problems, "%d %s\n%v\n", r.status, r.body, r.header)
		}
		if r.status >= http.StatusInternalServerError {
			t.Errorf("%s %s: %d %s", request.method, request.path, r.status, r.body)
		}
	}
	return problems.String()
}

// askWhileHeld asks about a bucket that another session holds, and returns the answer.
func askWhileHeld(t *testing.T, d *enginetest.Database, url, folder string) string {
	t.Helper()
	ring, err := ask.KeyFlags{KeyHMACFile: folder}.Keyring()
	if err != nil {
		t.Fatal(err)
	}
	hidden, err := ring.Pseudonyms(service.Bucket{ZoneID: 1, Key: hiddenUser})
	if err != nil {
		t.Fatal(err)
	}
	release := d.Hold(t, hidden[1])
	defer release()
	return mustAsk(t, url+"/v1/check", everyBucket(), http.StatusServiceUnavailable).body
}

// runEveryCommand runs the operator's commands with clear keys, also where they fail, and returns what
// they wrote on standard error, and the lists on standard output.
func runEveryCommand(env environment) string {
	var written strings.Builder
	for _, args := range [][]string{
		{"check", "1", hiddenUser},
		{"check", "9", hiddenUser},
		{"check", "2", hiddenUser},
		{"check", "1", hiddenUser + "\n"},
		{"bucket", "peek", "1", hiddenUser},
		{"bucket", "peek", "2", hiddenUser},
		{"bucket", "release", "1", hiddenUser, "--reason", "x"},
		{"override", "set", "1", hiddenUser, "--action", "deny", "--reason", "x"},
		{"override", "delete", "1", hiddenUser + "x"},
		{"override", "set", "2", "198.51.0.0/16", "--action", "deny", "--reason", "x"},
		{"outcome", "99", "success"},
		{"subject", "export", hiddenUser, "--zone", "1,2"},
		// The user has an override, whose pseudonym dump looks for.
		{"subject", "erase", hiddenAddress, "--reason", "x", "--yes"},
	} {
		written.WriteString(command(env, nil, args...).stderr)
	}
	for _, args := range [][]string{{"override", "list"}, {"zone", "list"}, {"zone", "lint"}, {"migrate", "status"}} {
		r := command(env, nil, args...)
		written.WriteString(r.stdout + r.stderr)
	}
	return written.String()
}

// askWithoutKeys asks an instance that cannot make pseudonyms, and returns its answers and its log.
func askWithoutKeys(t *testing.T, dsn string) string {
	t.Helper()
	i := start(t, environment{"VELOCITY_DSN": dsn}, append([]string{"serve", "--access-log"}, slow...)...)
	answers := mustAsk(t, i.url+"/v1/check", everyBucket(), http.StatusServiceUnavailable).body +
		mustAsk(t, i.url+"/v1/zones/1/buckets/"+hiddenUser, "", http.StatusServiceUnavailable).body
	return answers + i.stdout.String() + i.stderr.String()
}

// panics is a store that panics, and says about what.
type panics struct{ *memory.Store }

// CheckAll implements service.CheckStore.
func (panics) CheckAll(_ context.Context, call service.Call) ([]service.Decision, error) {
	checks := call.Checks
	panic(fmt.Sprintf("store: %v", checks))
}

// Peek implements handlers.Reader.
func (panics) Peek(_ context.Context, bucket service.Bucket) (service.Peek, error) {
	panic(fmt.Sprintf("store: %v", bucket))
}

// askWherePanicsAre asks the interface over a store that panics, and returns its answers and its log.
func askWherePanicsAre(t *testing.T, folder string) string {
	t.Helper()
	ring, err := ask.KeyFlags{KeyHMACFile: folder}.Keyring()
	if err != nil {
		t.Fatal(err)
	}
	store := panics{memory.New()}
	for _, zone := range hidingZonesOf() {
		zone.Keys.Form = service.KeyHMAC
		store.SetZone(t, zone)
	}
	log := newOutput()
	logger := slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	coalescer := queue.NewCoalescer(store, queue.CoalescerOptions{Lanes: 1, HeldCalls: 1, Queue: 10, Timeout: time.Minute})
	defer func() { _ = coalescer.Close(context.Background()) }()
	answers := ""
	for _, checks := range []service.CheckStore{store, coalescer} {
		web := httptest.NewServer(handlers.New(handlers.Options{
			Limiter: service.NewLimiter(checks, service.LimiterOptions{Zones: store, Keys: ring, Timeout: 2 * time.Minute}),
			Reader:  store, Writer: store, Logger: logger, AccessLog: true,
		}))
		for path, body := range map[string]string{"/v1/check": everyBucket(), "/v1/zones/1/buckets/" + hiddenUser: ""} {
			r, err := request(web.URL+path, body)
			if err != nil || r.status < http.StatusInternalServerError {
				t.Errorf("%s over a store that panics: %d %s (%v)", path, r.status, r.body, err)
			}
			answers += r.body
		}
		web.Close()
	}
	if !strings.Contains(log.String(), "panic") {
		t.Errorf("no panic was logged:\n%s", log)
	}
	return answers + log.String()
}
