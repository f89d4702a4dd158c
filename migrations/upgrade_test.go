package migrations_test

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"velocityd/db"
	dbsession "velocityd/db/session"
	"velocityd/migrations"
	"velocityd/service"
	"velocityd/service/audit"
	"velocityd/tools/enginetest"
)

// releasedSteps returns the files of the steps up to a released version that go up, in order, and the newest number.
func releasedSteps(t *testing.T, version string) (names []string, newest uint) {
	t.Helper()
	versions, steps := releases(t)
	for _, v := range versions[:slices.Index(versions, version)+1] {
		for name := range steps[v] {
			if strings.HasSuffix(name, ".up.sql") {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	if _, err := fmt.Sscanf(names[len(names)-1], "%06d", &newest); err != nil {
		t.Fatal(err)
	}
	return names, newest
}

// formerly makes the schema of a released version, with its very steps and routines, and returns its newest number.
func formerly(t *testing.T, d *enginetest.Database, version string) (newest uint) {
	t.Helper()
	names, newest := releasedSteps(t, version)
	texts := sqlFiles(t, ".")
	for _, name := range names {
		if !isMarker(texts[name]) {
			carryOut(t, d, texts[name])
		}
	}
	for _, f := range routinesOf(t, version) {
		if f.title != "retired.txt" {
			carryOut(t, d, f.text)
		}
	}
	enginetest.Exec(t, d.SQL,
		"CREATE TABLE schema_migrations (version BIGINT NOT NULL PRIMARY KEY, dirty BOOLEAN NOT NULL)")
	enginetest.Exec(t, d.SQL, "INSERT INTO schema_migrations (version, dirty) VALUES (?, FALSE)", newest)
	enginetest.Exec(t, d.SQL, "CALL retain_task('partitions_ahead', '')")
	return newest
}

// fill carries out testdata/fill.sql in one session.
func fill(t *testing.T, d *enginetest.Database) {
	t.Helper()
	script, err := os.ReadFile(filepath.Join("testdata", "fill.sql"))
	if err != nil {
		t.Fatal(err)
	}
	conn := session(t, d, "STRICT_ALL_TABLES")
	for statement := range strings.SplitSeq(strings.TrimSpace(string(script)), ";\n") {
		enginetest.Exec(t, conn, strings.TrimSuffix(statement, ";"))
	}
}

// columnsOf returns the columns of each table.
func columnsOf(t *testing.T, d *enginetest.Database) map[string][]string {
	t.Helper()
	found, err := enginetest.Texts(d.SQL, "SELECT c.table_name, c.column_name FROM information_schema.columns AS c "+
		"JOIN information_schema.tables USING (table_schema, table_name) WHERE table_schema = DATABASE() AND "+
		"table_type = 'BASE TABLE' AND table_name <> 'schema_migrations' ORDER BY table_name, ordinal_position")
	if err != nil {
		t.Fatal(err)
	}
	columns := map[string][]string{}
	for _, row := range found {
		columns[row[0]] = append(columns[row[0]], migrations.QuoteName(row[1]))
	}
	return columns
}

// content returns the rows of each table in these columns.
func content(t *testing.T, d *enginetest.Database, columns map[string][]string) map[string][]string {
	t.Helper()
	tables := map[string][]string{}
	for table, names := range columns {
		tables[table] = rows(t, d, "SELECT "+strings.Join(names, ", ")+" FROM "+table)
		slices.Sort(tables[table])
	}
	return tables
}

// wantContent compares the rows of all tables, in these columns, with those of before.
func wantContent(t *testing.T, d *enginetest.Database, columns, want map[string][]string) {
	t.Helper()
	for table, rows := range content(t, d, columns) {
		if !slices.Equal(rows, want[table]) {
			t.Errorf("%s has come to hold\n\t%s\nin place of\n\t%s", table, strings.Join(rows, "\n\t"),
				strings.Join(want[table], "\n\t"))
		}
	}
}

// outlooks tells what the next attempt in each bucket would meet, but for the instant.
func outlooks(t *testing.T, d *enginetest.Database) (list []string) {
	t.Helper()
	buckets, err := enginetest.Texts(d.SQL,
		"SELECT zone_id, bucket_key FROM zone_bucket_lock ORDER BY zone_id, bucket_key")
	if err != nil {
		t.Fatal(err)
	}
	for _, bucket := range buckets {
		answer := rows(t, d, "CALL peek_velocity(?, ?)", bucket[0], bucket[1])
		for _, part := range strings.Split(answer[0], " | ") {
			name, _, _ := strings.Cut(part, "=")
			if !slices.Contains([]string{"retry_after", "checked_at", "reset_after"}, name) {
				list = append(list, strings.Join(bucket, " ")+": "+part)
			}
		}
	}
	return list
}

// eachRelease runs a test in a database of each released version that steps follow, on each engine.
func eachRelease(t *testing.T, test func(t *testing.T, d *enginetest.Database, version string, newest uint)) {
	t.Helper()
	versions, _ := releases(t)
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		for i, version := range versions {
			d := engine.Empty(t)
			newest := formerly(t, d, version)
			if newest < migrations.Latest() {
				test(t, d, version, newest)
			} else if i == 0 {
				t.Errorf("no step follows %s", version)
			}
		}
	})
}

func TestReleasedDatabaseIsUpgradedWithItsRows(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, d *enginetest.Database, version string, newest uint) {
		fill(t, d)
		columns := columnsOf(t, d)
		before, expected := content(t, d, columns), outlooks(t, d)
		for table, rows := range before {
			if len(rows) == 0 {
				t.Errorf("%s has no row: fill.sql must have one for each table of each release", table)
			}
		}
		want := func(when string) {
			t.Helper()
			wantContent(t, d, columns, before)
			if got := outlooks(t, d); !slices.Equal(got, expected) {
				t.Errorf("%s: buckets look like\n\t%s\nin place of\n\t%s", when, strings.Join(got, "\n\t"),
					strings.Join(expected, "\n\t"))
			}
		}
		wantUp := func(from uint) {
			t.Helper()
			done, err := migrations.Up(t.Context(), migrations.MySQL, d.DSN)
			if err != nil || done.From != from || done.To != migrations.Latest() || len(done.Ungranted) > 0 {
				t.Fatalf("%s was upgraded with %+v, %v", version, done, err)
			}
			if state, err := migrations.Status(t.Context(), migrations.MySQL, d.DSN); err != nil || !state.IsCurrent() {
				t.Errorf("afterwards the schema is %+v, %v", state, err)
			}
			if faults := described(t, d, d).Faults(); len(faults) > 0 {
				t.Errorf("afterwards doctor finds %q", faults)
			}
		}
		wantUp(newest)
		want("after the way up")
		if done, err := migrations.Up(t.Context(), migrations.MySQL, d.DSN); err != nil || done.From != done.To ||
			len(done.Routines) > 0 {
			t.Errorf("a second migrate up did %+v, %v", done, err)
		}
		wantContent(t, d, columns, before)
		wantKeysOfChanges(t, d)

		// Down drops the views, which the former program's own migrate up makes again.
		down(t, d, int(migrations.Latest()-newest))
		for _, f := range routinesOf(t, version) {
			if strings.HasPrefix(f.title, "views/") {
				carryOut(t, d, f.text)
			}
		}
		if got := columnsOf(t, d); !maps.EqualFunc(got, columns, slices.Equal) {
			t.Errorf("after the way down the tables are %q, want %q", got, columns)
		}
		want("after the way down")
		wantUp(newest)
		want("after the second way up")
		wantLimitsKept(t, d)
	})
}

