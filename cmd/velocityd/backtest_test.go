package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"velocityd/client"
	"velocityd/service"
	"velocityd/service/backtest"
	"velocityd/tools/enginetest"
)

// TestBacktestReplaysRecordAndAgreesWithIt has a zone that changes, an override, an outcome and a release between
// checks.
func TestBacktestReplaysRecordAndAgreesWithIt(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t,
		service.Zone{
			ID: 1, Description: "per user", Rate: 2, Window: time.Hour, Counts: service.CountsFailures,
			Lockout: time.Minute,
		},
		service.Zone{ID: 2, Rate: 99, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	direct := environment{"VELOCITY_DSN": d.DSN}
	i := start(t, environment{"VELOCITY_DSN": d.ServiceAccount(t).DSN}, "serve")
	check := func(times int, key string) {
		for range times {
			body := `{"buckets":[{"zone_id":1,"bucket_key":"` + key + `"},{"zone_id":2,"bucket_key":"192.0.2.1"}]}`
			if r, err := request(i.url+"/v1/check", body); err != nil || r.status != http.StatusOK &&
				r.status != http.StatusTooManyRequests {
				t.Fatalf("%v %+v", err, r)
			}
		}
	}
	check(1, "alice") // its success gives the place back
	mustAsk(t, i.url+"/v1/txns/1/outcome", `{"outcome":"success"}`, http.StatusOK)
	check(3, "alice") // two places, and the beginning of a lockout
	must(t, direct, "bucket", "release", "1", "alice", "--reason", "test")
	check(3, "alice")
	must(t, direct, "zone", "set", "1", "--rate", "4")
	must(t, direct, "override", "set", "1", "carol", "--action", "deny", "--reason", "test")
	check(5, "bob")
	check(1, "carol")
	args := []string{"backtest", "--zone", "1", "--rate", "1,2,50", "--lockout", "0", "--since", "1h"}
	var got backtest.Result
	if err := json.Unmarshal([]byte(must(t, direct, append(args, "--json")...)), &got); err != nil {
		t.Fatal(err)
	}
	if got.Attempts != 13 || got.Differed != 0 || got.Agreed != 13 || got.Happened.Blocked != 4 || got.Rows != 26 ||
		got.Successes != 1 {
		t.Errorf("%+v", got)
	}
	// Of alice's attempts 2 to 4 and 5 to 7 one passes each by a rate of 1, of bob's 5 one, and carol is denied.
	for n, blocked := range []int64{2 + 2 + 4 + 1, 1 + 1 + 3 + 1, 1} {
		if p := got.Proposals[n]; p.Numbers.Blocked != blocked || p.NewlyBlocked-p.NewlyPassed != blocked-4 ||
			p.Numbers.People != 0 {
			t.Errorf("rate %d: %+v, want %d blocked", p.Rate, p, blocked)
		}
	}
	for _, s := range got.Proposals[0].Samples {
		if path := fmt.Sprintf("/v1/txns/%d/explanation", s.TxnID); s.TxnID == 0 || s.Explanation != path {
			t.Errorf("a sample has %q, want %q", s.Explanation, path)
		}
	}
	overHTTP(t, i.url, got)
	if table := strings.Join(strings.Fields(must(t, direct, args...)), " "); !strings.Contains(
		table, "proposals rate window period counts lockout blocked") ||
		!strings.Contains(table, " 1 3600 none failures 0 9 ") || !strings.Contains(table, "proposals 1: samples") {
		t.Errorf("the table is %s", table)
	}
	if r := command(direct, nil, "backtest", "--zone", "7"); r.code != exitError ||
		!strings.Contains(r.stderr, "zone list") {
		t.Errorf("a zone that does not exist: %+v", r)
	}
}

// overHTTP asks a service for the same back-test, and compares the result.
func overHTTP(t *testing.T, url string, want backtest.Result) {
	t.Helper()
	over, err := client.New(url)
	if err != nil {
		t.Fatal(err)
	}
	defer over.Close()
	job, err := over.BeginBacktest(t.Context(), backtest.Query{
		ZoneID: 1, Since: service.At(time.Now().Add(-time.Hour)), Until: service.At(time.Now()),
		Grid: backtest.Grid{Rates: []int{1, 2, 50}, Lockouts: []service.Duration{service.Lasting(0)}},
	}, "ann")
	for err == nil && job.State == backtest.JobRunning && t.Context().Err() == nil {
		job, err = over.BacktestJob(t.Context(), 1, job.ID)
	}
	if err != nil || job.State != backtest.JobDone || job.Rows != want.Rows {
		t.Fatalf("%v: %+v", err, job)
	}
	got := *job.Result
	got.From, want.From = service.Instant{}, service.Instant{}
	for i := range want.Proposals {
		for j := range want.Proposals[i].Samples {
			want.Proposals[i].Samples[j].Key = ""
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("over HTTP\n%+v\nby the command\n%+v", got, want)
	}
	if job, err = over.CancelBacktest(t.Context(), 1, job.ID); err != nil || job.State != backtest.JobDone {
		t.Errorf("cancelled when it is done: %v, %+v", err, job)
	}
}

func TestInterruptedBacktestEndsAtOnceAndSaysSo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	line := []byte("2026-11-22T10:00:02Z gate sshd[1]: Failed password for root from 203.0.113.9 port 22 ssh2\n")
	input := &endless{line: line, after: 500, then: cancel}
	r := commandIn(ctx, nil, input, "backtest", "--sshd", "-", "--rate", "5", "--window", "1m", "--json")
	var got backtest.Result
	err := json.Unmarshal([]byte(r.stdout), &got)
	told := fmt.Sprintf("interrupted: the result is that of the first %d attempt", got.Attempts)
	if err != nil || r.code != exitError || !got.IsCut || got.Attempts == 0 || !strings.Contains(r.stderr, told) {
		t.Errorf("%v: %+v", err, r)
	}
	cancel()
	r = commandIn(ctx, nil, nil, "backtest", "--zone", "1", "--dsn", "root@tcp(127.0.0.1:1)/none")
	if r.code != exitError || !strings.Contains(r.stderr, "interrupted: no attempt was replayed yet") || r.stdout != "" {
		t.Errorf("before the first attempt: %+v", r)
	}
}

func TestABacktestOfALogNeedsNoDatabase(t *testing.T) {
	t.Parallel()
	log := strings.Repeat("2026-11-22T10:00:02Z gate sshd[1]: Failed password for root from 203.0.113.9 port 22 ssh2\n",
		5) +
		"2026-11-22T10:00:03Z gate sshd[1]: Accepted password for root from 203.0.113.9 port 22 ssh2\n"
	args := []string{"backtest", "--sshd", "-", "--rate", "5,6", "--window", "1m", "--by", "address", "--json"}
	r := command(environment{}, strings.NewReader(log), args...)
	var got backtest.Result
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	if got.Attempts != 6 || got.Proposals[0].Numbers.Successes != 1 || got.Proposals[0].Numbers.People != 1 ||
		got.Proposals[1].Numbers.Blocked != 0 {
		t.Errorf("%+v", got)
	}
	for name, args := range map[string][]string{
		"no rate": {"--sshd", "-", "--window", "1m"}, "no window": {"--sshd", "-", "--rate", "1"}, "nothing": {},
		"a wrong rate": {"--sshd", "-", "--rate", "-1", "--window", "60"},
	} {
		if r := command(environment{}, nil, append([]string{"backtest"}, args...)...); r.code != exitUsage {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
