package service_test

import (
	"slices"
	"testing"
	"time"

	"velocityd/service"
)

func TestBlockedAttemptsCountInLastTxnOfSeries(t *testing.T) {
	t.Parallel()
	full := service.Series{
		Began: noon().Add(-time.Minute), Txns: 2, TxnID: 77, TxnAt: noon().Add(-time.Second),
		Reason: service.ReasonFull,
	}
	changed := func(change func(*service.Series)) service.Series {
		s := full
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		series  service.Series
		counted bool // in txn 77
		txns    int  // of the series, afterwards
	}{
		"the same reason":               {full, true, 0},
		"at this instant":               {changed(func(s *service.Series) { s.TxnAt = noon() }), true, 0},
		"more than the zone records":    {changed(func(s *service.Series) { s.Txns = 9 }), true, 0},
		"no series":                     {service.Series{}, false, 1},
		"fewer than the zone records":   {changed(func(s *service.Series) { s.Txns = 1 }), false, 2},
		"another reason":                {changed(func(s *service.Series) { s.Reason = service.ReasonLocked }), false, 3},
		"another override":              {changed(func(s *service.Series) { s.OverrideID = 5 }), false, 3},
		"the window has passed":         {changed(func(s *service.Series) { s.Began = noon().Add(-time.Hour) }), false, 1},
		"the window has not yet passed": {changed(func(s *service.Series) { s.Began = noon().Add(-time.Hour + 1) }), true, 0},
		"the clock was set back":        {changed(func(s *service.Series) { s.TxnAt = noon().Add(1) }), false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := ledger(0)
			l.Zones[1] = service.Zone{ID: 1, Window: time.Hour, RecordBlocked: 2}
			l.Series = map[service.Bucket]service.Series{at(1, "alice"): c.series}
			r := decide(noon(), l, []service.Check{check(at(1, "alice"))})
			series, isLonger := r.Series[at(1, "alice")]
			place, isNew := service.PlaceOf(r.Decisions[0].TxnID())
			if c.counted {
				want := service.Repeats{Bucket: at(1, "alice"), TxnID: 77, TxnAt: c.series.TxnAt, Count: 1}
				if len(r.Txns) != 0 || isNew || isLonger || len(r.Repeats) != 1 || r.Repeats[0] != want || r.IsEmpty() {
					t.Errorf("ruled %+v, want %+v and nothing else", r, want)
				}
				return
			}
			if len(r.Txns) != 1 || !isNew || place != 0 || len(r.Repeats) != 0 || series.Txns != c.txns ||
				series.TxnID != r.Decisions[0].TxnID() {
				t.Errorf("ruled %+v, want a txn, the series' number %d", r, c.txns)
			}
		})
	}
}

func TestTxnChecksAndIDsSurviveCounting(t *testing.T) {
	t.Parallel()
	l := ledger(0)
	l.Zones[1] = service.Zone{ID: 1, Window: time.Hour, RecordBlocked: 1}
	l.Zones[2] = service.Zone{ID: 2, Window: time.Hour}
	l.Series = map[service.Bucket]service.Series{
		at(1, "alice"): {Began: noon(), Txns: 1, TxnID: 77, TxnAt: noon(), Reason: service.ReasonFull},
	}
	r := decide(noon(), l, []service.Check{
		check(at(1, "alice")), check(at(1, "alice"), at(2, "x")), check(at(1, "bob"), at(2, "x")),
		check(at(1, "bob"), at(1, "alice")),
	})
	r.Number(100, 10)
	var ids []uint64
	for _, d := range r.Decisions {
		for _, v := range d.Verdicts {
			ids = append(ids, v.TxnID)
		}
	}
	wantIDs, wantChecks := []uint64{77, 77, 100, 110, 120, 110, 77}, []int{1, 2, 2}
	if len(r.Txns) != 3 || !slices.Equal(ids, wantIDs) || !slices.Equal(r.TxnChecks, wantChecks) ||
		r.Txns[1].Attempts != 2 ||
		len(r.Repeats) != 1 || r.Repeats[0].Count != 3 {
		t.Errorf("ids %v, want %v; ruled %+v", ids, wantIDs, r)
	}
}