// wantKeysOfChanges compares the keys of zone_audit with those that the program reads out of the states.
func wantKeysOfChanges(t *testing.T, d *enginetest.Database) {
	t.Helper()
	changes, err := enginetest.Texts(d.SQL,
		"SELECT COALESCE(bucket_key, ''), COALESCE(state_before, ''), COALESCE(state_after, ''), subject, action "+
			"FROM zone_audit")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]int{}
	for _, c := range changes {
		entry := audit.Entry{Before: []byte(c[1]), After: []byte(c[2])}
		if entry.Key() != c[0] {
			t.Errorf("the %s of %s is of %q, and its column says %q", c[4], c[3], entry.Key(), c[0])
		}
		keys[c[0]]++
	}
	if keys["olga"] != 2 || keys["gone"] != 2 || keys["hank"] != 1 || keys["null"] != 1 {
		t.Errorf("the changes are of %v", keys)
	}
}

// wantLimitsKept asks for buckets of fill.sql through the service of now and by SQL.
func wantLimitsKept(t *testing.T, d *enginetest.Database) {
	t.Helper()
	store, err := db.Open(dbsession.Options{DSN: d.DSN})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, c := range []struct {
		zone   int64
		key    string
		reason service.Reason // empty: there is room
	}{
		{1, "alice", service.ReasonFull},
		{1, "carl", ""},
		{3, "erin", service.ReasonFull},
		{3, "fred", ""},
		{4, "greg", service.ReasonLocked},
		{4, "hank", ""},
		{7, "kate", service.ReasonFull},
		{8, "luke", service.ReasonConcurrent},
		{2, "198.51.100.8", service.ReasonDenied},
	} {
		bucket := service.Bucket{ZoneID: c.zone, Key: c.key}
		check := service.Check{Buckets: []service.Bucket{bucket}}
		decisions, err := store.CheckAll(t.Context(), service.Call{Checks: []service.Check{check}})
		if err != nil {
			t.Fatal(err)
		}
		if got := decisions[0].Verdicts[0]; got.Reason != c.reason || got.Blocked != (c.reason != "") {
			t.Errorf("zone %d: %q is answered with %+v, want %q", c.zone, c.key, got, c.reason)
		}
	}
	answer := strings.Join(rows(t, d, "CALL check_velocity(1, 'carl')"), "")
	if !strings.Contains(answer, "blocked=0") || !strings.Contains(answer, "velocity=3") {
		t.Errorf("the third attempt of carl is answered with %s", answer)
	}
	if answer := strings.Join(rows(t, d, "CALL check_velocity(1, 'carl')"), ""); !strings.Contains(answer, "reason=full") {
		t.Errorf("the fourth attempt of carl is answered with %s", answer)
	}
}

