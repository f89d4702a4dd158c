package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/migrations/roles"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/tools/enginetest"
)

func callerOf(name string) access.Caller {
	return access.Caller{Name: name, Scopes: []access.Scope{access.ScopeCheck, access.ScopeReport}}
}

// add keeps a new token of a caller.
func add(t *testing.T, s *Store, c access.Caller) access.Credential {
	t.Helper()
	made, err := s.Records.AddCredential(t.Context(), access.NewTokenCredential(access.NewToken(), c), "dba@host")
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// live returns the ids of the credentials that hold.
func live(t *testing.T, s *Store) []uint64 {
	t.Helper()
	list, _, err := s.Records.LiveCredentials(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ids := []uint64{}
	for _, c := range list {
		ids = append(ids, c.ID)
	}
	return ids
}

func TestCredentialsComeBackAsTheyWereMade(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		_, store := f.stand(t, session.Options{})
		many := access.Caller{Name: "many", Scopes: []access.Scope{access.ScopeCheck, access.ScopeReport, access.ScopeAdmin}}
		for zone := range int64(access.MaxBoundZones) {
			many.Zones = append(many.Zones, service.MaxZoneID-zone)
		}
		expiring := access.NewTokenCredential(access.NewToken(), callerOf("Till.2030"))
		expiring.ExpiresAt.Time = time.Date(2030, 1, 2, 3, 4, 5, 678_000, time.UTC)
		for _, wanted := range []access.Credential{
			access.NewTokenCredential(access.NewToken(), callerOf("plain")),
			access.NewTokenCredential(access.NewToken(), many),
			expiring,
			access.NewCertificateCredential(`CN=Zoë\, auth-1+SERIALNUMBER=7,O=Example 🔑`, callerOf("by-certificate")),
		} {
			made, err := store.Records.AddCredential(t.Context(), wanted, "dba@host")
			if err != nil {
				t.Fatal(err)
			}
			list, at, err := store.Records.LiveCredentials(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := list[len(list)-1]
			if fmt.Sprint(got) != fmt.Sprint(made) {
				t.Errorf("made %+v, and read %+v", made, got)
			}
			if got.ID == 0 || got.CreatedBy != "dba@host" || got.CreatedAt.After(at) || at.Sub(got.CreatedAt.Time) > time.Hour ||
				!got.LastUsedAt.IsZero() || !got.RevokedAt.IsZero() {
				t.Errorf("%s: made at %s by %s, read at %s: %+v", got.Name, got.CreatedAt.Time, got.CreatedBy, at, got)
			}
			wanted.ID, wanted.CreatedAt, wanted.CreatedBy = got.ID, got.CreatedAt, got.CreatedBy
			if fmt.Sprint(got) != fmt.Sprint(wanted) {
				t.Errorf("wanted %+v, got %+v", wanted, got)
			}
		}
	})
}

func TestCredentialsEndByExpiryAndRevocation(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{})
		kept, revoked, expired := add(t, store, callerOf("kept")), add(t, store, callerOf("revoked")),
			add(t, store, callerOf("expired"))
		if got := live(t, store); !slices.Equal(got, []uint64{kept.ID, revoked.ID, expired.ID}) {
			t.Errorf("live are %v", got)
		}
		enginetest.Exec(t, d.SQL, "UPDATE access_token SET expires_at = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE id <> ?",
			expired.ID)
		enginetest.Exec(t, d.SQL, "UPDATE access_token SET expires_at = UTC_TIMESTAMP(6) WHERE id = ?", expired.ID)
		ended, err := store.Records.RevokeCredential(t.Context(), revoked.ID, "other@host")
		if err != nil || ended.RevokedBy != "other@host" || ended.RevokedAt.Before(ended.CreatedAt.Time) {
			t.Errorf("revoked: %+v, %v", ended, err)
		}
		if got := live(t, store); !slices.Equal(got, []uint64{kept.ID}) {
			t.Errorf("live are %v, want %d alone", got, kept.ID)
		}
		if _, err := store.Records.RevokeCredential(t.Context(), revoked.ID, "third@host"); !errors.Is(
			err, service.ErrConflict) {
			t.Errorf("revoked again: %v", err)
		}
		if _, err := store.Records.RevokeCredential(t.Context(), 99, "third@host"); !errors.Is(err, service.ErrNotFound) {
			t.Errorf("revoked a missing credential: %v", err)
		}
		all, _, err := store.Records.Credentials(t.Context())
		if err != nil || len(all) != 3 || all[1].RevokedBy != "other@host" {
			t.Errorf("all are %+v, %v: rows are never deleted, nor the first revocation", all, err)
		}
	})
}

