package db

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/db/records"
	"velocityd/db/session"
	"velocityd/migrations/roles"
	"velocityd/service"
	"velocityd/service/audit"
	"velocityd/tools/enginetest"
	"velocityd/tools/servicetest"
)

// TestAuditHasRowBeforeAndAfterEachChange reads it by the account of the service.
func TestAuditHasRowBeforeAndAfterEachChange(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, owner := f.stand(t, session.Options{})
		store := f.connect(t, d.RoleAccount(t, roles.Editor), session.Options{})
		ctx := t.Context()
		put(t, store, zone(1, 5, time.Minute), "ann")
		if _, err := store.Records.PutZone(service.WithReason(ctx, "too strict"), zone(1, 9, time.Minute), service.Match{},
			"ann via helpdesk"); err != nil {
			t.Fatal(err)
		}
		add(t, owner, callerOf("shop"))
		if err := store.Release(ctx, user("alice"), "bob", "called us"); err != nil {
			t.Fatal(err)
		}
		read := func(q audit.Query) (done []string, next uint64) {
			t.Helper()
			page, err := store.Records.AuditEntries(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Entries {
				done = append(done, e.Subject+" "+e.Action)
			}
			return done, page.Next
		}
		all := []string{"bucket release", "token insert", "zone update", "zone insert"}
		now, err := owner.Records.Now(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			query audit.Query
			want  []string
		}{
			"all":          {audit.Query{Limit: 9}, all},
			"of a zone":    {audit.Query{Zones: []int64{1}, Limit: 9}, []string{all[0], all[2], all[3]}},
			"of two zones": {audit.Query{Zones: []int64{1, 2}, Limit: 9}, []string{all[0], all[2], all[3]}},
			"by a person":  {audit.Query{By: "ann", Limit: 9}, all[2:]},
			"of tokens":    {audit.Query{Subjects: []string{"token"}, Limit: 9}, all[1:2]},
			"updates":      {audit.Query{Actions: []string{"update"}, Limit: 9}, all[2:3]},
			"so far":       {audit.Query{Since: now.Add(-time.Hour), Until: now.Add(time.Hour), Limit: 9}, all},
			"long ago":     {audit.Query{Until: now.Add(-time.Hour), Limit: 9}, nil},
			"later":        {audit.Query{Since: now.Add(time.Hour), Limit: 9}, nil},
		} {
			if got, next := read(c.query); !slices.Equal(got, c.want) || next != 0 {
				t.Errorf("%s: %q, and on from %d, want %q", name, got, next, c.want)
			}
		}
		var paged []string
		for q := (audit.Query{Limit: 1}); ; {
			got, next := read(q)
			if paged = append(paged, got...); next == 0 {
				break
			}
			q.Cursor = next
		}
		if !slices.Equal(paged, all) {
			t.Errorf("page by page: %q", paged)
		}
		f.holdsStates(ctx, t, store)
	})
}

// A page finds the changes of a key behind more of others than a page reads.
func TestChangesOfOneKeyAreOnePage(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d, store := f.stand(t, session.Options{}, zone(1, 5, time.Minute))
		o := service.Override{ZoneID: 1, Key: "ann ", Action: service.OverrideDeny}
		first, err := store.Records.AddOverride(t.Context(), o, "fail2ban")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 * audit.MaxScan / 100 {
			enginetest.Exec(t, d.SQL, "INSERT INTO zone_audit "+
				"(changed_at, changed_by, subject, action, zone_id, state_after) VALUES "+
				strings.Repeat(`(UTC_TIMESTAMP(6), 'x', 'override', 'insert', 1, '{"bucket_key": "bob"}'), `, 99)+
				`(UTC_TIMESTAMP(6), 'x', 'override', 'insert', 1, '{"bucket_key": "ann"}')`)
		}
		if err := store.Records.DeleteOverride(t.Context(), 1, first.ID, "ann"); err != nil {
			t.Fatal(err)
		}
		q := audit.Query{Zones: []int64{1}, Keys: []string{"ann ", "carl"}, Limit: 9}
		page, err := store.Records.AuditEntries(t.Context(), q)
		if err != nil || len(page.Entries) != 2 || page.Next != 0 || page.Entries[0].Action != "delete" ||
			page.Entries[1].Action != "insert" {
			t.Errorf("found %+v, %v", page, err)
		}
		// As many as a page reads are not the last ones.
		q.Keys, q.Limit = []string{"bob"}, audit.MaxPage
		page, err = store.Records.AuditEntries(t.Context(), q)
		if err != nil || len(page.Entries) != audit.MaxScan || page.Next == 0 {
			t.Errorf("found %d changes, next %d, %v", len(page.Entries), page.Next, err)
		}
	})
}

