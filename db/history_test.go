package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/nightly"
	"velocityd/tools/servicetest"
)

func TestStoreKeepsTheContractOfHistory(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		servicetest.ExerciseHistory(t, func(t *testing.T) servicetest.HistorySubject { return newBench(t, engine.Rows(t)) })
	})
	t.Run("portable", func(t *testing.T) {
		t.Parallel()
		servicetest.ExerciseHistory(t, func(t *testing.T) servicetest.HistorySubject {
			return newPortableBench(t, enginetest.Portable(t))
		})
	})
}

const (
	pastDays = 60
	pastTxns = 10_000 // with every third id from 3 on
)

// past fills a history of pastDays days in a partition for each, of 100 buckets, and returns the instant of each txn by
// its id. The oldest day begins the history.
func past(t *testing.T, d *enginetest.Database) (begin time.Time, instant func(id uint64) time.Time) {
	t.Helper()
	begin = time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-pastDays)
	const step = 500 * time.Second // so that the last of them are older than a day
	partitions := ""
	for day := range pastDays - 1 {
		partitions += fmt.Sprintf("PARTITION d%d VALUES LESS THAN ('%s'), ", day,
			begin.AddDate(0, 0, day+1).Format(time.DateOnly))
	}
	enginetest.Exec(t, d.SQL, "ALTER TABLE zone_txn PARTITION BY RANGE COLUMNS (created_at) ("+partitions+
		"PARTITION later VALUES LESS THAN (MAXVALUE))")
	digits := "(SELECT 0 AS d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 " +
		"UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)"
	enginetest.Exec(t, d.SQL, fmt.Sprintf(`
INSERT INTO zone_txn (id, created_at, zone_id, bucket_key, blocked, would_block, counted, reason)
SELECT 3 * (n + 1), '%s' + INTERVAL n * %d SECOND, 1 + n %% 2, CONCAT('user', n %% 100),
  n %% 5 = 0, n %% 5 = 0, n %% 5 <> 0, IF(n %% 5 = 0, 'full', NULL)
  FROM (SELECT a.d + 10 * b.d + 100 * c.d + 1000 * e.d AS n FROM %s a, %s b, %s c, %s e) AS numbers`,
		begin.Format(session.InstantFormat), int64(step/time.Second), digits, digits, digits, digits))
	return begin, func(id uint64) time.Time { return begin.Add(time.Duration(id/3-1) * step) }
}

// mark writes a mark for each of these ids, at the instants of their txns.
func mark(t *testing.T, d *enginetest.Database, at func(id uint64) time.Time, ids ...uint64) {
	t.Helper()
	for _, id := range ids {
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_txn_mark (txn_id, marked_at) VALUES (?, ?)", id, at(id))
	}
}

// idsOf returns the ids of all pages of a query.
func idsOf(t *testing.T, store service.HistoryStore, q service.HistoryQuery) (ids []uint64) {
	t.Helper()
	for {
		page, err := store.History(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, txn := range page.Txns {
			ids = append(ids, txn.ID)
		}
		if q.Cursor = page.Next; q.Cursor == 0 {
			return ids
		}
	}
}

// TestAHistoryOfSixtyDaysIsReadRight asks one history in turn, because to fill it takes longer than to read it.
func TestAHistoryOfSixtyDaysIsReadRight(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t)
		begin, at := past(t, d)
		for _, holds := range []func(*testing.T, *enginetest.Database, time.Time, func(uint64) time.Time){
			marksChangeNoPage, listTxnsReadsTheHistory, aTxnIsFoundWhateverTheMarksSay, aPageGoesOnFromARemovedTxn,
		} {
			enginetest.Exec(t, d.SQL, "DELETE FROM zone_txn_mark")
			holds(t, d, begin, at)
		}
	})
}

