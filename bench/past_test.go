package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/bench/history"
	"velocityd/bench/workload"
	"velocityd/db/localdb"
	"velocityd/tools/nightly"
)

// samplePast is a run on one engine, with a history in 64 partitions, the same in one, and one with a flood.
func samplePast() *pastMeasured {
	e := &engine{binary: localdb.Binary{Engine: localdb.MySQL}}
	plan := history.Plan{Rows: 1_000_000, End: time.Date(2026, 3, 4, 18, 0, 0, 0, time.UTC)}
	flooded := plan
	flooded.Flood = 100_000
	m := &pastMeasured{
		options:   pastOptions{args: []string{"-fill", "mysql:1000000"}, turns: 2, times: 10, pool: "4G"},
		stage:     &stage{versions: []string{"MySQL 9.7.4"}},
		histories: []*past{{engine: e, plan: plan}, {engine: e, plan: plan, isWhole: true}, {engine: e, plan: flooded}},
		claims:    []claim{{"an audit of 400 txns", "no finding", "9s"}},
	}
	for turn := range 2 {
		for _, q := range questions() {
			for i, p := range m.histories {
				p50 := []time.Duration{3, 2, 6}[i] * time.Millisecond
				took := workload.Summary{P50: p50, Max: 9 * time.Millisecond}
				m.asked = append(m.asked, asked{question: q.title, history: p, result: result{turn: turn, Summary: took}})
			}
		}
	}
	m.asked[0].Busy = 4
	return m
}

func TestTheReportOfHistoriesSaysWhatWasFound(t *testing.T) {
	t.Parallel()
	m := samplePast()
	text := m.report(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	mustHold(t, text,
		"Written by `make bench-history ARGS='-fill mysql:1000000'` on 2026-03-04",
		"| | MySQL, 1,000,000 txns |\n",
		"a zone's settings, for comparison | 3.00 ms (9.00 ms, 4 refused) |",
		"| a key without rows | 3.00 ms (9.00 ms) |",
		"| a report by a txn's id | 1.5 |",
		"| a key without rows: MySQL, 1,000,000 txns | at most 5 ms | 3.00 ms, the slowest 9.00 ms |",
		"MySQL, 1,000,000 txns and a flood of 100,000 | as before the flood | 2 × the time |",
		"| an audit of 400 txns | no finding | 9s |",
	)
}

func TestHistoriesAreGivenWithTheirEngines(t *testing.T) {
	t.Parallel()
	o, err := parsePast(
		[]string{"-fill", "mysql:30000", "-fill", "mariadb:40000", "-fill", "mysql:20000", "-fill", "mysql:20000"})
	if err != nil {
		t.Fatal(err)
	}
	if got := o.fills[localdb.MySQL]; len(o.fills) != 2 || !slices.Equal(got, []int{20_000, 30_000}) {
		t.Errorf("the lengths are %v", o.fills)
	}
	for _, args := range [][]string{{"-fill", "mysql"}, {"-fill", "mysql:100"}, {"-turns", "0"}} {
		if _, err := parsePast(args); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}

func TestEachPartOfAHistoryIsMeasured(t *testing.T) {
	nightly.Only(t, "sixty days of txns with requests, a back-test and an audit, on an engine of each kind")
	t.Parallel()
	for _, kind := range []localdb.Engine{localdb.MySQL, localdb.MariaDB1011} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := &stage{dir: t.TempDir(), root: "..", progress: t.Logf}
			t.Cleanup(s.close)
			e, err := s.startEngine(t.Context(), kind, nil)
			if errors.Is(err, localdb.ErrNotFound) && os.Getenv("CI") != "true" {
				t.Skip(err)
			}
			if err := errors.Join(err, s.build(t.Context())); err != nil {
				t.Fatal(err)
			}
			m := &pastMeasured{options: pastOptions{turns: 1, times: 1}, stage: s}
			if m.histories, err = m.fillAll(t.Context(), s, e, []int{leastPast}); err != nil {
				t.Fatal(err)
			}
			for _, part := range []func(context.Context, *stage, []*past) error{m.ask, m.backtest, m.audit} {
				if err := part(t.Context(), s, m.histories); err != nil {
					t.Fatal(err)
				}
			}
			if len(m.claims) != 2 || len(m.asked) != 3*len(questions()) || !strings.HasSuffix(m.claims[1].found, " 0 findings") {
				t.Errorf("%d requests, %q", len(m.asked), m.claims)
			}
			var misplaced int
			if err := m.histories[0].database.sql.QueryRowContext(t.Context(), `
SELECT COUNT(*)
  FROM zone_txn_mark AS m
  JOIN zone_txn AS t ON t.id BETWEEN m.txn_id AND m.txn_id + 1
 WHERE (t.created_at < m.marked_at) <> (t.id = m.txn_id)`).Scan(&misplaced); err != nil || misplaced > 0 {
				t.Errorf("%d marks have other txns before them, %v", misplaced, err)
			}
		})
	}
}
