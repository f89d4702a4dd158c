//go:build cluster

package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"velocityd/db/session"
	"velocityd/internal/engine"
	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/enginetest/vitess"
)

// mysqldOf returns a pool of connections to a tablet's mysqld, past vtgate and vttablet.
func mysqldOf(t *testing.T, tablet *vitess.Tablet) *sql.DB {
	t.Helper()
	pool, err := sql.Open("mysql", fmt.Sprintf("vt_dba@tcp(127.0.0.1:%d)/", tablet.Port()))
	if err != nil {
		t.Fatal(err)
	}
	pool.SetMaxIdleConns(-1) // it is killed again and again
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

// holdCommits lets every COMMIT on a mysqld wait, after it has written its binary log and before
// others see it, for a replica that does not exist. It lasts until release or the end of the
// mysqld, or until vtorc ends it, some seconds later. waits says how many COMMITs wait.
func holdCommits(t *testing.T, mysqld *sql.DB) (waits func() int, release func()) {
	t.Helper()
	enginetest.Exec(t, mysqld, "SET GLOBAL rpl_semi_sync_source_enabled = ON")
	waits = func() (n int) {
		t.Helper()
		err := mysqld.QueryRow(
			"SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for semi-sync ACK%'").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return waits, func() { enginetest.Exec(t, mysqld, "SET GLOBAL rpl_semi_sync_source_enabled = OFF") }
}

// halfway is a check of a bucket on each of two shards whose COMMIT does not end on both.
type halfway struct {
	load    *load
	tablets [2]*vitess.Tablet // of the shard that is committed first, and of the other
	mysqlds [2]*sql.DB
	buckets [2]service.Bucket
}

// lose asks the check, lets it wait in the COMMIT of a shard, and then does something to the
// shards. It returns how the check ended.
func (h *halfway) lose(t *testing.T, attemptID string, fault halfwayFault) (service.Decision, error) {
	t.Helper()
	waits, release := holdCommits(t, h.mysqlds[fault.held])
	var decision service.Decision
	var err error
	ended := make(chan struct{})
	go func() {
		decision, err = h.ask(attemptID)
		close(ended)
	}()
	isEnded := func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
	enginetest.Eventually(t, "the COMMIT to wait", func() bool { return isEnded() || waits() > 0 })
	if doing := fault.do(h, release); doing != nil {
		t.Fatal(doing)
	}
	<-ended
	if doing := fault.undo(h); doing != nil {
		t.Fatal(doing)
	}
	return decision, err
}

// halfwayFault is a fault of the shards of a check while it waits in the COMMIT of one.
type halfwayFault struct {
	name string
	held int // the shard whose COMMIT waits
	do   func(h *halfway, release func()) error
	undo func(h *halfway) error // once the caller has an answer
}

func halfwayFaults() []halfwayFault {
	nothing := func(*halfway) error { return nil }
	return []halfwayFault{
		{"the second shard is lost before its COMMIT", 0, func(h *halfway, release func()) error {
			err := h.tablets[1].KillMysqld()
			release()
			return err
		}, nothing},
		{
			"the first shard is lost in its COMMIT", 0, func(h *halfway, _ func()) error { return h.tablets[0].KillMysqld() },
			nothing,
		},
		{
			"the second shard is lost in its COMMIT", 1, func(h *halfway, _ func()) error { return h.tablets[1].KillMysqld() },
			nothing,
		},
		{"the second shard hangs before its COMMIT", 0, func(h *halfway, release func()) error {
			err := h.tablets[1].FreezeMysqld()
			release()
			return err
		}, func(h *halfway) error { return h.tablets[1].ThawMysqld() }},
	}
}

func (h *halfway) ask(attemptID string) (service.Decision, error) {
	ctx, cancel := context.WithTimeout(context.Background(), servedDeadline)
	defer cancel()
	return ask(ctx, h.load.store, []service.Check{{Buckets: h.buckets[:], AttemptID: attemptID}})
}

// insist asks until the check is decided, as callers do after the answer that the service is busy.
func (h *halfway) insist(t *testing.T, attemptID string) (decision service.Decision) {
	t.Helper()
	enginetest.Eventually(t, "a decision", func() (decided bool) {
		var err error
		if decision, err = h.ask(attemptID); err != nil && !errors.Is(err, service.ErrBusy) {
			t.Errorf("while a shard comes back: %v, want busy", err)
		}
		return err == nil
	})
	return decision
}

// counted returns how many counted txns each bucket has, of an attempt or, without one, of all.
func (h *halfway) counted(t *testing.T, attemptID string) (n [2]int) {
	t.Helper()
	for i, bucket := range h.buckets {
		query, args := "SELECT COUNT(*) FROM zone_txn WHERE zone_id = ? AND bucket_key = ? AND counted",
			[]any{bucket.ZoneID, bucket.Key}
		if attemptID != "" {
			query, args = query+" AND attempt_id = ?", append(args, attemptID)
		}
		if err := h.load.pool.QueryRow(query, args...).Scan(&n[i]); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// wantRecorded asserts that each txn of a decision is in its bucket.
func (h *halfway) wantRecorded(t *testing.T, decision service.Decision) {
	t.Helper()
	for _, v := range decision.Verdicts {
		var key string
		err := h.load.pool.QueryRow("SELECT bucket_key FROM zone_txn WHERE id = ? AND bucket_key = ?", v.TxnID,
			v.Bucket.Key).Scan(&key)
		if err != nil {
			t.Errorf("txn %d of %s was told and is not recorded: %v", v.TxnID, v.Bucket.Key, err)
		}
	}
}

// newHalfway returns a check on a cluster with the shards -80 and 80-.
func newHalfway(t *testing.T) *halfway {
	t.Helper()
	c := ownCluster(t, vitess.Options{})
	h := &halfway{load: newLoad(t, c, session.Options{Engine: engine.Vitess})}
	for i, shard := range []string{"-80", "80-"} {
		h.tablets[i] = c.PrimaryOf(t, shard, "")
		h.mysqlds[i] = mysqldOf(t, h.tablets[i])
	}
	return h
}

// use chooses other buckets, by a number.
func (h *halfway) use(number int64) {
	for i := range h.buckets {
		h.buckets[i] = service.Bucket{ZoneID: h.load.zone.ID, Key: keyOn(i, "halfway", number)}
	}
}

// round meets a fault once. It returns how many txns of the attempt each shard has then, and
// false if the COMMIT ended before the fault came, because vtorc let it go on.
func (h *halfway) round(t *testing.T, attemptID string, fault halfwayFault) (recorded [2]int, isMet bool) {
	t.Helper()
	h.insist(t, "")
	decision, err := h.lose(t, attemptID, fault)
	if err == nil {
		return recorded, false
	}
	if !errors.Is(err, service.ErrUndecided) || errors.Is(err, service.ErrBusy) {
		t.Errorf("%s: %+v, %v, want undecided and not busy", fault.name, decision, err)
	}
	h.insist(t, "") // both shards are there again
	recorded = h.counted(t, attemptID)
	again := h.insist(t, attemptID)
	want := recorded // an attempt of which both txns are recorded is answered by them
	if recorded[1] == 0 {
		want = [2]int{recorded[0] + 1, 1}
	}
	if retried := h.counted(t, attemptID); again.Blocked || retried != want {
		t.Errorf("%s: asked again: blocked %v, %v are recorded, want that it passes and %v", fault.name, again.Blocked,
			retried, want)
	}
	h.wantRecorded(t, again)
	passed := 3
	for range 2 * h.load.zone.Rate {
		if !h.insist(t, "").Blocked {
			passed++
		}
	}
	all := h.counted(t, "")
	if passed > min(all[0], all[1]) || max(all[0], all[1]) > h.load.zone.Rate {
		t.Errorf("%s: %d passed and %v are counted, the rate is %d", fault.name, passed, all, h.load.zone.Rate)
	}
	t.Logf("%s: recorded %v; of a rate of %d passed %d, counted %v; told %v", fault.name, recorded, h.load.zone.Rate,
		passed, all, err)
	return recorded, true
}

// vtgate commits on one shard after the other.
func TestFaultHalfCommitIsUndecidedAndNeverOveradmits(t *testing.T) {
	const rounds, mostMissed = 3, 20
	h := newHalfway(t)
	number, missed, ended := int64(0), 0, map[[2]int]int{}
	for range rounds {
		for _, fault := range halfwayFaults() {
			for isMet := false; !isMet; number++ {
				h.use(number)
				var recorded [2]int
				if recorded, isMet = h.round(t, fmt.Sprintf("halfway-%d", number), fault); isMet {
					ended[recorded]++
				} else if missed++; missed > mostMissed {
					t.Fatalf("%s: the COMMIT ended before it, %d times in all", fault.name, missed)
				}
			}
		}
	}
	// Each row on the second shard is on the first, which is committed before.
	if ended[[2]int{1, 0}] == 0 || ended[[2]int{1, 0}]+ended[[2]int{1, 1}]+
		ended[[2]int{0, 0}] != rounds*len(halfwayFaults()) {
		t.Errorf(
			"txns of an attempt on the two shards, and how often: %v; want some with one txn, and none on the second shard alone", ended)
	}
	t.Logf("txns of an attempt on the two shards, and how often: %v; missed %d", ended, missed)
}