// marksChangeNoPage compares pages with a plain reading of the rule, with no marks, few and many: these change the
// speed alone.
func marksChangeNoPage(t *testing.T, d *enginetest.Database, begin time.Time, at func(uint64) time.Time) {
	t.Helper()
	var some []uint64
	for id := uint64(3); id < 3*pastTxns; id += 3 * 40 { // about four a day
		some = append(some, id)
	}
	for _, marks := range [][]uint64{nil, {15_000}, some} {
		enginetest.Exec(t, d.SQL, "DELETE FROM zone_txn_mark")
		mark(t, d, at, marks...)
		store := connect(t, d, session.Options{}) // which has read no marks yet
		sinces := []time.Time{begin.AddDate(0, 0, 20)}
		if nightly.Is() {
			sinces = append(sinces, time.Time{}, begin.AddDate(0, 0, -9), at(29_000))
		}
		for _, since := range sinces {
			for _, until := range []time.Time{{}, since.AddDate(0, 0, 7)} {
				for _, order := range []service.HistoryOrder{service.NewestFirst, service.OldestFirst} {
					for _, keys := range [][]string{nil, {"user7"}} {
						q := service.HistoryQuery{Zones: []int64{2}, Keys: keys, Since: since, Until: until, Order: order, Limit: 999}
						if until.Before(begin) && !until.IsZero() {
							q.Until = begin
						}
						var want []uint64
						for id := uint64(3); id <= 3*pastTxns; id += 3 {
							txn := service.Txn{CreatedAt: service.At(at(id)), Bucket: service.Bucket{
								ZoneID: 1 + int64(id/3-1)%2, Key: fmt.Sprint("user", (id/3-1)%100),
							}}
							if q.Matches(txn) {
								want = append(want, id)
							}
						}
						if order == service.NewestFirst {
							slices.Reverse(want)
						}
						if got := idsOf(t, store.History, q); !slices.Equal(got, want) {
							t.Errorf("%d marks, %+v: got %d txns, want %d", len(marks), q, len(got), len(want))
						}
					}
				}
			}
		}
	}
}

// listTxnsReadsTheHistory compares the procedure with the Go store, which is compared with the rule.
func listTxnsReadsTheHistory(t *testing.T, d *enginetest.Database, begin time.Time, at func(uint64) time.Time) {
	t.Helper()
	store := connect(t, d, session.Options{})
	limits := []int{1, 30}
	if nightly.Is() {
		limits = append(limits, service.MaxHistoryPage)
	}
	for _, marks := range [][]uint64{nil, {3, 9_000, 12_000, 27_000}} {
		mark(t, d, at, marks...)
		for _, since := range []any{nil, begin.AddDate(0, 0, -3), begin.AddDate(0, 0, 40), at(30_000)} {
			for _, until := range []any{nil, begin.AddDate(0, 0, 41), at(30_000).Add(time.Second)} {
				for _, limit := range limits {
					q := service.HistoryQuery{Order: service.NewestFirst, Limit: limit}
					q.Since, _ = since.(time.Time)
					q.Until, _ = until.(time.Time)
					if !q.Until.IsZero() && !q.Since.Before(q.Until) {
						continue
					}
					wantList(t, d, store, q, nil, nil, since, until, limit)
					q.Zones = []int64{2}
					wantList(t, d, store, q, 2, nil, since, until, limit)
					q.Keys = []string{"user7"}
					wantList(t, d, store, q, 2, "user7", since, until, limit)
					q.Keys = []string{"nobody"}
					wantList(t, d, store, q, 2, "nobody", since, until, limit)
				}
			}
		}
	}
}

// wantList calls list_txns, and wants the ids of a page of the history.
func wantList(t *testing.T, d *enginetest.Database, store *Store, q service.HistoryQuery, args ...any) {
	t.Helper()
	page, err := store.History.History(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	want := []uint64{}
	for _, txn := range page.Txns {
		want = append(want, txn.ID)
	}
	rows := []struct {
		ID uint64 `db:"id"`
	}{}
	if err := sqlx.NewDb(d.SQL, "mysql").Unsafe().Select(&rows, "CALL list_txns(?, ?, ?, ?, ?)", args...); err != nil {
		t.Fatalf("list_txns%v: %v", args, err)
	}
	got := []uint64{}
	for _, row := range rows {
		got = append(got, row.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("list_txns%v: %d txns, want %d", args, len(got), len(want))
	}
}

func TestListTxnsLocksNothing(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{}, zone(1, 50, time.Hour))
		decision := decided(t, store, user("alice"))
		tx, err := d.SQL.Begin()
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		for _, call := range []string{
			"(1, 'alice', NULL, NULL, 9)", "(1, NULL, NULL, NULL, 9)",
			"(NULL, NULL, NULL, NULL, NULL)",
		} {
			enginetest.Exec(t, tx, "CALL list_txns"+call)
		}
		enginetest.Exec(t, tx, "CALL first_txn_since(UTC_TIMESTAMP(6), @first)")
		if err := store.Release(t.Context(), user("alice"), "test", "test"); err != nil {
			t.Errorf("while the list is open: %v", err)
		}
		report(t, store, decision.TxnID(), service.OutcomeFailure)
		for call, text := range map[string]string{
			"(NULL, 'alice', NULL, NULL, 9)": "needs the id of its zone", "(1, 'alice', NULL, NULL, 0)": "limit must be",
			"(1, 'alice', NULL, NULL, 100001)": "limit must be",
		} {
			if _, err := d.SQL.Exec("CALL list_txns" + call); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v", call, err)
			}
		}
		conn, err := d.SQL.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		enginetest.Exec(t, conn, "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE")
		if _, err := conn.ExecContext(t.Context(), "CALL list_txns(1, NULL, NULL, NULL, 9)"); err == nil ||
			!strings.Contains(err.Error(), "READ COMMITTED") {
			t.Errorf("a serializable session: %v", err)
		}
		enginetest.Exec(t, conn, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
	})
}

