package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/bench/workload"
)

// answering is a server that answers as told, and counts connections.
func answering(t *testing.T, handler http.HandlerFunc) (address string, connections *atomic.Int64) {
	t.Helper()
	connections = new(atomic.Int64)
	server := httptest.NewUnstartedServer(handler)
	server.Listener = counting{server.Listener, connections}
	server.Start()
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), connections
}

// carryOut runs a short round through main's run.
func carryOut(t *testing.T, order workload.Order) workload.Summary {
	t.Helper()
	in, err := json.Marshal(order)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), bytes.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	var sum workload.Summary
	if err := json.Unmarshal(out.Bytes(), &sum); err != nil {
		t.Fatal(err)
	}
	return sum
}

func order(protocol, address string, draws ...workload.Draw) workload.Order {
	return workload.Order{Protocol: protocol, Address: address, Callers: 3, Seconds: 0.1, Seed: 7, Draws: draws}
}

func TestARoundCountsEveryAnswerOfTheService(t *testing.T) {
	t.Parallel()
	var asked, blocked atomic.Int64
	address, connections := answering(t, func(w http.ResponseWriter, r *http.Request) {
		var check struct {
			ZoneID    int    `json:"zone_id"`
			BucketKey string `json:"bucket_key"`
		}
		if err := json.NewDecoder(r.Body).Decode(&check); err != nil || check.ZoneID != 4 ||
			!strings.HasPrefix(check.BucketKey, "user-0000") {
			t.Errorf("the check is %+v, %v", check, err)
		}
		full := asked.Add(1)%3 == 0
		if full {
			blocked.Add(1)
		}
		fmt.Fprintf(w, `{"blocked":%v,"txn_id":7}`, full)
	})
	sum := carryOut(t, order(workload.Service, address, workload.Draw{Zone: 4, Prefix: "user-", Of: 10}))
	if sum.Answers() != asked.Load() || sum.Blocked != blocked.Load() || sum.Errors != 0 || sum.Busy != 0 {
		t.Errorf("%d answers, %d blocked of %d and %d: %+v", sum.Answers(), sum.Blocked, asked.Load(), blocked.Load(), sum)
	}
	if sum.Answers() == 0 || sum.P50 <= 0 || sum.P99 < sum.P50 || sum.Max < sum.P99 || sum.Seconds < 0.1 {
		t.Errorf("the figures make no sense: %+v", sum)
	}
	if got := connections.Load(); got != 3 {
		t.Errorf("%d connections for 3 callers", got)
	}
}

func TestACheckNamesAllItsBuckets(t *testing.T) {
	t.Parallel()
	address, _ := answering(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		want := `{"buckets":[{"zone_id":1,"bucket_key":"user-00000"},{"zone_id":2,"bucket_key":"address-00000"}]}`
		if string(body) != want {
			t.Errorf("got  %s\nwant %s", body, want)
		}
		fmt.Fprint(w, `{"blocked":false}`)
	})
	sum := carryOut(t, order(workload.Service, address, workload.Draw{Zone: 1, Prefix: "user-", Of: 1},
		workload.Draw{Zone: 2, Prefix: "address-", Of: 1}))
	if sum.Admitted == 0 || sum.Errors > 0 {
		t.Errorf("%+v", sum)
	}
}

func TestSeveralLimitsOfOneAccountHaveItsKey(t *testing.T) {
	t.Parallel()
	first := workload.Draw{Zone: 1, Prefix: "account-", Of: 100_000}
	again := first
	again.Zone, again.Same = 2, true
	draws := newDraws(order(workload.Service, "", first, again), 0)
	keys := map[string]bool{}
	for range 100 {
		buckets := draws.next()
		if string(buckets[0].key) != string(buckets[1].key) || buckets[1].zone != 2 {
			t.Fatalf("one check names %s and %s", buckets[0].key, buckets[1].key)
		}
		keys[string(buckets[0].key)] = true
	}
	if len(keys) < 90 {
		t.Errorf("%d accounts in 100 checks", len(keys))
	}
}

