//go:build cluster

package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"velocityd/db/dbtest"
	"velocityd/db/dbtest/vitess"
	"velocityd/service"
)

// mysqldOf returns a pool of connections to a tablet's mysqld, past vtgate and vttablet.
func mysqldOf(t *testing.T, tablet *vitess.Tablet) *sql.DB {
	t.Helper()
	pool, err := sql.Open("mysql", fmt.Sprintf("vt_dba@tcp(127.0.0.1:%d)/", tablet.Port()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

// holdCommits lets every COMMIT on a mysqld wait, after it has written its binary log and before
// others see it, for a replica that does not exist. It lasts until release or the end of the
// mysqld, or until vtorc ends it, some seconds later. waits says how many COMMITs wait.
func holdCommits(t *testing.T, mysqld *sql.DB) (waits func() int, release func()) {
	t.Helper()
	dbtest.Exec(t, mysqld, "SET GLOBAL rpl_semi_sync_source_enabled = ON")
	waits = func() (n int) {
		t.Helper()
		err := mysqld.QueryRow("SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE 'Waiting for semi-sync ACK%'").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return waits, func() { dbtest.Exec(t, mysqld, "SET GLOBAL rpl_semi_sync_source_enabled = OFF") }
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
func (h *halfway) lose(t *testing.T, attemptID string, held int, do func(release func())) (service.Decision, error) {
	t.Helper()
	waits, release := holdCommits(t, h.mysqlds[held])
	type end struct {
		decision service.Decision
		err      error
	}
	ended := make(chan end, 1)
	go func() {
		decision, err := h.ask(attemptID)
		ended <- end{decision, err}
	}()
	dbtest.Eventually(t, "the COMMIT to wait", func() bool { return waits() > 0 || len(ended) > 0 })
	do(release)
	got := <-ended
	return got.decision, got.err
}

func (h *halfway) ask(attemptID string) (service.Decision, error) {
	ctx, cancel := context.WithTimeout(context.Background(), servedDeadline)
	defer cancel()
	return ask(ctx, h.load.store, []service.Check{{Buckets: h.buckets[:], AttemptID: attemptID}})
}

// insist asks until the check is decided, as callers do who were told that the service is busy.
func (h *halfway) insist(t *testing.T, attemptID string) (decision service.Decision) {
	t.Helper()
	dbtest.Eventually(t, "a decision", func() (decided bool) {
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
		query, args := "SELECT COUNT(*) FROM zone_txn WHERE zone_id = ? AND bucket_key = ? AND counted", []any{bucket.ZoneID, bucket.Key}
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
		err := h.load.pool.QueryRow("SELECT bucket_key FROM zone_txn WHERE id = ? AND bucket_key = ?", v.TxnID, v.Bucket.Key).Scan(&key)
		if err != nil {
			t.Errorf("txn %d of %s was told and is not recorded: %v", v.TxnID, v.Bucket.Key, err)
		}
	}
}

// vtgate commits on one shard after the other. Here a shard is lost between the two COMMITs, or
// in one of them.
func TestFaultACheckWhoseCommitEndsHalfWayIsUndecidedAndNeverAdmitsMore(t *testing.T) {
	const rounds = 3
	c := ownCluster(t, vitess.Options{})
	l := newLoad(t, c, Options{Engine: EngineVitess})
	shards, err := newShardMap([]string{"-80", "80-"})
	if err != nil {
		t.Fatal(err)
	}
	h := &halfway{load: l}
	for i, shard := range []string{"-80", "80-"} {
		h.tablets[i] = primaryOf(t, c, shard, "")
		h.mysqlds[i] = mysqldOf(t, h.tablets[i])
	}
	kill := func(i int) {
		if err := h.tablets[i].KillMysqld(); err != nil {
			t.Fatal(err)
		}
	}
	faults := []struct {
		name     string
		held     int
		do       func(release func())
		recorded [2]int // of the attempt, once both shards are there again
	}{
		{"the second shard is lost before its COMMIT", 0, func(release func()) { kill(1); release() }, [2]int{1, 0}},
		{"the first shard is lost in its COMMIT", 0, func(func()) { kill(0) }, [2]int{1, 0}},
		{"the second shard is lost in its COMMIT", 1, func(func()) { kill(1) }, [2]int{1, 1}},
	}
	for number := range int64(rounds * len(faults)) {
		fault := faults[number%int64(len(faults))]
		h.buckets = [2]service.Bucket{{ZoneID: l.zone.ID, Key: keyOn(shards, 0, number)}, {ZoneID: l.zone.ID, Key: keyOn(shards, 1, number)}}
		attemptID := fmt.Sprintf("halfway-%d", number)
		h.insist(t, "")
		decision, err := h.lose(t, attemptID, fault.held, fault.do)
		if !errors.Is(err, service.ErrUndecided) || errors.Is(err, service.ErrBusy) {
			t.Errorf("%s: %+v, %v, want undecided and not busy", fault.name, decision, err)
		}
		h.insist(t, "") // both shards are there again
		recorded := h.counted(t, attemptID)
		if recorded != fault.recorded {
			t.Errorf("%s: %v of the attempt are recorded, want %v", fault.name, recorded, fault.recorded)
		}
		again := h.insist(t, attemptID)
		retried := h.counted(t, attemptID)
		if again.Blocked || retried[0] == 0 || retried[1] == 0 {
			t.Errorf("%s: asked again: blocked %v, %v recorded, want it to pass with a txn in both buckets", fault.name, again.Blocked, retried)
		}
		h.wantRecorded(t, again)
		passed := 3
		for range 2 * l.zone.Rate {
			if !h.insist(t, "").Blocked {
				passed++
			}
		}
		counted := h.counted(t, "")
		t.Logf("round %d, %s: %v; recorded %v, after it was asked again %v; %d of %d passed, %v counted",
			number+1, fault.name, err, recorded, retried, passed, l.zone.Rate, counted)
		if passed > min(counted[0], counted[1]) || max(counted[0], counted[1]) > l.zone.Rate {
			t.Errorf("%s: %d passed, %v are counted, the rate is %d", fault.name, passed, counted, l.zone.Rate)
		}
	}
}

var _ = time.Second
