package db

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// manyTxns is more than a batch reads one by one.
const manyTxns = 5 * mostListed

// tallied is a bucket whose many txns a batch has counted at noon.
type tallied struct {
	*twin
	now    time.Time
	bucket service.Bucket
	zone   service.Zone
}

func newTalliedTwin(t *testing.T, engine *enginetest.Engine) *twin {
	t.Helper()
	return newTwin(t, engine, false, func(s *Store) []service.CheckStore {
		return []service.CheckStore{
			inBatches{s},
			sqlStore{conns: s.lookUps.Conns.DB},
			sqlStore{conns: s.lookUps.Conns.DB, several: true},
		}
	})
}

// The ways in which a tallied bucket is asked for.
const (
	byBatch = iota
	bySQLAlone
	bySQLBatch
)

// newTallied makes the bucket, in a zone of its own. Its oldest txns leave the window
// one a second.
func newTallied(t *testing.T, w *twin, zoneID int64) *tallied {
	t.Helper()
	s := &tallied{
		twin: w, now: time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC),
		bucket: service.Bucket{ZoneID: zoneID, Key: "x"},
	}
	s.zone = service.Zone{ID: zoneID, Rate: 2 * manyTxns, Window: time.Hour, Counts: service.CountsFailures}
	s.setClock(t, s.now)
	s.SetZone(t, s.zone)
	instants := make([]time.Time, manyTxns)
	for i := range instants {
		instants[i] = s.now.Add(-s.zone.Window + time.Duration(i+1)*time.Second)
	}
	s.fill(t, s.bucket, instants)
	s.wantVelocity(t, manyTxns+1)
	return s
}

// turn sets the clock on, or back.
func (s *tallied) turn(t *testing.T, by time.Duration) {
	t.Helper()
	s.now = s.now.Add(by)
	s.setClock(t, s.now)
}

func (s *tallied) check(t *testing.T, how int) service.Verdict {
	t.Helper()
	decision := decided(t, s.ask[how], s.bucket)
	return decision.Verdicts[0]
}

// wantVelocity asks by a batch, and says whether a tally has told it.
func (s *tallied) wantVelocity(t *testing.T, want int) (isTold bool) {
	t.Helper()
	before := s.uses
	if got := s.check(t, byBatch).Velocity; got != want {
		t.Errorf("the velocity is %d, want %d", got, want)
	}
	s.auditTallies(t, s.zone.ID, s.zone.ID)
	return s.uses > before
}

// read returns how many index entries and rows the session of the batches has read so far.
func (s *tallied) read(t *testing.T) int {
	t.Helper()
	return counter(t, s.store.checks, "SHOW SESSION STATUS LIKE 'Handler_read_next'")
}

func TestATallySparesTheCount(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		s := newTallied(t, newTalliedTwin(t, engine), 1)
		s.turn(t, time.Second) // and with each of them a txn leaves the window
		s.check(t, bySQLAlone)
		s.check(t, bySQLBatch)
		s.turn(t, 9*time.Second)
		before := s.read(t)
		if !s.wantVelocity(t, manyTxns+1+2-10+1) {
			t.Error("no tally was used")
		}
		if n := s.read(t) - before; n > 50 {
			t.Errorf("%d index entries were read, of %d in the window", n, manyTxns)
		}
	})
}

func TestTallyOutrunByManyTxnsIsRemade(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		s := newTallied(t, newTalliedTwin(t, engine), 1)
		s.turn(t, time.Second)
		for range mostListed {
			s.check(t, bySQLAlone)
		}
		s.wantVelocity(t, manyTxns+1-1+mostListed+1)
		s.WantCount(t, 1, "SELECT COUNT(*) FROM zone_bucket_lock WHERE tallied_at = UTC_TIMESTAMP(6)")
	})
}

