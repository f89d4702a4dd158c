package db

import (
	"strings"
	"testing"

	"velocityd/db/dbtest"
	"velocityd/db/engine"
)

func TestPortableProbeNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	d := dbtest.EmptyPortable(t)
	dbtest.MigratePortable(t, d.DSN)
	p := probe(t, d.DSN, engine.TiDB)
	for _, table := range []string{"zone_override_prefix_length", "zone_attempt", "zone_txn", "zone_bucket_lock"} {
		dbtest.Exec(t, d.SQL, "RENAME TABLE "+table+" TO away")
		wantUnready(t, table+" is away", proved(p), "table "+table+" is missing")
		dbtest.Exec(t, d.SQL, "RENAME TABLE away TO "+table)
	}
	dbtest.Exec(t, d.SQL, "ALTER TABLE zone_attempt RENAME COLUMN bucket_key TO away")
	wantUnready(t, "a column is away", proved(p), "table zone_attempt is not as this program needs it")
	dbtest.Exec(t, d.SQL, "ALTER TABLE zone_attempt RENAME COLUMN away TO bucket_key")
	if err := proved(p); err != nil {
		t.Errorf("with everything back: %v", err)
	}
	for _, table := range []string{"zone_txn", "zone_bucket_lock", "zone_attempt"} {
		if n := d.Count(t, "SELECT COUNT(*) FROM "+table); n != 0 {
			t.Errorf("the proof has left %d rows in %s", n, table)
		}
	}
}

func TestPortableProbeNamesTheRightThatTheAccountLacks(t *testing.T) {
	t.Parallel()
	d := dbtest.Portable(t)
	for lacking, rights := range map[string][]string{
		"the right SELECT on table zone_master": {"SELECT ON zone_txn"},
		"the right DELETE on table zone_attempt": {
			"SELECT ON *", "INSERT, UPDATE ON zone_txn", "INSERT, UPDATE ON zone_bucket_lock", "INSERT ON zone_attempt",
		},
		"the right INSERT on table zone_txn": {
			"SELECT ON *", "UPDATE ON zone_txn", "INSERT, UPDATE ON zone_bucket_lock", "INSERT, DELETE ON zone_attempt",
		},
	} {
		wantUnready(t, lacking, proved(probe(t, d.Account(t, rights...).DSN, engine.TiDB)), lacking)
	}
	all := strings.Split("SELECT ON *;INSERT, UPDATE ON zone_txn;INSERT, UPDATE ON zone_bucket_lock;INSERT, DELETE ON zone_attempt", ";")
	if err := proved(probe(t, d.Account(t, all...).DSN, engine.TiDB)); err != nil {
		t.Errorf("with all rights of a decision: %v", err)
	}
}
