package db

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// These tests use the procedures as an SQL client does: any session, any
// language, no service in between.

func TestWindowEndsToTheMicrosecond(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 1, time.Minute))
		d.FollowSessionClocks(t)
		conn := sqlSession(t, d)
		const start = 1_800_000_000
		for i, step := range []struct {
			at      string // seconds after start
			blocked bool
			retry   int
		}{
			{"0.500000", false, 0},
			{"0.500000", true, 60},
			{"1.499999", true, 60},
			{"1.500000", true, 59},
			{"60.499999", true, 1},
			{"60.500000", false, 0},
			{"120.499999", true, 1},
			// A clock that steps back finds the bucket full until it has caught up.
			{"60.000000", true, 61},
			{"0.000000", true, 121},
			{"120.500000", false, 0},
		} {
			enginetest.Exec(t, conn, fmt.Sprintf("SET SESSION timestamp = %d + %s", start, step.at))
			r, err := call(conn, user("alice"))
			if err != nil || r.blocked != step.blocked || r.retry != step.retry {
				t.Errorf("step %d at %s: got %+v, %v, want %+v", i, step.at, r, err, step)
			}
		}
	})
}

func TestSessionsInAnyTimeZoneShareOneWindow(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 3, time.Minute))
		for i, offset := range []string{"+00:00", "+13:00", "-12:00", "+05:30", "SYSTEM"} {
			r, err := call(sqlSession(t, d, "SET SESSION time_zone = '"+offset+"'"), user("alice"))
			if err != nil || r.blocked != (i >= 3) {
				t.Errorf("session at %s, attempt %d: %+v, %v", offset, i+1, r, err)
			}
		}
		far := d.Count(
			t, "SELECT COUNT(*) FROM zone_txn WHERE ABS(TIMESTAMPDIFF(SECOND, created_at, UTC_TIMESTAMP(6))) > 300")
		if far != 0 {
			t.Errorf("%d txns are not in UTC", far)
		}
	})
}

func TestProcedureIsExactAtEveryIsolationLevel(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 2, time.Hour))
		for _, level := range []string{"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"} {
			key := user(level)
			release := d.Hold(t, key)
			answers := make(chan bool, 6)
			for range cap(answers) {
				conn := sqlSession(t, d, "SET SESSION TRANSACTION ISOLATION LEVEL "+level)
				go func() {
					r, err := call(conn, key)
					if err != nil {
						t.Error(err)
					}
					answers <- r.blocked
				}()
			}
			d.AwaitWaiting(t, cap(answers))
			release()
			allowed := 0
			for range cap(answers) {
				if !<-answers {
					allowed++
				}
			}
			if allowed != 2 {
				t.Errorf("%s: allowed %d, want 2", level, allowed)
			}
		}
	})
}

func TestBucketNamedTwiceInCheckCountsOnce(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 2, time.Hour))
		for range 2 { // the second time it is remembered
			rows, err := enginetest.Texts(
				d.SQL, `CALL check_velocity_buckets('[{"zone_id":1,"bucket_key":"b"},{"zone_id":1,"bucket_key":"a"},
				{"zone_id":1,"bucket_key":"b"}]', 'x')`)
			if err != nil || len(rows) != 2 || rows[0][3] != "b" || rows[1][3] != "a" || rows[1][10] != "1" {
				t.Fatalf("%q, %v, want b and a once, with a velocity of 1", rows, err)
			}
			if rows, err = enginetest.Texts(
				d.SQL,
				`CALL check_velocity_buckets('[{"zone_id":1,"bucket_key":"c"},{"zone_id":1,"bucket_key":"c"}]', NULL)`); err != nil ||
				len(rows) != 1 {
				t.Fatalf("%q, %v, want c once", rows, err)
			}
		}
		d.WantCount(t, 4, "SELECT COUNT(*) FROM zone_txn WHERE check_buckets <=> IF(bucket_key = 'c', NULL, 2)")
	})
}

// TestAProcedureOfTheCallersOwnMayCall holds that a CALL from within another
// procedure sees the rows that were committed while it waited.
func TestAProcedureOfTheCallersOwnMayCall(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 2, time.Hour))
		for name, statement := range map[string]string{
			"one":     "CALL check_velocity(1, 'one')",
			"several": `CALL check_velocity_buckets('[{"zone_id":1,"bucket_key":"several"},{"zone_id":1,"bucket_key":"x"}]', NULL)`,
		} {
			enginetest.Exec(t, d.SQL, "CREATE PROCEDURE own_"+name+"() "+statement)
			conn := sqlSession(t, d, "CALL own_"+name+"()")
			release := d.Hold(t, user(name))
			answered := make(chan string, 1)
			go func() {
				answer, _, err := answerTo(conn, "CALL own_"+name+"()")
				if err != nil {
					t.Error(err)
				}
				answered <- answer
			}()
			d.AwaitWaiting(t, 1)
			enginetest.Exec(t, d.SQL, "INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) "+
				"VALUES (UTC_TIMESTAMP(6), 1, ?, FALSE, FALSE, TRUE)", name)
			release()
			if answer := <-answered; !strings.Contains(answer, "blocked=1 ") {
				t.Errorf("%s: answered %q, and the bucket was full", name, answer)
			}
		}
	})
}

func TestDecisionReadsNoMoreThanRateEntries(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		const rate, flood = 5, service.MaxChecks
		d, store := stand(t, engine, session.Options{}, zone(1, flood, 365*24*time.Hour))
		checks := slices.Repeat(check(user("alice")), service.MaxChecks)
		for range 2 { // as many counted as blocked rows
			decide(t, store, checks)
		}
		d.SetZone(t, zone(1, rate, 365*24*time.Hour))
		for _, statement := range []string{
			"CALL check_velocity(1, 'alice')",
			`CALL check_velocity_buckets('[{"zone_id":1,"bucket_key":"alice"}]', NULL)`,
		} {
			conn := sqlSession(t, d)
			before := counter(t, conn, "SHOW SESSION STATUS LIKE 'Handler_read%'")
			enginetest.Exec(t, conn, statement)
			// Zones, locks, procedures and intermediate results, with any history.
			if read := counter(t, conn, "SHOW SESSION STATUS LIKE 'Handler_read%'") - before; read > 150 {
				t.Errorf("%s: read %d entries of a history of %d", statement, read, 2*flood)
			}
		}
	})
}
