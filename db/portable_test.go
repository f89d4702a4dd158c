package db

import (
	"context"
	"database/sql/driver"
	"net/netip"
	"testing"
	"time"

	"velocityd/db/records"
	"velocityd/db/retention"
	"velocityd/db/session"
	"velocityd/internal/engine"
	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/servicetest"
)

// portableBench is a bench on portable tables, with a DBA that keeps by statements what triggers
// keep on MySQL.
type portableBench struct{ explainedBench }

func newPortableBench(tb testing.TB, d *enginetest.Database) portableBench {
	tb.Helper()
	store := form{}.connect(tb, d, session.Options{LockWait: time.Minute})
	return portableBench{explainedBench{bench{nil, store, d, store}.asking(store), tb}}
}

func (b portableBench) SetZone(tb testing.TB, zone service.Zone) {
	tb.Helper()
	// For its row of zone_audit.
	if _, err := b.store.Records.PutZone(tb.Context(), zone, service.Match{}, "dba"); err != nil {
		tb.Fatal(err)
	}
	enginetest.Exec(
		tb, b.SQL, "UPDATE zone_master SET narrowed_at = UTC_TIMESTAMP(6), revision = revision + 1 WHERE id = ?", zone.ID)
}

func (b portableBench) SetOverride(tb testing.TB, o service.Override) {
	tb.Helper()
	if o.Prefix.IsValid() {
		enginetest.Exec(tb, b.SQL, "DELETE FROM zone_override WHERE zone_id = ? AND prefix = ?", o.ZoneID, o.Prefix.String())
	}
	b.Database.SetOverride(tb, o)
	if o.Prefix.IsValid() {
		family := 6
		if o.Prefix.Addr().Is4() {
			family = 4
		}
		enginetest.Exec(tb, b.SQL, "UPDATE zone_override SET network = ? WHERE zone_id = ? AND prefix = ?",
			records.Network(netip.PrefixFrom(o.Prefix.Addr(), o.Prefix.Bits())), o.ZoneID, o.Prefix.String())
		enginetest.Exec(
			tb, b.SQL, "INSERT IGNORE INTO zone_override_prefix_length (zone_id, family, prefix_length) VALUES (?, ?, ?)",
			o.ZoneID, family, o.Prefix.Bits())
	}
	enginetest.Exec(tb, b.SQL, "UPDATE zone_master SET overridden = TRUE, revision = revision + 1 WHERE id = ?", o.ZoneID)
}

// Age does by separate statements what Database.Age does, because no shard of Vitess knows the
// rows of the others.
func (b portableBench) Age(tb testing.TB, bucket service.Bucket, by time.Duration) {
	tb.Helper()
	b.HasAgedRows()
	attempts := map[string]bool{}
	for _, txn := range b.Txns(tb, bucket) {
		attempts[txn.AttemptID] = true
	}
	delete(attempts, "")
	us := by.Microseconds()
	b.AgeRows(tb, bucket, us)
	for id := range attempts {
		enginetest.Exec(
			tb, b.SQL, "UPDATE zone_attempt SET expires_at = expires_at - INTERVAL ? MICROSECOND WHERE attempt_id = ?", us, id)
	}
}

// TestPortableStoreKeepsTheContract holds TiDB to the whole contract (make test-tidb), and MySQL to what is done there
// by statements in place of procedures and triggers.
func TestPortableStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T) servicetest.Subject { return newPortableBench(t, enginetest.Portable(t)) }
	if enginetest.Portable(t).IsTiDB(t) {
		servicetest.Exercise(t, open)
		return
	}
	servicetest.ExerciseSome(t, open, []string{
		"AdmitsExactlyRateUnderContention", "FirstUseOfManyKeysAtOnce", "ReleaseGivesAllPlacesBack",
		"OutcomeSpeaksForTheWholeCheck",
		"AnotherReasonHasItsOwnTxn", "EveryVerdictAndItsTxnTellWhy", "LongestPrefixWinsAndTheExactKeyOverIt",
		"LockoutsGrowAreCappedAndDecay", "RetriedCheckIsCountedOnce", "AgreesWithTheOracleOnRandomTimelines",
	})
}