// TestTheMostLiveCredentialsHoldInARace adds six at once, of one name and where there is room for one more.
func TestTheMostLiveCredentialsHoldInARace(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{MaxConns: 32, LockWait: 20 * time.Second})
		race := func(want int, names string) {
			t.Helper()
			var made atomic.Int64
			atOnce(6, func(i int) {
				name := strings.ReplaceAll(names, "%", strconv.Itoa(i))
				_, err := store.Records.AddCredential(t.Context(), access.NewTokenCredential(access.NewToken(), callerOf(name)),
					"dba")
				if err == nil {
					made.Add(1)
				} else if !errors.Is(err, service.ErrConflict) {
					t.Error(err)
				}
			})
			if made.Load() != int64(want) {
				t.Errorf("of six named %s at once %d were made, want %d", names, made.Load(), want)
			}
		}
		race(access.MaxLiveOfName, "shop")
		add(t, store, callerOf("Shop")) // another name
		enginetest.Exec(t, d.SQL, "UPDATE access_token SET expires_at = UTC_TIMESTAMP(6) WHERE name = 'shop' LIMIT 1")
		add(t, store, callerOf("shop"))
		if _, err := store.Records.RevokeCredential(t.Context(), live(t, store)[0], "dba"); err != nil {
			t.Fatal(err)
		}
		add(t, store, callerOf("shop"))
		rows := make([]string, access.MaxLiveCredentials-1-len(live(t, store)))
		for i := range rows {
			rows[i] = fmt.Sprintf("('token', 'n%d', RPAD('%d', 32, 'x'), 'vel_', 'check', 'dba', UTC_TIMESTAMP(6))", i, i)
		}
		enginetest.Exec(
			t, d.SQL, "INSERT INTO access_token (kind, name, digest, shown, scopes, created_by, created_at) VALUES "+
				strings.Join(rows, ","))
		race(1, "late%")
		if n := len(live(t, store)); n != access.MaxLiveCredentials {
			t.Errorf("%d are live", n)
		}
	})
}

func TestServiceAccountWritesUseOnceAMinute(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, owner := stand(t, engine, session.Options{})
		token := add(t, owner, callerOf("shop"))
		store := connect(t, d.ServiceAccount(t), session.Options{})
		used := func() time.Time {
			t.Helper()
			if err := store.Records.UseCredential(t.Context(), token.ID); err != nil {
				t.Fatal(err)
			}
			list, _, err := store.Records.LiveCredentials(t.Context())
			if err != nil || len(list) != 1 {
				t.Fatal(list, err)
			}
			return list[0].LastUsedAt.Time
		}
		first := used()
		if first.IsZero() || !used().Equal(first) {
			t.Error("a use is not recorded, or two in a minute are")
		}
		enginetest.Exec(t, d.SQL, "UPDATE access_token SET last_used_at = last_used_at - INTERVAL 1 MINUTE")
		if again := used(); !again.After(first.Add(-time.Minute)) {
			t.Errorf("a use a minute later is recorded at %s, after %s", again, first)
		}
		if _, err := store.Records.AddCredential(
			t.Context(), access.NewTokenCredential(access.NewToken(), callerOf("mallory")), "x"); !errors.Is(err,
			service.ErrForbidden) {
			t.Errorf("the service's account makes a token: %v", err)
		}
		if _, err := store.Records.RevokeCredential(t.Context(), token.ID, "x"); !errors.Is(err, service.ErrForbidden) {
			t.Errorf("the service's account revokes a token: %v", err)
		}
		for _, statement := range []string{
			"UPDATE access_token SET scopes = 'admin'", "UPDATE access_token SET revoked_at = NULL, revoked_by = NULL",
			"DELETE FROM access_token", "UPDATE access_token SET expires_at = NULL, last_used_at = NULL",
		} {
			if _, err := store.lookUps.Conns.ExecContext(t.Context(), statement); !session.IsOneOf(err, session.LackingRight()) {
				t.Errorf("%s: %v, want refused", statement, err)
			}
		}
	})
}

