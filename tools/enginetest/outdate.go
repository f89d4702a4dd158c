package enginetest

import (
	"slices"
	"strings"
	"testing"
)

// Outdate gives the named procedures, functions, triggers and views, or all, another text that does the
// same, as another program would have installed them.
func (d *Database) Outdate(tb testing.TB, names ...string) {
	tb.Helper()
	conn, err := d.SQL.Conn(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close()
	for _, r := range d.routines(tb) {
		if len(names) > 0 && !slices.Contains(names, r.name) {
			continue
		}
		switch r.kind {
		case "VIEW":
			Exec(tb, conn, "CREATE OR REPLACE SQL SECURITY DEFINER VIEW "+r.name+" AS SELECT * FROM ("+r.text+") AS former")
		case "TRIGGER":
			// No edit goes by in between.
			Exec(tb, conn, "LOCK TABLES "+r.table+" WRITE")
			Exec(tb, conn, "DROP TRIGGER "+r.name)
			Exec(tb, conn, "CREATE TRIGGER "+r.name+" "+r.event+" ON "+r.table+" FOR EACH ROW "+strings.Replace(r.text, "BEGIN",
				"BEGIN -- former\n", 1))
			Exec(tb, conn, "UNLOCK TABLES")
		default:
			Exec(tb, conn, "ALTER "+r.kind+" "+r.name+" COMMENT 'former'")
		}
	}
}

// installed is a procedure, function, trigger or view of a database.
type installed struct{ kind, name, table, event, text string }

func (d *Database) routines(tb testing.TB) []installed {
	tb.Helper()
	rows, err := d.SQL.Query(`
SELECT routine_type, routine_name, '', '', '' FROM information_schema.routines WHERE routine_schema = DATABASE()
 UNION ALL
SELECT 'TRIGGER', trigger_name, event_object_table, CONCAT(action_timing, ' ', event_manipulation), action_statement
  FROM information_schema.triggers WHERE trigger_schema = DATABASE()
 UNION ALL
SELECT 'VIEW', table_name, '', '', view_definition FROM information_schema.views WHERE table_schema = DATABASE()`)
	if err != nil {
		tb.Fatal(err)
	}
	defer rows.Close()
	var list []installed
	for rows.Next() {
		var r installed
		if err := rows.Scan(&r.kind, &r.name, &r.table, &r.event, &r.text); err != nil {
			tb.Fatal(err)
		}
		list = append(list, r)
	}
	if err := rows.Err(); err != nil {
		tb.Fatal(err)
	}
	return list
}