// TiDB can be told not to lock a row that an INSERT … ON DUPLICATE KEY UPDATE leaves as it is. A
// bucket would have no lock then, and more than the rate would pass.
func TestPortableSessionsLockUnchangedRows(t *testing.T) {
	t.Parallel()
	d := enginetest.Portable(t)
	if !d.IsTiDB(t) {
		t.Skip("the variable is TiDB's")
	}
	enginetest.Exec(t, d.SQL, "SET GLOBAL tidb_lock_unchanged_keys = 0")
	t.Cleanup(func() { enginetest.Exec(t, d.SQL, "SET GLOBAL tidb_lock_unchanged_keys = 1") })
	err := form{}.connect(t, d, session.Options{}).onCheckConn(
		t.Context(), func(ctx context.Context, conn *session.Conn) (bool, error) {
			var r session.Reading
			r.SQL("SELECT @@tidb_lock_unchanged_keys")
			r.Each(1, func(row []driver.Value) error {
				if session.AsInt(row[0]) != 1 {
					t.Errorf("tidb_lock_unchanged_keys is %s, want 1", session.Text(row[0]))
				}
				return nil
			})
			return true, r.Send(ctx, conn)
		})
	if err != nil {
		t.Fatal(err)
	}
}

// form is a kind of database that carries out the rules: an engine with procedures and triggers,
// or MySQL with the portable tables, which have none.
type form struct {
	engine *enginetest.Engine // nil for the portable tables
}

// eachForm runs test on every engine, and on the portable tables.
func eachForm(t *testing.T, test func(t *testing.T, f form)) {
	t.Helper()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) { test(t, form{engine}) })
	t.Run("portable", func(t *testing.T) {
		t.Parallel()
		test(t, form{})
	})
}

func (f form) database(tb testing.TB, zones ...service.Zone) *enginetest.Database {
	tb.Helper()
	if f.engine == nil {
		return enginetest.Portable(tb, zones...)
	}
	return f.engine.Database(tb, zones...)
}

func (f form) connect(tb testing.TB, d *enginetest.Database, o session.Options) *Store {
	tb.Helper()
	if f.engine == nil {
		var version, comment string
		if err := d.SQL.QueryRow("SELECT VERSION(), @@version_comment").Scan(&version, &comment); err != nil {
			tb.Fatal(err)
		}
		if o.Engine = engine.Of(version, comment); o.Engine == engine.MySQL {
			o.Engine = engine.TiDB
		}
	}
	return connect(tb, d, o)
}

func (f form) stand(tb testing.TB, o session.Options, zones ...service.Zone) (*enginetest.Database, *Store) {
	tb.Helper()
	d := f.database(tb, zones...)
	return d, f.connect(tb, d, o)
}

// TestPortableOverridesThatExpiredLeaveTheirAudit runs all tasks of a store on an engine without triggers.
func TestPortableOverridesThatExpiredLeaveTheirAudit(t *testing.T) {
	t.Parallel()
	d, store := form{}.stand(t, session.Options{}, zone(1, 5, time.Minute))
	enginetest.Exec(t, d.SQL, `INSERT INTO zone_override (zone_id, bucket_key, action, expires_at, created_at) VALUES
		(1, 'old', 'deny', UTC_TIMESTAMP() - INTERVAL 2 DAY, UTC_TIMESTAMP()),
		(1, 'fresh', 'deny', UTC_TIMESTAMP() - INTERVAL 1 HOUR, UTC_TIMESTAMP())`)
	if err := store.RetentionRunner().Finish(t.Context(), func(run retention.Run) {
		if run.Err != nil {
			t.Errorf("%s: %v", run.Task, run.Err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if all, fresh := d.Count(t, "SELECT COUNT(*) FROM zone_override"),
		d.Count(t, "SELECT COUNT(*) FROM zone_override WHERE bucket_key = 'fresh'"); all != 1 || fresh != 1 {
		t.Error("the expired override is left, or the fresh one gone")
	}
	d.WantCount(t, 1, "SELECT COUNT(*) FROM zone_audit WHERE subject = 'override' AND action = 'delete' "+
		"AND principal = 'velocityd retention'")
}