func TestZoneEditorMayRevokeButNeverRestoreToken(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, owner := f.stand(t, session.Options{})
		first, second := add(t, owner, callerOf("shop")), add(t, owner, callerOf("app"))
		as := d.RoleAccount(t, roles.Editor)
		store := f.connect(t, as, session.Options{})
		if ended, err := store.Records.RevokeCredential(t.Context(), first.ID, "ann via helpdesk"); err != nil ||
			ended.RevokedBy != "ann via helpdesk" {
			t.Errorf("revoked: %+v, %v", ended, err)
		}
		if ended, err := store.Records.RevokeCredential(t.Context(), second.ID, ""); err != nil ||
			!strings.Contains(ended.RevokedBy, "@") {
			t.Errorf("revoked without a principal: %+v, %v", ended, err)
		}
		for l, want := range map[access.Listing][]uint64{
			{Limit: 9}: {first.ID, second.ID}, {Limit: 1}: {first.ID}, {After: first.ID, Limit: 9}: {second.ID},
			{Limit: 9, OnlyLive: true}: {},
		} {
			page, at, err := store.Records.ListCredentials(t.Context(), l)
			ids := []uint64{}
			for _, c := range page {
				ids = append(ids, c.ID)
			}
			if err != nil || !slices.Equal(ids, want) || (len(want) > 0) == at.IsZero() {
				t.Errorf("%+v: %v at %s, %v; want %v", l, ids, at, err, want)
			}
		}
		if d.Count(
			t,
			"SELECT COUNT(*) FROM zone_audit WHERE subject = 'token' AND action = 'update' AND principal = 'ann via helpdesk'") != 1 {
			t.Error("the audit does not name the principal of the revocation")
		}
		if !store.database.Engine().HasRoutines() {
			return
		}
		for statement, wanted := range map[string]string{
			"UPDATE access_token SET revoked_at = NULL, revoked_by = NULL": "must stay so",
			"UPDATE access_token SET revoked_by = 'x'":                     "must stay so",
			"UPDATE access_token SET scopes = 'admin'":                     "denied", "DELETE FROM access_token": "denied",
		} {
			if _, err := as.SQL.ExecContext(t.Context(), statement); err == nil || !strings.Contains(err.Error(), wanted) {
				t.Errorf("%s: %v, want that it %s", statement, err, wanted)
			}
		}
	})
}

func TestInstanceRequiringTokensNeedsCredentialsTable(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t)
		probe := probe(t, d.ServiceAccount(t).DSN)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := probe.ReadyForCredentials(ctx); err != nil {
			t.Error(err)
		}
		enginetest.Exec(t, d.SQL, "RENAME TABLE access_token TO access_away")
		var unready *UnreadyError
		if err := probe.ReadyForCredentials(ctx); !errors.As(err, &unready) ||
			!strings.Contains(err.Error(), "table access_token is missing") {
			t.Errorf("without the table: %v", err)
		}
		enginetest.Exec(t, d.SQL, "RENAME TABLE access_away TO access_token")
		if err := probe.ReadyForCredentials(ctx); err != nil {
			t.Errorf("with the table again: %v", err)
		}
	})
}

