package db

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

func recording(id int64, first int) service.Zone {
	return service.Zone{ID: id, Window: time.Hour, RecordBlocked: first}
}

func TestTheServicesAccountCountsInBlockedTxnsAlone(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, recording(1, 1), zone(2, 5, time.Hour))
		as := d.ServiceAccount(t)
		store := connect(t, as, session.Options{})
		passed, err := ask(t.Context(), store, check(service.Bucket{ZoneID: 2, Key: "a"}))
		if err != nil || passed.Blocked {
			t.Fatalf("got %+v, %v", passed, err)
		}
		for i := range 3 { // alone, and by a batch
			for _, c := range [][]service.Check{check(user("a")), attempt(fmt.Sprint("by batch ", i), user("a"))} {
				if d, err := ask(t.Context(), store, c); err != nil || !d.Blocked {
					t.Fatalf("got %+v, %v", d, err)
				}
			}
		}
		enginetest.Exec(t, as.SQL, "CALL repeat_txns(?, UTC_TIMESTAMP(6))",
			fmt.Sprintf(`[[%d,"%s",4]]`, passed.TxnID(), passed.CheckedAt.Format(session.InstantFormat)))
		d.WantCount(t, 0, "SELECT COUNT(*) FROM zone_txn WHERE repeats > 0 AND NOT blocked")
		if txns := d.Txns(t, user("a")); len(txns) != 1 || txns[0].Attempts != 6 {
			t.Errorf("recorded %+v, want one txn of 6 attempts", txns)
		}
	})
}

func TestCountOnlyBatchWritesNeitherTxnNorSeries(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		_, p, store := through(t, engine, session.Options{MaxConns: 1}, recording(1, 2), zone(2, 0, time.Hour))
		asked := 0
		ask := func(bucket service.Bucket) {
			t.Helper()
			asked++ // with an id, so that it is a batch
			if d, err := ask(t.Context(), store, attempt(fmt.Sprint(asked), bucket)); err != nil || !d.Blocked {
				t.Fatalf("got %+v, %v", d, err)
			}
		}
		other := service.Bucket{ZoneID: 2, Key: "a"}
		for _, bucket := range []service.Bucket{user("a"), user("a"), user("a"), other} { // it learns how the zones are
			ask(bucket)
		}
		var sent [4]atomic.Int32
		for i, text := range []string{
			"CALL repeat_txns", "SELECT zone_id, bucket_key, blocked_began", "INSERT INTO zone_txn",
			"SET blocked_began",
		} {
			p.Before(text, func() { sent[i].Add(1) })
		}
		ask(user("a"))
		if got := [2]int32{sent[0].Load(), sent[1].Load()}; got != [2]int32{1, 1} || sent[2].Load()+sent[3].Load() != 0 {
			t.Errorf("sent %d statements that count, and %d and %d that write", got, sent[2].Load(), sent[3].Load())
		}
		p.Before("blocked_began", func() { sent[3].Add(1) })
		ask(other)
		if sent[2].Load() != 1 || sent[3].Load() != 0 {
			t.Errorf("a zone that records all: sent %d txns and %d of a series", sent[2].Load(), sent[3].Load())
		}
	})
}
