package db

import (
	"strings"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/internal/engine"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// goWays checks, reports, releases and edits in earnest, and returns the error of each way.
func goWays(t *testing.T, d *enginetest.Database, store *Store) map[string]error {
	t.Helper()
	bucket := service.Bucket{ZoneID: 1, Key: "203.0.113.9"}
	decision, checks := ask(t.Context(), store, check(bucket))
	if checks == nil {
		_, checks = ask(t.Context(), store, check(bucket, service.Bucket{ZoneID: 2, Key: bucket.Key}))
	}
	receipts, reports := store.ReportAll(
		t.Context(), []service.Report{{TxnID: decision.TxnID(), Outcome: service.OutcomeSuccess}})
	if reports == nil {
		reports = receipts[0]
	}
	_, edits := store.Records.PutZone(t.Context(), zone(9, 1, time.Minute), service.Match{}, "ann")
	if edits == nil {
		_, edits = d.SQL.Exec("INSERT INTO zone_override (zone_id, prefix, action) VALUES (2, '203.0.113.0/24', 'deny')")
	}
	return map[string]error{
		"checks": checks, "reports": reports, "releases": store.Release(t.Context(), bucket, "ann", "forgot"),
		"edits": edits,
	}
}

// readyWays asks about the same ways.
func readyWays(t *testing.T, p *Probe) map[string]error {
	t.Helper()
	return map[string]error{
		"checks": p.ReadyForChecks(t.Context()), "reports": p.Ready(t.Context()), "releases": p.ReadyForReleases(t.Context()),
	}
}

// TestProveFindsAStackThatIsTooSmall has a server on which MySQL decides checks and records no outcome.
// MariaDB needs less on each way: its least stack for one is that for all.
func TestProveFindsAStackThatIsTooSmall(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		stack, tooSmall := "--thread-stack=192K", engine.Name == "mysql"
		if !tooSmall {
			stack = "--thread-stack=144K"
		}
		d := migrated(t, engine.Private(t, t.TempDir(), stack),
			service.Zone{ID: 1, Rate: 5, Window: time.Hour, ResetOnSuccess: true})
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_master (id, rate, `window`, key_kind) VALUES (2, 5, 60, 'ip')")
		found := readyWays(t, probe(t, d.DSN))
		for way, err := range goWays(t, d, connect(t, d, session.Options{})) {
			if err != nil && (found[way] == nil || !strings.Contains(found[way].Error(), "thread_stack")) {
				t.Errorf("%s fail (%v), and the probe says %v", way, err, found[way])
			}
		}
		if tooSmall {
			if found["checks"] != nil {
				t.Errorf("checks: %v", found["checks"])
			}
			wantUnready(t, stack, found["reports"], "thread_stack is too small for reports of outcomes: set it to 1M")
		}
	})
}

// TestProveFindsThatAPartitionIsMissing ends the partitions in the past, and then follows the reason's advice.
func TestProveFindsThatAPartitionIsMissing(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 5, time.Hour))
		p := probe(t, d.ServiceAccount(t).DSN)
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted) "+
			"VALUES ('2019-01-01', 1, 'a', 0, 0, 1)")
		enginetest.Exec(t, d.SQL,
			"ALTER TABLE zone_txn PARTITION BY RANGE COLUMNS (created_at) (PARTITION past VALUES LESS THAN ('2020-01-01'))")
		found := ready(p)
		wantUnready(t, "no partition", found, "zone_txn has no partition for the txns of now")
		_, cure, _ := strings.Cut(found.Error(), "run ")
		enginetest.Exec(t, d.SQL, cure)
		if err := ready(p); err != nil {
			t.Errorf("after %s: %v", cure, err)
		}
		if _, err := ask(t.Context(), connect(t, d, session.Options{}), check(user("alice"))); err != nil {
			t.Error(err)
		}
	})
}

