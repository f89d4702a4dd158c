package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"velocityd/bench/history"
	"velocityd/bench/round"
	"velocityd/db/localdb"
)

// samplePast is a run on one engine, with a history in 64 partitions, the same in one, and one with a flood.
func samplePast() *pastMeasured {
	e := &engine{binary: localdb.Binary{Engine: localdb.MySQL}}
	plan := history.Plan{Rows: 1_000_000, End: time.Date(2026, 3, 4, 18, 0, 0, 0, time.UTC)}
	plain := &lentPast{past: &past{engine: e, plan: plan}}
	whole := &lentPast{past: &past{engine: e, plan: plan}, about: ", one partition", isWhole: true}
	flooded := &lentPast{past: &past{engine: e, plan: plan, flood: 100_000}, about: " and a flood"}
	m := &pastMeasured{
		options:   pastOptions{sizes: []size{{localdb.MySQL, 1_000_000}}, turns: 2, times: 10, pool: "4G"},
		versions:  []string{"MySQL 9.7.4"},
		histories: []*lentPast{plain, whole, flooded},
		replays:   []*replayed{{history: plain, took: 9 * time.Second, peak: 99 << 20, Rows: 1_000_000, Attempts: 400_000}},
		leavings: []*leaving{{history: plain, removed: 200_000, retention: 3 * time.Second, quiet: []result{ran(0, "", "", 100)}, busy: []result{{
			Summary: round.Summary{Admitted: 10, Seconds: 1, P99: 6 * time.Millisecond, Max: 70 * time.Millisecond},
		}}}},
	}
	for turn := range 2 {
		for _, q := range questions() {
			for i, l := range m.histories {
				p50 := []time.Duration{3, 2, 6}[i] * time.Millisecond
				took := round.Summary{P50: p50, Max: 9 * time.Millisecond}
				m.asked = append(m.asked, asked{question: q.id, history: l, turn: turn, Summary: took})
			}
		}
	}
	return m
}

func TestTheReportOfHistoriesSaysWhatWasFound(t *testing.T) {
	t.Parallel()
	m := samplePast()
	text := m.report(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	for _, want := range []string{
		"a back-test of 400,000 attempts (1,000,000 txns)", "| 9s, 99 MiB |",
		"Written by `make bench-history ARGS='-fill mysql:1000000'` on 2026-03-04",
		"| | MySQL, 1,000,000 txns |\n",
		"| a key without rows | 3.00 ms (9.00 ms) |",
		"| a report by a txn's id | 1.5 |",
		"| a key without rows: MySQL, 1,000,000 txns | at most 5 ms | 3.00 ms, the slowest 9.00 ms |",
		"200,000 txns leave by retention in 3s: MySQL, 1,000,000 txns |", "| 2 ×, the slowest 70.0 ms, no error |",
		"MySQL, 1,000,000 txns and a flood | as before the flood | 2 × the time |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	m.leavings[0].busy[0].Errors, m.asked[0].Busy = 3, 4
	text = m.report(time.Now())
	for _, want := range []string{"3 checks without an answer, 0 refused", "a zone's settings, for comparison | 3.00 ms (9.00 ms), 4 refused |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestHistoriesAreGivenWithTheirEngines(t *testing.T) {
	t.Parallel()
	o, err := parsePast([]string{"-fill", "mysql:30000", "-fill", "mariadb:40000", "-fill", "mysql:20000", "-fill", "mysql:20000"})
	if err != nil {
		t.Fatal(err)
	}
	if kinds := o.engines(); len(kinds) != 2 || kinds[0] != localdb.MySQL {
		t.Errorf("the engines are %q", kinds)
	}
	if rows := o.rows(localdb.MySQL); len(rows) != 2 || rows[0] != 20_000 || rows[1] != 30_000 {
		t.Errorf("the lengths are %d", rows)
	}
	for _, args := range [][]string{{"-fill", "mysql"}, {"-fill", "mysql:100"}, {"-turns", "0"}} {
		if _, err := parsePast(args); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}

func TestNumbersAreWorkedOnUntilOneFails(t *testing.T) {
	t.Parallel()
	done := make(chan int, 100)
	if err := inParallel([]int{1, 2, 3, 4, 5}, 2, func(n int) error { done <- n; return nil }); err != nil || len(done) != 5 {
		t.Errorf("%d of 5 numbers, %v", len(done), err)
	}
	broken := errors.New("broken")
	begun := make(chan int, 100)
	err := inParallel([]int{1, 2, 3, 4, 5}, 1, func(n int) error { begun <- n; return broken })
	if !errors.Is(err, broken) || len(begun) != 1 {
		t.Errorf("%v after %d numbers", err, len(begun))
	}
}
