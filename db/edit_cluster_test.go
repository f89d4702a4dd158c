//go:build cluster

package db

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/records"
	"velocityd/db/session"
	"velocityd/service"
	"velocityd/service/access"
)

// onCluster returns the store of the cluster.
func onCluster(t *testing.T) *Store {
	t.Helper()
	return connect(t, &dbtest.Database{DSN: clusterDSN(t)}, session.Options{LockWait: 10 * time.Second})
}

func TestClusterEditsLeaveWhatTriggersLeave(t *testing.T) {
	t.Parallel()
	pool, store := overCluster(t), onCluster(t)
	for seed := uint64(12); seed < 15; seed++ {
		editAlike(t, withTriggers(t), newEditor(t, pool, store), seed, 200)
	}
	// Beside the cluster's zones of other tests, which write by plain SQL.
	mine := func() (found []records.Unaudited) {
		t.Helper()
		compared, err := store.Records.CompareAudit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range compared.Unaudited {
			if u.ZoneID >= firstEdited && u.ZoneID <= lastEdited {
				found = append(found, u)
			}
		}
		return found
	}
	if found := mine(); found != nil {
		t.Errorf("zone_audit does not show %v", found)
	}
	put(t, store, zone(lastEdited, 5, time.Minute), "")
	dbtest.Exec(t, pool, "UPDATE zone_master SET rate = 6 WHERE id = ?", lastEdited)
	if found := mine(); !slices.Equal(found, []records.Unaudited{{ZoneID: lastEdited}}) {
		t.Errorf("an edit beside the service: found %v", found)
	}
}

func TestClusterHoldsTheLimitsOfTokensInARace(t *testing.T) {
	t.Parallel()
	store := onCluster(t)
	name := fmt.Sprint("racer", time.Now().UnixNano())
	made, refused := make(chan access.Credential, 6), make(chan error, 6)
	atOnce(cap(made), func(int) {
		c, err := store.Records.AddCredential(t.Context(), access.NewTokenCredential(access.NewToken(), callerOf(name)), "dba")
		if err != nil {
			refused <- err
			return
		}
		made <- c
	})
	close(made)
	close(refused)
	if len(made) != access.MaxLiveOfName {
		t.Errorf("of six at once %d were made", len(made))
	}
	for err := range refused {
		if !errors.Is(err, service.ErrConflict) {
			t.Error(err)
		}
	}
	for c := range made {
		if err := store.Records.UseCredential(t.Context(), c.ID); err != nil {
			t.Error(err)
		}
		if ended, err := store.Records.RevokeCredential(t.Context(), c.ID, "dba"); err != nil || ended.LastUsedAt.IsZero() {
			t.Errorf("revoked: %+v, %v", ended, err)
		}
	}
	now, err := store.Records.Now(t.Context())
	if err != nil || time.Since(now).Abs() > time.Minute {
		t.Errorf("the clock shows %s, %v", now, err)
	}
}

func TestClusterCensusCountsTheBucketsOfAllShards(t *testing.T) {
	t.Parallel()
	const zoneID = 3010
	pool, store := overCluster(t), onCluster(t)
	deleteRows(t, pool, "zone_bucket_lock WHERE zone_id = ?", zoneID) // of an earlier run
	locking := zone(zoneID, 5, time.Minute)
	locking.Lockout = time.Minute
	put(t, store, locking, "")
	var rows []string
	keys := keysOfBothShards(t, pool, "census", 12)
	for _, key := range keys {
		rows = append(rows, fmt.Sprintf("(%d, '%s', '2026-01-01', '2199-01-01', 1)", zoneID, key))
	}
	dbtest.Exec(t, pool, "INSERT INTO zone_lockout (zone_id, bucket_key, locked_at, locked_until, txn_id) VALUES "+strings.Join(rows, ",")+
		" ON DUPLICATE KEY UPDATE locked_until = VALUES(locked_until)")
	if _, err := store.Records.AddOverride(t.Context(), service.Override{ZoneID: zoneID, Key: name(t), Action: service.OverrideDeny},
		"ann"); err != nil {
		t.Fatal(err)
	}
	census, err := store.Records.Census(t.Context())
	at := slices.IndexFunc(census, func(c service.ZoneCensus) bool { return c.ZoneID == zoneID })
	if err != nil || at < 0 || census[at].Locked != len(keys) || census[at].Overrides[service.OverrideDeny] == 0 {
		t.Errorf("got %+v, %v", census, err)
	}
	if err := store.Records.DeleteZone(t.Context(), zoneID, service.Match{}, ""); err != nil {
		t.Error(err)
	}
}

// name is a key of this test alone.
func name(t *testing.T) string { return fmt.Sprint(t.Name(), time.Now().UnixNano()) }

func TestClusterEditsReachNoShard(t *testing.T) {
	t.Parallel()
	pool := overCluster(t)
	conn, err := pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, statement := range []string{
		"SELECT UTC_TIMESTAMP(6) FROM schema_migrations",
		"SELECT id, UTC_TIMESTAMP(6) AS read_at FROM access_token WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > " +
			"UTC_TIMESTAMP(6))",
		"SELECT id FROM zone_override WHERE zone_id = 3010 AND expires_at <= UTC_TIMESTAMP(6) FOR UPDATE",
		"SELECT id, lockout, UTC_TIMESTAMP(6) AS read_at FROM zone_master ORDER BY id",
	} {
		var plan string
		if err := conn.QueryRowContext(t.Context(), "VEXPLAIN PLAN "+statement).Scan(&plan); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		// The clock is read where the query is sent, and not by vtgate.
		if !strings.Contains(strings.ToLower(plan), "utc_timestamp(6)") || strings.Contains(plan, "_buckets") ||
			!strings.Contains(plan, "Unsharded") {
			t.Errorf("%s: the plan is %s", statement, plan)
		}
	}
}
