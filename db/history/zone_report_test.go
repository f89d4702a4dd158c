package history

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/tools/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// TestReportReadsRangeOfPrimaryKey holds the plan that docs/analyst.md tells, by the rows that the engine reads.
func TestReportReadsRangeOfPrimaryKey(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t)
		begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		enginetest.Exec(t, d.SQL, `ALTER TABLE zone_txn PARTITION BY RANGE COLUMNS (created_at) (
PARTITION a VALUES LESS THAN ('2026-01-02'),
PARTITION b VALUES LESS THAN ('2026-01-03'), PARTITION c VALUES LESS THAN ('2026-01-04'),
PARTITION later VALUES LESS THAN (MAXVALUE))`)
		var values []string
		for n := range 4000 { // a thousand a day
			at := begin.Add(time.Duration(n) * 24 * time.Hour / 1000).Format(session.InstantFormat)
			values = append(values, fmt.Sprintf("(%d, '%s', 1, 'k%d', 0, 0, 1)", n+1, at, n))
		}
		enginetest.Exec(
			t, d.SQL, "INSERT INTO zone_txn (id, created_at, zone_id, bucket_key, blocked, would_block, counted) VALUES "+
				strings.Join(values, ", "))
		conn, err := d.SQL.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		read := func(name string) (n int) {
			t.Helper()
			if err := conn.QueryRowContext(t.Context(), "SHOW SESSION STATUS LIKE '"+name+"'").Scan(&name, &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		within := times{begin.AddDate(0, 0, 1), begin.AddDate(0, 0, 2)}
		before, keys, all := read("Handler_read_next"), read("Handler_read_key"), read("Handler_read_rnd_next")
		rows, err := conn.QueryContext(
			t.Context(), string(idIndex{zones: []int64{1}}.statement(1501, 1600, within, reportRows+1).Text))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for rows.Next() {
			found++
		}
		if err := rows.Err(); err != nil || found != 100 {
			t.Errorf("found %d txns, %v", found, err)
		}
		_ = rows.Close()
		// SHOW itself reads some rows of a temporary table. The end of the time touches a second partition.
		next, looked, scanned := read("Handler_read_next")-before, read("Handler_read_key")-keys,
			read("Handler_read_rnd_next")-all
		if next < 99 || next > 110 || looked > 10 || scanned > 3000 {
			t.Errorf("for 100 txns the engine went on %d times, after %d look-ups, and scanned %d rows", next, looked, scanned)
		}
	})
}
