package db

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/session"
)

// TestNothingIsRecordedByAnIDThatTheSessionHasChosen calls each procedure that inserts, and edits what
// triggers record, each in a session of its own.
func TestNothingIsRecordedByAnIDThatTheSessionHasChosen(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 1, time.Hour), zone(2, 1, time.Hour))
		dbtest.Exec(t, d.SQL, "INSERT INTO zone_override (zone_id, bucket_key, action, reason) VALUES (1, 'alice', 'deny', 'why')")
		rows := func() int {
			return d.Count(t, "SELECT (SELECT COUNT(*) FROM zone_txn) + (SELECT COUNT(*) FROM zone_audit)")
		}
		before := rows()
		for _, statement := range []string{
			"CALL check_velocity(1, 'a')",
			`CALL check_velocity_batch('[{"buckets":[{"zone_id":1,"bucket_key":"a"}]}]')`,
			"CALL release_bucket(1, 'a', 'who', 'why')",
			"INSERT INTO zone_master (id, rate, `window`) VALUES (3, 1, 1)",
			"UPDATE zone_master SET rate = rate + 1",
			"UPDATE zone_override SET reason = 'another'",
			"DELETE FROM zone_override",
			"DELETE FROM zone_master WHERE id = 2",
		} {
			for _, id := range []string{"1", "18446744073709551614"} {
				conn := sqlSession(t, d, "SET SESSION insert_id = "+id)
				if _, err := conn.ExecContext(t.Context(), statement); !session.IsNumber(err, session.NumberBadArgument) {
					t.Errorf("insert_id %s, %s: %v", id, statement, err)
				}
			}
		}
		if n := rows() - before; n != 0 {
			t.Errorf("%d rows are recorded", n)
		}
	})
}

// TestSessionsThatSortByTheHeadOfKeysLockInTheOrderOfOthers has long keys that differ at their ends.
func TestSessionsThatSortByTheHeadOfKeysLockInTheOrderOfOthers(t *testing.T) {
	t.Parallel()
	const rounds, keys = 100, 8
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t, zone(1, 1_000_000, time.Hour))
		var buckets [2][keys]string // in opposite orders
		for i := range keys {
			bucket := fmt.Sprintf(`{"zone_id":1,"bucket_key":"%s%d"}`, strings.Repeat("k", 200), i)
			buckets[0][i], buckets[1][keys-1-i] = bucket, bucket
		}
		var group sync.WaitGroup
		for i, setting := range []string{"SET SESSION max_sort_length = 1024", "SET SESSION max_sort_length = 64"} {
			conn := sqlSession(t, d)
			question := `[{"buckets":[` + strings.Join(buckets[i][:], ",") + "]}]"
			group.Go(func() {
				for range rounds {
					dbtest.Exec(t, conn, setting)
					if _, err := conn.ExecContext(t.Context(), "CALL check_velocity_batch(?)", question); err != nil {
						t.Errorf("%s: %v", setting, err)
						return
					}
				}
			})
		}
		group.Wait()
	})
}