// holdsStates compares the update of the zone with the one that was made.
func (f form) holdsStates(ctx context.Context, t *testing.T, store *Store) {
	t.Helper()
	page, err := store.Records.AuditEntries(ctx, audit.Query{Actions: []string{"update"}, Limit: 1})
	if err != nil || len(page.Entries) != 1 {
		t.Fatal(page, err)
	}
	e := page.Entries[0]
	var before, after struct{ Rate int }
	if json.Unmarshal(e.Before, &before) != nil || json.Unmarshal(e.After, &after) != nil || before.Rate != 5 ||
		after.Rate != 9 ||
		e.Principal != "ann via helpdesk" || e.Reason != "too strict" || e.Account == "" || e.ZoneID != 1 {
		t.Errorf("the update is %+v, from %s to %s", e, e.Before, e.After)
	}
}

func TestAnExportIsARowOfTheAudit(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d := f.database(t)
		store := f.connect(t, d, session.Options{})
		yes, none := true, service.Outcome("")
		full := service.HistoryQuery{
			Zones: []int64{7}, Keys: []string{"alice", `é"`}, Blocked: &yes, WouldBlock: &yes, Outcome: &none, AttemptID: "a",
			Since: time.Date(2026, 8, 24, 9, 15, 2, 123456000, time.UTC), Until: time.Date(2026, 8, 25, 0, 0, 0, 0, time.UTC),
			Cursor: 1<<63 + 1,
		}
		for _, export := range []service.Export{
			{Format: "csv", Query: full},
			{Format: "ndjson", Query: service.HistoryQuery{Zones: []int64{1, 2}}},
		} {
			if err := store.Records.NoteExport(context.Background(), export, "ann"); err != nil {
				t.Fatal(err)
			}
		}
		var rows []struct {
			Zone   int64  `db:"zone_id"`
			Filter string `db:"state_after"`
		}
		if err := store.lookUps.SelectContext(context.Background(), &rows, `
SELECT zone_id, state_after
  FROM zone_audit
 WHERE subject = 'history'
   AND action = 'export'
   AND principal = 'ann'
   AND changed_by <> ''
   AND changed_at > UTC_TIMESTAMP() - INTERVAL 1 HOUR
 ORDER BY id`); err != nil || len(rows) != 2 {
			t.Fatalf("recorded %+v, %v", rows, err)
		}
		for i, want := range []string{
			`{"format":"csv","zone_id":[7],"bucket_key":["alice","é\""],"blocked":true,"would_block":true,"outcome":"","attempt_id":"a",` +
				`"since":"2026-08-24T09:15:02.123456Z","until":"2026-08-25T00:00:00Z","cursor":"9223372036854775809"}`,
			`{"format":"ndjson","zone_id":[1,2]}`,
		} {
			var got, wanted any
			if err := json.Unmarshal([]byte(rows[i].Filter), &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(want), &wanted); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, wanted) || rows[i].Zone != []int64{7, 0}[i] {
				t.Errorf("zone %d: %s, want %s", rows[i].Zone, rows[i].Filter, want)
			}
		}
		if err := store.Records.NoteExport(context.Background(), service.Export{},
			strings.Repeat("x", service.MaxNameLength)); err != nil {
			t.Error(err)
		}
	})
}

