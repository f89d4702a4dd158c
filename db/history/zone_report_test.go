package history

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// The days of fourDays begin here, and each has so many checks.
const checksADay = 1000

func daysBegin() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// fourDays returns a connection to a history of four partitions, a day each. Each check has a txn in zone 1 and one in
// zone 2.
func fourDays(t *testing.T, engine *enginetest.Engine) *sql.Conn {
	t.Helper()
	d := engine.Database(t)
	enginetest.Exec(t, d.SQL, `ALTER TABLE zone_txn PARTITION BY RANGE COLUMNS (created_at) (
PARTITION a VALUES LESS THAN ('2026-01-02'),
PARTITION b VALUES LESS THAN ('2026-01-03'), PARTITION c VALUES LESS THAN ('2026-01-04'),
PARTITION later VALUES LESS THAN (MAXVALUE))`)
	var values []string
	for n := range 4 * checksADay {
		at := daysBegin().Add(time.Duration(n) * 24 * time.Hour / checksADay).Format(session.InstantFormat)
		for zone := 1; zone <= 2; zone++ {
			values = append(values, fmt.Sprintf("(%d, '%s', %d, 'k%d', 0, 0, 1, %d, 2)", 2*n+zone, at, zone, n, 2*n+1))
		}
	}
	enginetest.Exec(t, d.SQL, "INSERT INTO zone_txn (id, created_at, zone_id, bucket_key, blocked, would_block, counted, "+
		"check_id, check_buckets) VALUES "+strings.Join(values, ", "))
	conn, err := d.SQL.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// reads is how many times an engine went on to the next row of an index, looked one up, and scanned.
type reads struct{ next, lookedUp, scanned int }

// readsOf returns the reads of a session until now.
func readsOf(t *testing.T, conn *sql.Conn) (r reads) {
	t.Helper()
	for name, n := range map[string]*int{
		"Handler_read_next": &r.next, "Handler_read_key": &r.lookedUp, "Handler_read_rnd_next": &r.scanned,
	} {
		if err := conn.QueryRowContext(t.Context(), "SHOW SESSION STATUS LIKE '"+name+"'").Scan(&name, n); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// wantReads runs a statement that must find some rows, by at most some reads. SHOW itself reads rows of a temporary
// table.
func wantReads(t *testing.T, conn *sql.Conn, statement *session.Packet, found int, most reads) {
	t.Helper()
	before := readsOf(t, conn)
	rows, err := conn.QueryContext(t.Context(), string(statement.Text))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for rows.Next() {
		n++
	}
	if err := rows.Err(); err != nil || n != found {
		t.Errorf("found %d txns, want %d, %v", n, found, err)
	}
	_ = rows.Close()
	after := readsOf(t, conn)
	got := reads{after.next - before.next, after.lookedUp - before.lookedUp, after.scanned - before.scanned}
	if got.next > most.next || got.lookedUp > most.lookedUp || got.scanned > most.scanned {
		t.Errorf("for %d txns the engine read %+v, want at most %+v", found, got, most)
	}
}

// TestReportReadsRangeOfPrimaryKey holds the plan that docs/analyst.md tells, by the rows that the engine reads.
func TestReportReadsRangeOfPrimaryKey(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		within := times{daysBegin().AddDate(0, 0, 1), daysBegin().AddDate(0, 0, 2)}
		// The end of the time touches a second partition.
		wantReads(t, fourDays(t, engine), idIndex{zones: []int64{1, 2}}.statement(2501, 2600, within, reportRows+1), 100,
			reads{next: 110, lookedUp: 10, scanned: 3000})
	})
}

// TestChecksReadFewRowsBesideTheirTxns holds the plan of a page of checks, however long the history is: each check
// costs the ids around it, and a look-up in each partition that has one of the page.
func TestChecksReadFewRowsBesideTheirTxns(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		const checks, span = 50, 16
		lacking := map[service.CheckKey]uint64{}
		for i := range checks {
			n := 37 + 71*i // far from each other, over all days
			at := daysBegin().Add(time.Duration(n) * 24 * time.Hour / checksADay)
			lacking[service.CheckKey{ID: uint64(2*n + 1), At: at.UnixMicro()}] = uint64(2*n + 1)
		}
		wantReads(t, fourDays(t, engine), near(lacking, span), 2*checks,
			reads{next: checks * (2*span + 2), lookedUp: 4 * checks, scanned: 3000})
	})
}
