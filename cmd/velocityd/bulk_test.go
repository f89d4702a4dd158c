package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/api"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// largestCall is a body of POST /v1/checks with as many checks of as many buckets as there may be.
func largestCall(t *testing.T, name string) string {
	t.Helper()
	call := api.Checks{Checks: make([]service.Check, service.MaxChecks)}
	for i := range call.Checks {
		for j := range service.MaxBuckets {
			call.Checks[i].Buckets = append(call.Checks[i].Buckets,
				service.Bucket{ZoneID: 1, Key: fmt.Sprint(name, "-", i, "-", j)})
		}
	}
	body, err := json.Marshal(call)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// bulk counts the answers to checks that were asked at once.
type bulk struct{ decided, busy, undecided atomic.Int64 }

// told counts an answer that may be given for a check, and says whether it is one.
func (b *bulk) told(status int) bool {
	counter, ok := map[int]*atomic.Int64{
		http.StatusOK: &b.decided, http.StatusServiceUnavailable: &b.busy, http.StatusGatewayTimeout: &b.undecided,
	}[status]
	if ok {
		counter.Add(1)
	}
	return ok
}

// askLargest asks the largest call and holds that each check is decided, told when to come again, or undecided. The
// whole call is undecided on a machine that is so slow that its first piece is.
func (b *bulk) askLargest(t *testing.T, url, name string) {
	t.Helper()
	r, err := request(url+"/v1/checks", largestCall(t, name))
	if retry, _ := strconv.Atoi(r.header.Get("Retry-After")); err == nil && r.status == http.StatusServiceUnavailable &&
		retry > 0 {
		b.busy.Add(service.MaxChecks)
		return
	}
	if err == nil && r.status == http.StatusGatewayTimeout {
		b.undecided.Add(service.MaxChecks)
		return
	}
	var answer api.Results
	if err != nil || json.Unmarshal([]byte(r.body), &answer) != nil || len(answer.Results) != service.MaxChecks {
		t.Errorf("%s: %d %.200s, %v", name, r.status, r.body, err)
	}
	for i, result := range answer.Results {
		status := http.StatusOK
		if result.Problem != nil {
			status = result.Problem.Status
		}
		if !b.told(status) || status == http.StatusOK &&
			(result.Decision.Blocked || len(result.Decision.Verdicts) != service.MaxBuckets) {
			t.Errorf("%s, check %d: %+v", name, i, result)
		}
	}
}

// wantRows holds that the checks are recorded that were decided, each in so many buckets, and no
// others but those of which it was said that they may be.
func (b *bulk) wantRows(t *testing.T, d *enginetest.Database, where string, buckets int) {
	t.Helper()
	decided, undecided := int(b.decided.Load()), int(b.undecided.Load())
	if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE "+where); n < decided*buckets ||
		n > (decided+undecided)*buckets {
		t.Errorf("%s: %d txns of %d decided checks, %d undecided and %d busy", where, n, decided, undecided, b.busy.Load())
	}
}

// TestFortyLargestCallsAreAnsweredBesideLoneChecks asks far more than can be decided
// within the time that a check may take, so on a slow machine all of their checks may be refused.
func TestFortyLargestCallsAreAnsweredBesideLoneChecks(t *testing.T) {
	t.Parallel()
	const callers, lonely, conns = 40, 4, 8
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour},
		service.Zone{ID: 2, Rate: 1_000_000, Window: time.Hour})
	d.SQL.SetMaxOpenConns(1)
	i := start(t, environment{"VELOCITY_DSN": d.DSN}, "serve", "--max-conns", strconv.Itoa(conns), "--check-timeout", "6s",
		"--lock-wait",
		"2s")
	var large bulk
	var isOver atomic.Bool
	var group, beside sync.WaitGroup
	for n := range callers {
		group.Go(func() { large.askLargest(t, i.url, fmt.Sprint("caller-", n)) })
	}
	lone := make([]bulk, lonely)
	for n := range lone {
		beside.Go(func() {
			for !isOver.Load() {
				r, err := request(i.url+"/v1/check", fmt.Sprintf(`{"zone_id":2,"bucket_key":"lone-%d"}`, n))
				if err != nil || !lone[n].told(r.status) {
					t.Errorf("a lone check: %d %s, %v", r.status, r.body, err)
				}
			}
		})
	}
	go func() {
		group.Wait()
		isOver.Store(true)
	}()
	most := 0
	for !isOver.Load() {
		// Of two looks, because a server lists a session for a moment after its client has closed it.
		most = max(most, min(len(d.Sessions(t)), len(d.Sessions(t))))
	}
	beside.Wait()
	d.AwaitNone(t, "the last call")
	if own := 1 + 1; most > conns+own { // the test's, and that of /readyz
		t.Errorf("%d connections, want %d at most", most, conns+own)
	}
	large.wantRows(t, d, "zone_id = 1", service.MaxBuckets)
	for n := range lone {
		if lone[n].decided.Load() == 0 {
			t.Errorf("lone caller %d was never answered", n)
		}
		lone[n].wantRows(t, d, fmt.Sprintf("zone_id = 2 AND bucket_key = 'lone-%d'", n), 1)
	}
}
