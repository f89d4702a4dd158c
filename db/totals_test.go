package db

import (
	"strconv"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/db/totals"
	"velocityd/service"
	"velocityd/service/zonereport"
	"velocityd/tools/enginetest"
	"velocityd/tools/servicetest"
)

// totalsBench is a bench that rolls up.
type totalsBench struct {
	bench
	*totals.Store
}

// RollUp implements servicetest.TotalsSubject.
func (b totalsBench) RollUp(tb testing.TB) {
	tb.Helper()
	rollUp(tb, b.store)
}

// portableTotals is a portableBench that rolls up.
type portableTotals struct {
	portableBench
	*totals.Store
}

// RollUp implements servicetest.TotalsSubject.
func (b portableTotals) RollUp(tb testing.TB) {
	tb.Helper()
	rollUp(tb, b.store)
}

// rollUp counts all attempts that are due. It takes no lock of runners, so several may be at work.
func rollUp(tb testing.TB, store *Store) {
	tb.Helper()
	for more := true; more; {
		err := store.lookUps.On(tb.Context(), func(conn *sqlx.Conn) error {
			result, err := totals.Rollup(idsOn(store.database, store.History)).Run(tb.Context(), conn, "")
			more = result.Backlog
			return err
		})
		if err != nil {
			tb.Errorf("roll up: %v", err)
			return
		}
	}
}

// ageTotals removes totals that are too old.
func ageTotals(t *testing.T, store *Store) {
	t.Helper()
	if err := store.lookUps.On(t.Context(), func(conn *sqlx.Conn) error {
		_, err := totals.Age().Run(t.Context(), conn, "")
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestStoreKeepsTotals(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		servicetest.ExerciseTotals(t, func(t *testing.T) servicetest.TotalsSubject {
			b := newBench(t, engine.Database(t))
			return totalsBench{b, b.store.Totals}
		})
	})
	t.Run("portable", func(t *testing.T) {
		t.Parallel()
		servicetest.ExerciseTotals(t, func(t *testing.T) servicetest.TotalsSubject {
			b := newPortableBench(t, enginetest.Portable(t))
			return portableTotals{b, b.store.Totals}
		})
	})
}

// An outcome and a repeat that come after their interval was counted are in the numbers once their hour is final.
func TestSecondCountCorrectsHourDayMonthAndAll(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{},
			service.Zone{ID: 1, Rate: 1, Window: time.Hour, RecordBlocked: 1, Totals: true})
		var first service.Decision
		for range 2 {
			d := decided(t, store, user("alice"))
			if !d.Blocked {
				first = d
			}
		}
		d.Age(t, user("alice"), 3*time.Hour) // not final for a day, because the zone counts blocked attempts in rows
		rollUp(t, store)
		decided(t, store, user("bob"))
		enginetest.Exec(
			t, d.SQL, "UPDATE zone_txn SET repeats = 4, repeated_at = created_at + INTERVAL 1 MINUTE WHERE blocked")
		report(t, store, first.TxnID(), service.OutcomeFailure)
		rollUp(t, store)
		const sums = "SELECT GROUP_CONCAT(DISTINCT CONCAT_WS(' ', attempts, allowed, blocked, successes, failures)) FROM " +
			"zone_bucket_total WHERE bucket_key = 'alice'"
		if got := text(t, d, sums); got != "2 1 1 0 0" {
			t.Errorf("after the first count: %s", got)
		}
		enginetest.Exec(t, d.SQL, "UPDATE zone_master SET record_blocked = 0")
		for range 2 {
			rollUp(t, store)
			if got := text(t, d, sums); got != "6 1 5 0 1" {
				t.Errorf("after the second count: %s", got)
			}
		}
		const hour = "SELECT CONCAT_WS(' ', attempts, blocked, failures, buckets, final) FROM zone_hour ORDER BY hour LIMIT 1"
		if got := text(t, d, hour); got != "6 5 1 1 1" {
			t.Errorf("the zone's hour: %s", got)
		}
		d.WantCount(t, 4, "SELECT COUNT(*) FROM zone_bucket_total WHERE bucket_key = 'alice'")
	})
}

// text returns the one text that a query answers with.
func text(t *testing.T, d *enginetest.Database, query string) (text string) {
	t.Helper()
	if err := d.SQL.QueryRow(query).Scan(&text); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return text
}

