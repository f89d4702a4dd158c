package db

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
)

func TestAnExportIsARowOfTheAudit(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, f form) {
		d := f.database(t)
		store := f.connect(t, d, session.Options{})
		yes, none := true, service.Outcome("")
		full := service.HistoryQuery{
			Zones: []int64{7}, Keys: []string{"alice", `é"`}, Blocked: &yes, WouldBlock: &yes, Outcome: &none, AttemptID: "a",
			Since: time.Date(2026, 8, 24, 9, 15, 2, 123456000, time.UTC), Until: time.Date(2026, 8, 25, 0, 0, 0, 0, time.UTC), Cursor: 1<<63 + 1,
		}
		for _, export := range []service.Export{{Format: "csv", Query: full}, {Format: "ndjson", Query: service.HistoryQuery{Zones: []int64{1, 2}}}} {
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
		if err := store.Records.NoteExport(context.Background(), service.Export{}, strings.Repeat("x", service.MaxNameLength)); err != nil {
			t.Error(err)
		}
	})
}
