package main

import (
	"errors"
	"os"
	"testing"

	"velocityd/bench/history"
	"velocityd/db/localdb"
	"velocityd/internal/nightly"
)

// onStage runs a test with a stage on which velocityd is built, and with an engine of each kind.
func onStage(t *testing.T, test func(*testing.T, *stage, *engine)) {
	t.Helper()
	for _, kind := range []localdb.Engine{localdb.MySQL, localdb.MariaDB1011} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := &stage{dir: t.TempDir(), root: "..", progress: t.Logf}
			t.Cleanup(s.close)
			e, err := startEngine(t.Context(), t.TempDir(), kind, []string{"--local-infile=ON"})
			if errors.Is(err, localdb.ErrNotFound) && os.Getenv("CI") != "true" {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			s.later(e.stop)
			if err := s.build(t.Context()); err != nil {
				t.Fatal(err)
			}
			test(t, s, e)
		})
	}
}

// number returns the whole number that a query finds.
func number(t *testing.T, d *database, query string) (n int64) {
	t.Helper()
	if err := d.sql.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func TestAHistoryIsFilledOnceAndLentAgain(t *testing.T) {
	nightly.Only(t, "sixty days of txns with their marks, on an engine of each kind")
	t.Parallel()
	onStage(t, func(t *testing.T, s *stage, e *engine) {
		p, err := s.openPast(t.Context(), e, "short", leastPast, 1)
		if err != nil {
			t.Fatal(err)
		}
		for run, removed := range []int{1, 0} {
			d, err := p.lend(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if n := number(t, d, "SELECT COUNT(*) FROM zone_txn"); n != leastPast {
				t.Errorf("run %d: %d txns, want %d", run+1, n, leastPast)
			}
			if n := number(t, d, "SELECT COUNT(*) FROM zone_txn WHERE id > 1000000"); n != 0 {
				t.Errorf("run %d: %d txns are of the run before", run+1, n)
			}
			misplaced := number(t, d, `
SELECT COUNT(*)
  FROM zone_txn_mark AS m
  JOIN zone_txn AS t ON t.id BETWEEN m.txn_id AND m.txn_id + 1
 WHERE (t.created_at < m.marked_at) <> (t.id = m.txn_id)`)
			if marks := number(t, d, "SELECT COUNT(*) FROM zone_txn_mark"); marks != int64(len(p.plan.Marks())) || misplaced != 0 {
				t.Errorf("run %d: %d marks, %d of them with other txns before them", run+1, marks, misplaced)
			}
			// A run records more, and retention takes the oldest days.
			statements := []string{`INSERT INTO zone_txn (id, created_at, zone_id, bucket_key, blocked, would_block, counted)
SELECT id + 2000000, created_at, zone_id, bucket_key, blocked, would_block, counted FROM zone_txn ORDER BY id DESC LIMIT 10`}
			for day := range removed {
				statements = append(statements, "ALTER TABLE zone_txn DROP PARTITION "+dayPartition(p.plan.Begin().AddDate(0, 0, day)))
			}
			if err := d.session(t.Context(), statements...); err != nil {
				t.Fatal(err)
			}
		}
		if tables, err := p.tables(t.Context(), anyDay); err != nil || len(tables) != history.Days {
			t.Errorf("%d tables of days, %v", len(tables), err)
		}
	})
}