// A runner is ended by the engine at each of its statements in turn. The numbers are as if it had never been.
func TestRollUpResumesWhereverItEnded(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Totals: true})
		p := enginetest.Through(t, d.DSN)
		store, broken := connect(t, d, session.Options{}), connect(t, &enginetest.Database{DSN: p.DSN}, session.Options{})
		for range 3 {
			decided(t, store, user("alice"), user("bob"))
		}
		for _, key := range []string{"alice", "bob"} {
			d.Age(t, user(key), 150*time.Minute)
		}
		for _, statement := range []string{
			"INSERT IGNORE INTO totals_progress", "SET rolled_up_to", "INSERT INTO zone_hour", "INSERT INTO zone_bucket_total",
			"SET final = TRUE",
		} {
			p.Before(statement, p.Cut)
			err := broken.lookUps.On(t.Context(), func(conn *sqlx.Conn) error {
				_, err := totals.Rollup(nil).Run(t.Context(), conn, "")
				return err
			})
			if err == nil {
				t.Errorf("cut at %s, and there was no error", statement)
			}
		}
		rollUp(t, store)
		if got := text(t, d,
			"SELECT GROUP_CONCAT(DISTINCT CONCAT_WS(' ', attempts, allowed, blocked)) FROM zone_bucket_total"); got != "3 1 2" {
			t.Errorf("buckets: %s", got)
		}
		if got := text(
			t, d, "SELECT CONCAT_WS(' ', attempts, allowed, blocked, buckets) FROM zone_hour WHERE final"); got != "6 2 4 2" {
			t.Errorf("the zone: %s", got)
		}
	})
}

func TestTotalsCountFromWhenTheyWereSwitchedOn(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{}, zone(1, 9, time.Hour))
		attempt := func() {
			decided(t, store, user("alice"))
		}
		attempt()
		d.Age(t, user("alice"), 10*time.Minute)
		rollUp(t, store)
		enginetest.Exec(t, d.SQL, "UPDATE zone_master SET totals = TRUE")
		attempt()
		for range 2 {
			got, err := store.Totals.BucketTotals(t.Context(), user("alice"), service.TotalsQuery{})
			if err != nil || got.All.Attempts != 1 || !got.CountedSince.After(time.Now().Add(-5*time.Minute)) {
				t.Errorf("%+v, %v", got, err)
			}
			rollUp(t, store)
		}
		got, err := store.Totals.ZoneTotals(t.Context(), 1, service.TotalsQuery{By: service.SpanMonth})
		if err != nil || got.Spans[0].Attempts < 1 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestOnlyOldBucketHoursAndDaysGo(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{}, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Totals: true})
		for _, days := range []int{service.DayTotalsDays + 1, service.HourTotalsDays + 1, 1} {
			key := strconv.Itoa(days)
			decided(t, store, user(key))
			d.Age(t, user(key), time.Duration(days)*24*time.Hour)
		}
		ageTotals(t, store)
		rollUp(t, store)
		ageTotals(t, store)
		const spans = "SELECT GROUP_CONCAT(CONCAT(bucket_key, ' ', span) ORDER BY CAST(bucket_key AS SIGNED), span) FROM " +
			"zone_bucket_total"
		if got := text(t, d, spans); got != "1 all,1 month,1 day,1 hour,36 all,36 month,36 day,401 all,401 month" {
			t.Errorf("left are %s", got)
		}
	})
}

// A transaction that holds every txn holds no roll-up up, and a roll-up locks no txn.
func TestARollUpWaitsForNoTxn(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{LockWait: time.Second},
			service.Zone{ID: 1, Rate: 1, Window: time.Hour, Totals: true})
		decided(t, store, user("alice"))
		d.Age(t, user("alice"), 3*time.Hour)
		conn := sqlSession(t, d)
		enginetest.Exec(t, conn, "START TRANSACTION")
		enginetest.Exec(t, conn, "UPDATE zone_txn SET outcome = 'success'")
		rollUp(t, store)
		enginetest.Exec(t, conn, "ROLLBACK")
		if got := text(t, d, "SELECT CONCAT_WS(' ', attempts, successes, final) FROM zone_hour"); got != "1 0 1" {
			t.Errorf("counted %s", got)
		}
	})
}