func TestCompareAuditFindsWhatNoTriggerRecorded(t *testing.T) {
	t.Parallel()
	d, store := form{}.stand(t, session.Options{})
	var ids []uint64
	for id := range int64(4) {
		z := every(id + 1)
		z.Keys = service.KeyRule{}
		put(t, store, z, "ann")
		for _, key := range []string{"a", "b"} {
			o, err := store.Records.AddOverride(t.Context(), service.Override{
				ZoneID: id + 1, Key: key, Action: service.OverrideLimit, Window: service.Lasting(time.Minute),
				ExpiresAt: service.At(time.Now().Add(time.Hour)),
			}, "ann")
			if err != nil {
				t.Fatal(err)
			}
			o.Reason = "again"
			if _, err := store.Records.SetOverride(t.Context(), o, "bob"); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, o.ID)
		}
	}
	if err := store.Records.DeleteZone(t.Context(), 4, service.Match{}, "ann"); err != nil {
		t.Fatal(err)
	}
	// A release says nothing of zones and overrides.
	enginetest.Exec(t, d.SQL, "INSERT INTO zone_audit (changed_at, changed_by, subject, action, zone_id, state_after) "+
		"VALUES (UTC_TIMESTAMP(6), 'x', 'bucket', 'release', 1, '{}')")
	of := func(zoneID int64, overrideID uint64) records.Unaudited {
		return records.Unaudited{ZoneID: zoneID, OverrideID: overrideID}
	}
	want := func(list ...records.Unaudited) {
		t.Helper()
		got, err := store.Records.CompareAudit(t.Context())
		if err != nil || !got.Whole || !slices.Equal(got.Unaudited, list) {
			t.Errorf("got %+v, %v, want %v", got, err, list)
		}
	}
	want()
	enginetest.Exec(t, d.SQL, "UPDATE zone_master SET overridden = TRUE")
	want()
	for _, beside := range []string{
		"UPDATE zone_master SET lockout_factor = 1.26 WHERE id = 1",
		fmt.Sprint("UPDATE zone_override SET expires_at = expires_at + INTERVAL 1 MICROSECOND WHERE id = ", ids[0]),
		fmt.Sprint("DELETE FROM zone_override WHERE id = ", ids[2]),
		fmt.Sprint("UPDATE zone_override SET bucket_key = NULL, prefix = '10.0.0.0/8' WHERE id = ", ids[3]),
		"DELETE FROM zone_override WHERE zone_id = 3",
		"DELETE FROM zone_master WHERE id = 3",
		"INSERT INTO zone_master (id, rate, `window`) VALUES (4, 1, 1), (5, 1, 1)",
		"INSERT INTO zone_override (id, zone_id, bucket_key, action, created_at) VALUES (99, 5, 'x', 'deny', " +
			"UTC_TIMESTAMP(6))",
	} {
		enginetest.Exec(t, d.SQL, beside)
	}
	want(of(1, 0), of(1, ids[0]), of(2, ids[2]), of(2, ids[3]), of(3, 0), of(3, ids[4]), of(3, ids[5]),
		of(4, 0), of(5, 0), of(5, 99))
}

func TestCompareAuditFindsNothingWhereTriggersRecord(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d, store := stand(t, engine, session.Options{}, every(1), zone(2, 5, time.Minute), zone(3, 5, time.Minute))
		d.SetOverride(t, service.Override{
			ZoneID: 2, Key: "x", Action: service.OverrideDeny,
			ExpiresAt: service.At(time.Now().Add(time.Hour)),
		})
		enginetest.Exec(t, d.SQL, "UPDATE zone_master SET rate = rate + 1")
		enginetest.Exec(t, d.SQL, "DELETE FROM zone_master WHERE id = 3")
		if got, err := store.Records.CompareAudit(t.Context()); err != nil || !got.Whole || len(got.Unaudited) > 0 {
			t.Errorf("got %+v, %v", got, err)
		}
		if _, err := connect(t, d.Account(t, "SELECT ON zone_master", "SELECT ON zone_override"),
			session.Options{}).Records.CompareAudit(t.Context()); !errors.Is(err, service.ErrForbidden) {
			t.Errorf("without a right to zone_audit: %v", err)
		}
	})
}

func TestCompareAuditReadsTheNewestAndSaysSo(t *testing.T) {
	t.Parallel()
	d, store := form{}.stand(t, session.Options{}, zone(1, 5, time.Minute))
	put(t, store, zone(2, 5, time.Minute), "")
	const digit = "(SELECT 0 AS n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION " +
		"SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)"
	enginetest.Exec(t, d.SQL, "INSERT INTO zone_audit (changed_at, changed_by, subject, action, zone_id, state_after) "+
		"SELECT UTC_TIMESTAMP(6), 'x', 'bucket', 'release', 1, '{}' FROM "+
		digit+" AS a, "+digit+" AS b, "+digit+" AS c, "+digit+" AS d, (SELECT 1 UNION SELECT 2) AS e")
	enginetest.Exec(t, d.SQL, "UPDATE zone_master SET rate = rate + 1")
	put(t, store, zone(3, 5, time.Minute), "")
	enginetest.Exec(t, d.SQL, "UPDATE zone_master SET rate = rate + 1")
	// Zone 1 has no row in zone_audit, and that of zone 2 is not among the newest.
	got, err := store.Records.CompareAudit(t.Context())
	if err != nil || got.Whole || !slices.Equal(got.Unaudited, []records.Unaudited{{ZoneID: 3}}) {
		t.Errorf("got %+v, %v, want zone 3", got, err)
	}
}

func TestStoreKeepsTheContractOfTheAudit(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		servicetest.ExerciseAudit(t, func(t *testing.T) servicetest.AuditSubject {
			b := newBench(t, engine.Database(t))
			return struct {
				servicetest.Subject
				audit.Reader
			}{b, b.store.Records}
		})
	})
}
