package db

import (
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/servicetest"
)

func TestStoreKeepsTheContractOfZoneReports(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		servicetest.ExerciseZoneReport(t, func(t *testing.T) servicetest.ZoneReportSubject {
			b := newBench(t, engine.Database(t))
			return totalsBench{b, b.store.Totals}
		})
	})
	t.Run("portable", func(t *testing.T) {
		t.Parallel()
		servicetest.ExerciseZoneReport(t, func(t *testing.T) servicetest.ZoneReportSubject {
			b := newPortableBench(t, dbtest.Portable(t))
			return portableTotals{b, b.store.Totals}
		})
	})
}

func TestAReportLooksAtAllTxnsOfItsTimeAndNoOthers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t)
		begin, at := past(t, d)
		var days []uint64
		for id := uint64(3); id < 3*pastTxns; id += 3 * 24 * 60 * 60 / 500 {
			days = append(days, id)
		}
		mark(t, d, at, days...)
		store := connect(t, d, session.Options{MaxConns: session.LeastMaxConns})
		for _, q := range []service.ZoneReportQuery{
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
				t.Errorf("%+v: looked at %d, cut %v, counted %d; want %d, %d", q, report.Rows, report.IsCut, report.Total.Attempts, want, attempts)
			}
		}
		// Of a zone without txns: it passes over those of others, but not to the begin of the year.
		q := service.ZoneReportQuery{Since: service.At(begin.AddDate(0, 0, -9)), Until: service.At(begin.AddDate(1, 0, -10)), MostRows: 1}
		report, err := store.ZoneReport(t.Context(), service.Zone{ID: 9, Rate: 5, Window: time.Minute}, q)
		if err != nil || !report.IsCut || report.Rows != 0 || !report.From.After(begin) || !report.From.Before(at(3*pastTxns)) {
			t.Errorf("cut %v at %v, %d rows, %v", report.IsCut, report.From.Time, report.Rows, err)
		}
	})
}