func TestTheServicesAccountMayRollUp(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{}, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Totals: true})
		decided(t, store, user("alice"))
		d.Age(t, user("alice"), 3*time.Hour)
		narrow := f.connect(t, d.ServiceAccount(t), session.Options{})
		rollUp(t, narrow)
		ageTotals(t, narrow)
		if got, err := narrow.Totals.BucketTotals(t.Context(), user("alice"), service.TotalsQuery{}); err != nil ||
			got.All.Attempts != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestStoreKeepsTheContractOfZoneReports(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		servicetest.ExerciseZoneReport(t, func(t *testing.T) servicetest.ZoneReportSubject {
			b := newBench(t, engine.Database(t))
			return totalsBench{b, b.store.Totals}
		})
	})
	t.Run("portable", func(t *testing.T) {
		t.Parallel()
		servicetest.ExerciseZoneReport(t, func(t *testing.T) servicetest.ZoneReportSubject {
			b := newPortableBench(t, enginetest.Portable(t))
			return portableTotals{b, b.store.Totals}
		})
	})
}

func TestReportCoversExactlyTxnsOfItsTime(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t)
		begin, at := past(t, d)
		var days []uint64
		for id := uint64(3); id < 3*pastTxns; id += 3 * 24 * 60 * 60 / 500 {
			days = append(days, id)
		}
		mark(t, d, at, days...)
		store := connect(t, d, session.Options{MaxConns: session.LeastMaxConns})
		for _, q := range []zonereport.Query{
			{Since: service.At(begin.AddDate(0, 0, 40)), Until: service.At(begin.AddDate(0, 0, 41))},
			{Since: service.At(begin.AddDate(0, 0, 40)), Until: service.At(begin.AddDate(0, 0, 41)), MostRows: 50},
			{Since: service.At(begin.AddDate(0, 0, -9)), Until: service.At(begin.AddDate(1, 0, -10))},
		} {
			report, err := store.ZoneReport(t.Context(), service.Zone{ID: 2, Rate: 5, Window: time.Minute}, q)
			if err != nil {
				t.Fatal(err)
			}
			want, attempts := 0, int64(0)
			for id := uint64(3 * pastTxns); id >= 3; id -= 3 {
				if instant := at(id); instant.Before(q.Since.Time) || !instant.Before(q.Until.Time) || want == q.MostRows &&
					q.MostRows > 0 || (id/3-1)%2 == 0 {
					continue
				}
				want, attempts = want+1, attempts+1
			}
			if report.Rows != want || report.Total.Attempts != attempts || report.IsCut != (q.MostRows > 0) {
				t.Errorf("%+v: looked at %d, cut %v, counted %d; want %d, %d", q, report.Rows, report.IsCut, report.Total.Attempts,
					want, attempts)
			}
		}
		// Of a zone without txns: it passes over those of others, but not to the begin of the year.
		q := zonereport.Query{
			Since: service.At(begin.AddDate(0, 0, -9)), Until: service.At(begin.AddDate(1, 0, -10)),
			MostRows: 1,
		}
		report, err := store.ZoneReport(t.Context(), service.Zone{ID: 9, Rate: 5, Window: time.Minute}, q)
		if err != nil || !report.IsCut || report.Rows != 0 || !report.Read[0].Since.After(begin) ||
			!report.Read[0].Since.Before(at(3*pastTxns)) {
			t.Errorf("cut %v, read %v, %d rows, %v", report.IsCut, report.Read, report.Rows, err)
		}
	})
}

func TestReportTellsOfTimeWhoseTxnsAreGone(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{}, service.Zone{ID: 1, Rate: 1, Window: time.Hour})
		decided(t, store, user("alice"))
		d.Age(t, user("alice"), 4*time.Hour)
		rollUp(t, store)
		enginetest.Exec(t, d.SQL, "DELETE FROM zone_txn")
		decided(t, store, user("bob"))
		until := time.Now().Add(time.Minute)
		report, err := store.ZoneReport(t.Context(), service.Zone{ID: 1, Rate: 1, Window: time.Hour},
			zonereport.Query{Since: service.At(until.Add(-6 * time.Hour)), Until: service.At(until)})
		if err != nil || report.Rows != 1 || report.Total.Attempts != 2 || report.IsCut || len(report.Read) != 1 ||
			!report.Read[0].Since.After(until.Add(-2*time.Hour)) {
			t.Errorf("%d rows, %d attempts, cut %v, read %v, %v", report.Rows, report.Total.Attempts, report.IsCut, report.Read,
				err)
		}
	})
}
