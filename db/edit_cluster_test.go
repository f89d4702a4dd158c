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
	"velocityd/service"
	"velocityd/service/access"
)

func TestClusterEditsLeaveWhatTriggersLeave(t *testing.T) {
	t.Parallel()
	d, store := clusterStand(t)
	for seed := uint64(12); seed < 15; seed++ {
		editAlike(t, withTriggers(t), newEditor(t, d.SQL, store), seed, 200)
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
	dbtest.Exec(t, d.SQL, "UPDATE zone_master SET rate = 6 WHERE id = ?", lastEdited)
	if found := mine(); !slices.Equal(found, []records.Unaudited{{ZoneID: lastEdited}}) {
		t.Errorf("an edit beside the service: found %v", found)
	}
}

func TestClusterHoldsTheLimitsOfTokensInARace(t *testing.T) {
	t.Parallel()
	_, store := clusterStand(t)
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
	d, store := clusterStand(t)
	locking := zone(zoneID, 5, time.Minute)
	locking.Lockout = time.Minute
	put(t, store, locking, "")
	var rows []string
	keys := keysOfBothShards("census", 12)
	for _, key := range keys {
		rows = append(rows, fmt.Sprintf("(%d, '%s', '2026-01-01', '2199-01-01', 1)", zoneID, key))
	}
	dbtest.Exec(t, d.SQL, "INSERT INTO zone_lockout (zone_id, bucket_key, locked_at, locked_until, txn_id) VALUES "+strings.Join(rows, ",")+
		" ON DUPLICATE KEY UPDATE locked_until = VALUES(locked_until)")
	if _, err := store.Records.AddOverride(t.Context(), service.Override{ZoneID: zoneID, Key: fmt.Sprint(time.Now().UnixNano()), Action: service.OverrideDeny},
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