func aTxnIsFoundWhateverTheMarksSay(t *testing.T, d *enginetest.Database, _ time.Time, at func(uint64) time.Time) {
	t.Helper()
	wrong := func(id uint64) time.Time { return at(3 * (pastTxns + 1 - id/3)) }
	for name, marked := range map[string]func(id uint64) time.Time{"right": at, "wrong": wrong} {
		enginetest.Exec(t, d.SQL, "DELETE FROM zone_txn_mark")
		mark(t, d, marked, 3, 9_000, 15_000, 21_000)
		store := connect(t, d, session.Options{})
		for _, id := range []uint64{3, 8_997, 9_000, 9_003, 30_000} {
			if txn, err := store.History.Txn(t.Context(), id); err != nil || !txn.CreatedAt.Equal(at(id)) {
				t.Errorf("%s marks, txn %d: %+v, %v", name, id, txn, err)
			}
			errs, err := store.ReportAll(t.Context(), []service.Report{{TxnID: id, Outcome: service.OutcomeFailure}})
			isBlocked := (id/3-1)%5 == 0
			if err != nil || errors.Is(errs[0], service.ErrConflict) != isBlocked || errs[0] != nil && !isBlocked {
				t.Errorf("%s marks, report of txn %d: %v, %v", name, id, errs, err)
			}
		}
		if zones, err := store.History.TxnZones(t.Context(), []uint64{3, 15_003, 4, 30_000}); err != nil || len(zones) != 3 {
			t.Errorf("%s marks: zones of txns %v, %v", name, zones, err)
		}
		if _, err := store.History.Txn(t.Context(), 4); !errors.Is(err, service.ErrNotFound) {
			t.Errorf("%s marks: txn 4, which does not exist: %v", name, err)
		}
	}
}

func aPageGoesOnFromARemovedTxn(t *testing.T, d *enginetest.Database, _ time.Time, at func(uint64) time.Time) {
	t.Helper()
	mark(t, d, at, 9_000, 18_000)
	store := connect(t, d, session.Options{})
	for _, keys := range [][]string{nil, {"user6"}} {
		q := service.HistoryQuery{Zones: []int64{1}, Keys: keys, Order: service.OldestFirst, Limit: 7}
		for range 3 {
			page, err := store.History.History(t.Context(), q)
			if err != nil || len(page.Txns) != q.Limit {
				t.Fatalf("%+v, %v", page, err)
			}
			q.Cursor = page.Next
		}
		want := idsOf(t, store.History, q)
		enginetest.Exec(t, d.SQL, "DELETE FROM zone_txn WHERE id <= ?", q.Cursor)
		if got := idsOf(t, store.History, q); !slices.Equal(got, want) {
			t.Errorf("keys %v, oldest first: got %d txns, want %d", keys, len(got), len(want))
		}
		q.Order = service.NewestFirst
		if got := idsOf(t, store.History, q); len(got) != 0 {
			t.Errorf("keys %v, newest first: got %d txns behind the oldest", keys, len(got))
		}
	}
}

// TestManyTxnsOfOneInstantArePagedThrough has a batch's txns, which share their instant, behind those of the next one.
func TestManyTxnsOfOneInstantArePagedThrough(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		const txns = 400
		d, store := stand(t, engine, session.Options{}, zone(1, 50, time.Hour))
		d.LeaveUnaudited()
		var rows []string
		for id := range txns {
			rows = append(
				rows, fmt.Sprintf("(%d, TIMESTAMP'2026-01-01 00:00:00' + INTERVAL %d MICROSECOND, 1, 'alice', TRUE, TRUE, FALSE)",
					id+1, id/(txns/2)))
		}
		enginetest.Exec(
			t, d.SQL, "INSERT INTO zone_txn (id, created_at, zone_id, bucket_key, blocked, would_block, counted) VALUES "+
				strings.Join(rows, ","))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for id := uint64(1); id < txns; id += txns/4 - 1 {
			page, err := store.History.History(ctx, service.HistoryQuery{
				Zones: []int64{1}, Keys: []string{"alice"}, Order: service.OldestFirst, Cursor: id, Limit: 1,
			})
			if err != nil || len(page.Txns) != 1 || page.Txns[0].ID != id+1 {
				t.Fatalf("behind txn %d: %+v, %v", id, page.Txns, err)
			}
		}
	})
}