func TestARecordIsOneInsertAndItsCommit(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 5, 6, 7, 8_000, time.UTC)
	got := string(appendRecord(nil, []bucket{{8, []byte("user-00001")}, {8, []byte("user-00002")}}, now))
	want := "INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) VALUES ('2026-03-04 " +
		"05:06:07.000008', 8, 'user-00001', 0, 0, 1), ('2026-03-04 05:06:07.000008', 8, 'user-00002', 0, 0, 1); COMMIT"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestPacedCallersAskAtTheirPaceOnly(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	address, _ := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, `{"blocked":false}`)
	})
	o := order(workload.Service, address, workload.Draw{Zone: 1, Prefix: "user-", Of: 1})
	o.Every, o.Seconds = 0.75, 1
	carryOut(t, o)
	// At 0, 0.25, 0.5, 0.75 of a second; a late one is not asked.
	if got := asked.Load(); got < 1 || got > 4 {
		t.Errorf("asked %d times in a second, by three callers every 0.75 s", got)
	}
}

func TestEnvoysAnswerIsItsStatus(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	address, _ := answering(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if want := `{"domain":"bench","descriptors":[{"entries":[{"key":"zone_3","value":"hot-00000"}]}]}`; string(
			body) != want {
			t.Errorf("got  %s\nwant %s", body, want)
		}
		if asked.Add(1) <= 5 {
			fmt.Fprint(w, `{"overallCode":"OK"}`)
			return
		}
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"overallCode":"OVER_LIMIT"}`)
	})
	sum := carryOut(t, order(workload.Envoy, address, workload.Draw{Zone: 3, Prefix: "hot-", Of: 1}))
	if sum.Admitted != min(5, asked.Load()) || sum.Blocked != asked.Load()-sum.Admitted || sum.Errors != 0 {
		t.Errorf("%+v of %d", sum, asked.Load())
	}
}

func TestWhatIsNoDecisionIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler    http.HandlerFunc
		busy, fail bool
	}{
		"busy": {
			handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, busy: true,
		},
		"fault": {
			handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, fail: true,
		},
		"something": {
			handler: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"hello":true}`) },
			fail:    true,
		},
		"no length": {
			handler: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat(" ", 8000)) },
			fail:    true,
		},
		"no connection": {handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, fail: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, _ := answering(t, c.handler)
			sum := carryOut(t, order(workload.Service, address, workload.Draw{Zone: 1, Prefix: "user-", Of: 1}))
			if sum.Answers() != 0 || (sum.Busy > 0) != c.busy || (sum.Errors > 0) != c.fail || (sum.FirstError != "") != c.fail {
				t.Errorf("%+v", sum)
			}
		})
	}
}

func TestARoundWithoutAContenderFails(t *testing.T) {
	t.Parallel()
	for _, o := range []workload.Order{
		order("carrier pigeon", "127.0.0.1:1"), order(workload.Service, "127.0.0.1:1"), order(workload.RPC, "127.0.0.1:1"),
		order(workload.Procedure, "no DSN"), order(workload.Recording, "no DSN"),
	} {
		if _, err := ask(t.Context(), o); err == nil {
			t.Errorf("%s at %s answers", o.Protocol, o.Address)
		}
	}
}

func TestDrawsAreTheSameForEachContender(t *testing.T) {
	t.Parallel()
	o := order("", "", workload.Draw{Prefix: "user-", Of: 100_000}, workload.Draw{Prefix: "address-", Of: 50, Hot: 0.05})
	one, same, other := newDraws(o, 1), newDraws(o, 1), newDraws(o, 2)
	differ, hot := 0, 0
	const draws = 20_000
	for range draws {
		a, b, c := one.next(), same.next(), other.next()
		if !bytes.Equal(a[0].key, b[0].key) || !bytes.Equal(a[1].key, b[1].key) {
			t.Fatalf("%v is not %v", a, b)
		}
		if !bytes.Equal(a[0].key, c[0].key) {
			differ++
		}
		if string(a[1].key) == "address-00000" {
			hot++
		}
		if len(a[0].key) != len("user-00000") {
			t.Fatalf("the key is %q", a[0].key)
		}
	}
	if differ < draws/2 {
		t.Errorf("of %d draws of two callers only %d differ", draws, differ)
	}
	// 5 % and a fiftieth of the rest: 0.069.
	if share := float64(hot) / draws; share < 0.05 || share > 0.09 {
		t.Errorf("the hot address has %.3f of the draws", share)
	}
}

func TestNewKeysAreNeverDrawnTwice(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for seed := range uint64(3) {
		for callerNo := range 30 {
			o := order("", "", workload.Draw{Prefix: "new-"})
			o.Seed = seed
			d := newDraws(o, callerNo)
			for range 300 {
				key := string(d.next()[0].key)
				if seen[key] {
					t.Fatalf("%s comes again", key)
				}
				seen[key] = true
			}
		}
	}
}
