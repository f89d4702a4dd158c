package enginetest

import (
	"context"
	"strings"
	"testing"
)

// FollowSessionClocks makes the procedures take the time that a session says it
// is (SET SESSION timestamp): the one way to meet an instant exactly. As they are
// shipped they put the session's clock right first.
func (d *Database) FollowSessionClocks(tb testing.TB) {
	tb.Helper()
	const setting = "SET timestamp = DEFAULT;"
	conn, err := d.SQL.Conn(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close()
	rows, err := conn.QueryContext(context.Background(), "SELECT routine_name FROM information_schema.routines "+
		"WHERE routine_schema = DATABASE() AND routine_definition LIKE '%"+setting+"%'")
	if err != nil {
		tb.Fatal(err)
	}
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			tb.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil || len(names) == 0 {
		tb.Fatalf("no procedure puts the session's clock right: %v", err)
	}
	for _, name := range names {
		var mode, text string
		var skip any
		if err := conn.QueryRowContext(context.Background(), "SHOW CREATE PROCEDURE "+name).
			Scan(&skip, &mode, &text, &skip, &skip, &skip); err != nil {
			tb.Fatal(err)
		}
		Exec(tb, conn, "DROP PROCEDURE "+name)
		Exec(tb, conn, "SET SESSION sql_mode = ?", mode)
		Exec(tb, conn, strings.ReplaceAll(text, setting, "DO 0;"))
	}
}