func TestSchemaRefusesCredentialsThatMeanNothing(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t)
		conn, err := d.SQL.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, mode := range []string{"STRICT_ALL_TABLES", ""} {
			enginetest.Exec(t, conn, "SET SESSION sql_mode = '"+mode+"'")
			const into = "INSERT INTO access_token (digest, created_by, kind, name, shown, subject, scopes, zones, " +
				"expires_at, revoked_at, revoked_by) VALUES (REPEAT('x', 32), 'dba', "
			enginetest.Exec(
				t, conn, into+"'token', 'a-b._@9', 'vel_abcd', NULL, 'check,admin', '1,22,2147483647', NULL, NULL, NULL)")
			for name, row := range map[string]string{
				"no kind":                    "'', 'a', 'vel_', NULL, 'check', NULL, NULL, NULL, NULL",
				"token without start":        "'token', 'a', NULL, NULL, 'check', NULL, NULL, NULL, NULL",
				"token with subject":         "'token', 'a', 'vel_', 'CN=a', 'check', NULL, NULL, NULL, NULL",
				"no subject":                 "'certificate', 'a', NULL, NULL, 'check', NULL, NULL, NULL, NULL",
				"empty subject":              "'certificate', 'a', NULL, '', 'check', NULL, NULL, NULL, NULL",
				"certificate and start":      "'certificate', 'a', 'vel_', 'CN=a', 'check', NULL, NULL, NULL, NULL",
				"no name":                    "'token', '', 'vel_', NULL, 'check', NULL, NULL, NULL, NULL",
				"name a number":              "'token', '7', 'vel_', NULL, 'check', NULL, NULL, NULL, NULL",
				"name of two lines":          "'token', 'a\n', 'vel_', NULL, 'check', NULL, NULL, NULL, NULL",
				"no scope":                   "'token', 'a', 'vel_', NULL, '', NULL, NULL, NULL, NULL",
				"unknown scope":              "'token', 'a', 'vel_', NULL, 'root', NULL, NULL, NULL, NULL",
				"empty zones":                "'token', 'a', 'vel_', NULL, 'check', '', NULL, NULL, NULL",
				"zones with a space":         "'token', 'a', 'vel_', NULL, 'check', '1, 2', NULL, NULL, NULL",
				"zones in JSON":              "'token', 'a', 'vel_', NULL, 'check', '[1]', NULL, NULL, NULL",
				"zone 0":                     "'token', 'a', 'vel_', NULL, 'check', '0', NULL, NULL, NULL",
				"zones of two lines":         "'token', 'a', 'vel_', NULL, 'check', '1\n', NULL, NULL, NULL",
				"expiry":                     "'token', 'a', 'vel_', NULL, 'check', NULL, '2200-01-01', NULL, NULL",
				"revoked without an account": "'token', 'a', 'vel_', NULL, 'check', NULL, NULL, '2026-01-01', NULL",
				"revoked never":              "'token', 'a', 'vel_', NULL, 'check', NULL, NULL, NULL, 'dba'",
			} {
				if _, err := conn.ExecContext(t.Context(), into+row+")"); err == nil {
					t.Errorf("%q, %s: taken", mode, name)
				}
			}
		}
		d.WantCount(t, 2, "SELECT COUNT(*) FROM access_token")
	})
}

func TestTxnZonesAreThoseOfTheWholeCheck(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{}, zone(1, 100, time.Hour), zone(2, 100, time.Hour),
			zone(3, 100, time.Hour))
		at := func(zone int64, key string) service.Bucket { return service.Bucket{ZoneID: zone, Key: key} }
		d.LeaveUnaudited()
		checks := []service.Check{
			{Buckets: []service.Bucket{at(1, "a")}},
			{Buckets: []service.Bucket{at(1, "b"), at(2, "b"), at(1, "c")}},
			{Buckets: []service.Bucket{at(3, "d")}},
			{Buckets: []service.Bucket{at(2, "e"), at(3, "e")}},
		}
		decisions := decide(t, store, checks)
		wanted := map[uint64][]int64{}
		var ids []uint64
		for i, d := range decisions {
			for _, v := range d.Verdicts {
				ids = append(ids, v.TxnID)
				for _, b := range checks[i].Buckets {
					wanted[v.TxnID] = append(wanted[v.TxnID], b.ZoneID)
				}
			}
		}
		// Another check with the same check_id, at another time, has nothing to do with it.
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_txn (created_at, zone_id, bucket_key, blocked, would_block, counted, "+
			"check_id, check_buckets) SELECT '2020-01-01', 9, 'z', 0, 0, 0, check_id, check_buckets FROM (SELECT * FROM "+
			"zone_txn WHERE check_id IS NOT NULL LIMIT 1) AS t")
		got, err := store.History.TxnZones(t.Context(), append(ids, 999_999, 1<<63, 0))
		if err != nil {
			t.Fatal(err)
		}
		for id, zones := range got {
			slices.Sort(zones)
			slices.Sort(wanted[id])
			if !slices.Equal(slices.Compact(zones), slices.Compact(wanted[id])) {
				t.Errorf("txn %d has zones %v, want %v", id, zones, wanted[id])
			}
		}
		if len(got) != len(wanted) {
			t.Errorf("zones of %d txns, want of %d", len(got), len(wanted))
		}
		// Txns of a check that are far apart, as another writer may leave them.
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_txn (id, created_at, zone_id, bucket_key, blocked, would_block, "+
			"counted, check_id, check_buckets) VALUES (1000, '2020-01-01', 1, 'z', 0, 0, 0, 5, 2), (5000, '2020-01-01', 7, "+
			"'z', 0, 0, 0, 5, 2)")
		many := slices.Repeat([]uint64{1000}, 250)
		if got, err = store.History.TxnZones(t.Context(), many); err != nil || !slices.Contains(got[1000], 7) ||
			!slices.Contains(got[1000], 1) ||
			slices.Contains(got[1000], 9) {
			t.Errorf("txn 1000 has zones %v (%v), want 1 and 7", slices.Compact(got[1000]), err)
		}
	})
}