// TestTalliesKnowWhateverIsDoneUnderTheLock makes changes that alter the number of txns in the interval of a tally, and
// others.
func TestTalliesKnowWhateverIsDoneUnderTheLock(t *testing.T) {
	t.Parallel()
	check := func(how int, by time.Duration) func(*testing.T, *tallied) {
		return func(t *testing.T, s *tallied) {
			t.Helper()
			s.turn(t, by)
			s.check(t, how)
		}
	}
	report := func(outcome service.Outcome, resets bool) func(*testing.T, *tallied) {
		return func(t *testing.T, s *tallied) {
			t.Helper()
			s.zone.ResetOnSuccess = resets
			if resets {
				s.zone.Counts = service.CountsAttempts
			}
			s.SetZone(t, s.zone)
			id := s.Count(t, "SELECT MAX(id) FROM zone_txn")
			receipts, err := s.store.ReportAll(t.Context(), []service.Report{{TxnID: uint64(id), Outcome: outcome}})
			if err != nil || receipts[0] != nil {
				t.Errorf("got %v, %v", receipts, err)
			}
		}
	}
	const forgotten, kept = 0, 1
	cases := map[string]struct {
		do   func(*testing.T, *tallied)
		left int
	}{
		"a batch": {check(byBatch, time.Second), kept}, "SQL": {check(bySQLAlone, 1000), kept},
		"an SQL batch":                      {check(bySQLBatch, 1000), kept},
		"SQL at the same instant":           {check(bySQLAlone, 0), forgotten},
		"an SQL batch at the same instant":  {check(bySQLBatch, 0), forgotten},
		"SQL and a clock set back":          {check(bySQLAlone, -time.Second), forgotten},
		"an SQL batch and a clock set back": {check(bySQLBatch, -time.Second), forgotten},
		"a batch and a clock set back":      {check(byBatch, -time.Second), kept}, // made anew
		"a batch that lists, and a clock set back": {func(t *testing.T, s *tallied) {
			s.zone.Rate, s.zone.Window = mostListed, time.Second
			s.SetZone(t, s.zone)
			check(byBatch, -time.Second)(t, s)
		}, forgotten},
		"a failure":             {report(service.OutcomeFailure, false), kept},
		"a success":             {report(service.OutcomeSuccess, false), forgotten},
		"a success that resets": {report(service.OutcomeSuccess, true), forgotten},
		"a release": {func(t *testing.T, s *tallied) {
			if err := s.store.Release(t.Context(), s.bucket, "operator", "test"); err != nil {
				t.Error(err)
			}
		}, forgotten},
		"who waited for a row that was new": {func(t *testing.T, s *tallied) {
			enginetest.Exec(t, s.SQL, "CALL make_bucket(?, 'x', NULL, TRUE)", s.zone.ID)
		}, forgotten},
	}
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		w := newTalliedTwin(t, engine)
		zoneID := int64(0)
		for name, c := range cases {
			zoneID++
			s := newTallied(t, w, zoneID)
			c.do(t, s)
			s.auditTallies(t, zoneID, zoneID)
			if n := s.Count(t, "SELECT COUNT(*) FROM zone_bucket_lock WHERE tally_until IS NOT NULL AND zone_id = ?",
				zoneID); n != c.left {
				t.Errorf("%s: %d tallies are left, want %d", name, n, c.left)
			}
		}
	})
}

func TestDoubtfulTallyIsNotUsed(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		w := newTalliedTwin(t, engine)
		zoneID := int64(0)
		for name, do := range map[string]func(*tallied){
			"the window was made longer": func(s *tallied) {
				s.zone.Window *= 2
				s.SetZone(t, s.zone)
			},
			"the rate was lowered": func(s *tallied) {
				s.zone.Rate--
				s.SetZone(t, s.zone)
			},
			"a key of the zone has an override": func(s *tallied) {
				s.SetOverride(t, service.Override{ZoneID: s.zone.ID, Key: "other", Action: service.OverrideAllow})
			},
			"a cleaner took the lock row": func(s *tallied) { enginetest.Exec(t, s.SQL, "DELETE FROM zone_bucket_lock") },
		} {
			zoneID++
			s := newTallied(t, w, zoneID)
			do(s)
			s.turn(t, time.Millisecond)
			if s.wantVelocity(t, manyTxns+2) {
				t.Errorf("%s: a tally was used", name)
			}
		}
	})
}