// The callers are those of before: they call procedures and change rows in the form of the former schema.
func TestFormerCallersAreServedWhileTheirDatabaseIsUpgraded(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, d *enginetest.Database, _ string, _ uint) {
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_master (id, rate, `window`) VALUES (1, 3, 86400)")
		enough, stop, allowed := make(chan struct{}), make(chan struct{}), make(chan int)
		go func() {
			sum := 0
			for n := 0; ; n++ {
				if n == 20 {
					close(enough)
				}
				select {
				case <-stop:
					allowed <- sum
					return
				default:
					sum += serveOnce(t, d, fmt.Sprint("user ", n/4))
				}
			}
		}()
		<-enough
		_, err := migrations.Up(t.Context(), migrations.MySQL, d.DSN)
		close(stop)
		sum := <-allowed
		if err != nil {
			t.Fatal(err)
		}
		d.WantCount(t, sum, "SELECT COUNT(*) FROM zone_txn WHERE NOT blocked AND counted")
		d.WantCount(t, 0, "SELECT COUNT(*) FROM (SELECT bucket_key FROM zone_txn WHERE counted GROUP BY bucket_key "+
			"HAVING COUNT(*) > 3) AS beyond")
		wantStatus(t, d, migrations.Latest(), false)
	})
}

// serveOnce makes a check, after which 1 says that it was allowed, and an override, as the former program does.
func serveOnce(t *testing.T, d *enginetest.Database, key string) (allowed int) {
	t.Helper()
	var isBlocked bool
	var rest [13]sql.RawBytes
	into := []any{&isBlocked}
	for i := range rest {
		into = append(into, &rest[i])
	}
	answer, err := d.SQL.Query("CALL check_velocity(1, ?)", key)
	if err == nil {
		defer answer.Close()
		if answer.Next() {
			err = answer.Scan(into...)
		}
		err = errors.Join(err, answer.Err())
	}
	if isReplaced(err) {
		return 0
	}
	if err != nil {
		t.Errorf("a check meanwhile: %v", err)
		return 0
	}
	_, err = d.SQL.Exec("INSERT INTO zone_override (zone_id, bucket_key, action) VALUES (1, UUID(), 'allow')")
	if err != nil && !isReplaced(err) {
		t.Errorf("an override meanwhile: %v", err)
	}
	if isBlocked {
		return 0
	}
	return 1
}