// TestProveNeedsTheRightsOfReportsAndReleases gives accounts EXECUTE procedure by procedure.
func TestProveNeedsTheRightsOfReportsAndReleases(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t)
		narrow := d.ServiceAccount(t)
		account, name := accountOf(t, narrow)
		enginetest.Exec(t, d.SQL, "REVOKE EXECUTE ON "+name+".* FROM "+account)
		for _, procedure := range []string{"check_velocity_by_rule", "forget_attempts", "repeat_txns"} {
			enginetest.Exec(t, d.SQL, "GRANT EXECUTE ON PROCEDURE "+name+"."+procedure+" TO "+account)
		}
		found := readyWays(t, probe(t, narrow.DSN))
		if found["checks"] != nil {
			t.Errorf("found %v", found)
		}
		wantUnready(t, "no EXECUTE of reports", found["reports"],
			"lacks the right EXECUTE on procedure report_outcomes: grant it")
		wantUnready(t, "no EXECUTE of releases", found["releases"],
			"lacks the right EXECUTE on procedure release_bucket: grant it")
	})
}

// TestMissingIndexFailsProofAndServiceAlike drops the index by which a batch counts: a lone check
// is still decided, and a check of two buckets is not.
func TestMissingIndexFailsProofAndServiceAlike(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 5, time.Hour))
		enginetest.Exec(t, d.SQL, "ALTER TABLE zone_txn DROP INDEX zone_txn_window")
		store := connect(t, d, session.Options{})
		if _, err := ask(t.Context(), store, check(user("alice"))); err != nil {
			t.Errorf("a lone check: %v", err)
		}
		if _, err := ask(t.Context(), store, check(user("alice"), user("bob"))); !session.IsOneOf(err, []uint16{1176}) {
			t.Errorf("a check of two buckets: %v, want error 1176", err)
		}
		wantUnready(t, "no index", ready(probe(t, d.DSN)), "'velocityd doctor' names what is different, and what mends it")
	})
}

func TestPortableProbeNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	d := enginetest.EmptyPortable(t)
	enginetest.MigratePortable(t, d.DSN)
	p := probe(t, d.DSN, engine.TiDB)
	for _, table := range []string{"zone_override_prefix_length", "zone_attempt", "zone_txn", "zone_bucket_lock"} {
		enginetest.Exec(t, d.SQL, "RENAME TABLE "+table+" TO away")
		wantUnready(t, table+" is away", ready(p), "table "+table+" is missing")
		enginetest.Exec(t, d.SQL, "RENAME TABLE away TO "+table)
	}
	enginetest.Exec(t, d.SQL, "ALTER TABLE zone_attempt RENAME COLUMN bucket_key TO away")
	wantUnready(t, "a column is away", ready(p), "table zone_attempt is not as this program needs it")
	enginetest.Exec(t, d.SQL, "ALTER TABLE zone_attempt RENAME COLUMN away TO bucket_key")
	if err := ready(p); err != nil {
		t.Errorf("with everything back: %v", err)
	}
	for _, table := range []string{"zone_txn", "zone_bucket_lock", "zone_attempt"} {
		if n := d.Count(t, "SELECT COUNT(*) FROM "+table); n != 0 {
			t.Errorf("the probe has left %d rows in %s", n, table)
		}
	}
}

func TestPortableProbeNamesRightTheAccountLacks(t *testing.T) {
	t.Parallel()
	d := enginetest.Portable(t)
	for lacking, rights := range map[string][]string{
		"the right SELECT on table zone_master": {"SELECT ON zone_txn"},
		"the right DELETE on table zone_attempt": {
			"SELECT ON *", "INSERT, UPDATE ON zone_txn", "INSERT, UPDATE ON zone_bucket_lock", "INSERT ON zone_attempt",
		},
		"the right INSERT on table zone_txn": {
			"SELECT ON *", "UPDATE ON zone_txn", "INSERT, UPDATE ON zone_bucket_lock", "INSERT, DELETE ON zone_attempt",
		},
	} {
		wantUnready(t, lacking, ready(probe(t, d.Account(t, rights...).DSN, engine.TiDB)), lacking)
	}
	all := strings.Split(
		"SELECT ON *;INSERT, UPDATE ON zone_txn;INSERT, UPDATE ON zone_bucket_lock;INSERT, DELETE ON zone_attempt", ";")
	if err := ready(probe(t, d.Account(t, all...).DSN, engine.TiDB)); err != nil {
		t.Errorf("with all rights of a decision: %v", err)
	}
}