func TestTalliesAdmitCrowdExactlyToRate(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		const callers, calls, each, rate = 8, 24, 5, 4 * mostListed
		d := engine.Database(t, zone(1, rate, time.Hour))
		ways := []service.CheckStore{bySQL{newSQLStore(t, d, false)}}
		for range 2 {
			ways = append(ways, inBatches{connect(t, d, session.Options{LockWait: 20 * time.Second})})
		}
		var allowed atomic.Int64
		atOnce(callers, func(i int) {
			way := ways[(1+i)%len(ways)]
			checks := slices.Repeat(check(user("hot")), each)
			if i%len(ways) == len(ways)-1 {
				checks = checks[:1] // SQL's, alone
			}
			for range calls {
				decisions, err := way.CheckAll(t.Context(), service.Call{Checks: checks})
				if err != nil {
					t.Error(err)
				}
				for _, decision := range decisions {
					if decision.Err == nil && !decision.Blocked {
						allowed.Add(1)
					}
				}
			}
		})
		if n := d.Count(t, "SELECT COUNT(*) FROM zone_bucket_lock WHERE tally > ?", rate/2); n != 1 ||
			allowed.Load() != rate {
			t.Errorf("allowed %d, want %d, with %d tallies, want 1", allowed.Load(), rate, n)
		}
		wantSettled(t, d, zone(1, rate, time.Hour))
	})
}

func TestHandEditedHistoryIsKnownAMinuteLater(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		s := newTallied(t, newTalliedTwin(t, engine), 1)
		enginetest.Exec(t, s.SQL, "DELETE FROM zone_txn")
		s.turn(t, oldestTally)
		s.check(t, byBatch) // may not know
		s.turn(t, time.Microsecond)
		if got := s.check(t, byBatch).Velocity; got != 2 {
			t.Errorf("the velocity is %d, want the 2 txns that there are", got)
		}
	})
}

// TestImpossibleTallyIsNotBelieved lets more txns leave a window than it had.
func TestImpossibleTallyIsNotBelieved(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		s := newTallied(t, newTalliedTwin(t, engine), 1)
		s.turn(t, 10*time.Second)
		enginetest.Exec(t, s.SQL, "UPDATE zone_bucket_lock SET tally = 9")
		if got := s.check(t, byBatch).Velocity; got != manyTxns+1-10+1 {
			t.Errorf("the velocity is %d", got)
		}
		s.wantVelocity(t, manyTxns+1-10+2)
	})
}

// countUses counts the packets that tell a velocity by a tally. It changes none.
func (w *twin) countUses(packet string) string {
	if strings.Contains(packet, " AND created_at <= ") {
		w.uses++
	}
	return packet
}

// auditTallies compares each tally of some zones with the rows.
func (w *twin) auditTallies(t *testing.T, firstZone, lastZone int64) {
	t.Helper()
	if wrong := w.Count(t, `
SELECT COUNT(*)
  FROM zone_bucket_lock AS l
 WHERE l.tally_until IS NOT NULL
   AND l.zone_id BETWEEN ? AND ?
   AND l.tally <> (SELECT COUNT(*)
                     FROM zone_txn AS t
                    WHERE t.zone_id = l.zone_id
                      AND t.bucket_key = l.bucket_key
                      AND t.counted
                      AND t.created_at > l.tally_from
                      AND t.created_at <= l.tally_until)`, firstZone, lastZone); wrong > 0 {
		t.Errorf("%d tallies are wrong", wrong)
	}
}