// isReplaced says that a procedure was being replaced, which MySQL does in two statements: callers ask again.
func isReplaced(err error) bool {
	failed, is := errors.AsType[*mysql.MySQLError](err)
	return is && failed.Number == 1305
}

// Vitess and TiDB carry out the same steps. The tables of before are those of the released steps.
func TestPortableReleaseIsUpgradedWithItsRows(t *testing.T) {
	t.Parallel()
	versions, _ := releases(t)
	for _, version := range versions {
		d := enginetest.EmptyPortable(t)
		names, newest := releasedSteps(t, version)
		texts := sqlFiles(t, ".")
		for _, name := range names {
			if !isMarker(texts[name]) {
				carryOut(t, d, migrations.Own(migrations.TiDB, texts[name]))
			}
		}
		enginetest.Exec(t, d.SQL, sqlFiles(t, "portable")["portable/schema_migrations.sql"])
		enginetest.Exec(t, d.SQL, "INSERT INTO schema_migrations (version, dirty) VALUES (?, FALSE)", newest)
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_audit "+
			"(changed_at, changed_by, subject, action, zone_id, state_before, state_after) "+
			`VALUES ('2026-11-29', 'x', 'bucket', 'release', 1, NULL, '{"bucket_key": "hank"}'), `+
			`('2026-11-29', 'x', 'override', 'delete', 1, '{"bucket_key": "gone"}', NULL), `+
			`('2026-11-29', 'x', 'override', 'update', 1, '{"bucket_key": "olga"}', '{"bucket_key": null}'), `+
			`('2026-11-29', 'x', 'override', 'insert', 1, NULL, '{"bucket_key": "olga"}'), `+
			`('2026-11-29', 'x', 'override', 'delete', 1, '{"bucket_key": "gone"}', NULL), `+
			`('2026-11-29', 'x', 'override', 'insert', 1, NULL, '{"bucket_key": "null"}'), `+
			`('2026-11-29', 'x', 'override', 'insert', 2, NULL, '{"bucket_key": null, "prefix": "10.0.0.0/8"}'), `+
			`('2026-11-29', 'x', 'history', 'export', 1, NULL, '{"bucket_key": ["alice"]}')`)
		columns := columnsOf(t, d)
		before := content(t, d, columns)
		done, err := migrations.Up(t.Context(), migrations.TiDB, d.DSN)
		if err != nil || done.From != newest || done.To != migrations.Latest() {
			t.Fatalf("%s was upgraded with %+v, %v", version, done, err)
		}
		wantContent(t, d, columns, before)
		wantKeysOfChanges(t, d)
		if done, err := migrations.Up(t.Context(), migrations.TiDB, d.DSN); err != nil || len(done.Actions) != 0 {
			t.Errorf("a second migrate up did %+v, %v", done, err)
		}
	}
}
