package session

import (
	"database/sql"
	"fmt"
	"regexp"
	"testing"
	"time"
	"unicode/utf8"

	"velocityd/tools/enginetest"
)

// FuzzParseInstant compares instants of a DATETIME(6) with those of the standard library: a text that is no instant
// must be an error and never another instant.
func FuzzParseInstant(f *testing.F) {
	for _, seed := range []string{
		"2026-03-04 05:06:07.000008", "1970-01-01 00:00:00.000000", "9999-12-31 23:59:59.999999",
		"0000-00-00 00:00:00.000000",
		"2026-02-29 00:00:00.000000", "2024-02-29 00:00:00.000000", "2026-01-01 24:00:00.000000",
		"2026-01-01 00:60:00.000000",
		"2026-01-01T00:00:00.000000", "2026-01-01 00:00:00.00000x", "2026-01-01 00:00:00", "-026-01-01 00:00:00.000000", "",
		"2026/01/01 00:00:00,000000", "\xff026-01-01 00:00:00.000000",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := parseInstant(text)
		want, wantErr := time.Parse(InstantFormat, string(text))
		if !regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}$`).Match(text) {
			wantErr = fmt.Errorf("not in the form of %s", InstantFormat) // time.Parse takes a comma, too
		}
		if (err != nil) != (wantErr != nil) || err == nil && !got.Equal(want) {
			t.Errorf("%q: got %v, %v, want %v, %v", text, got, err, want, wantErr)
		}
		if err == nil && string(new(Packet).Instant(got).Text) != "'"+string(text)+"'" {
			t.Errorf("%q is written as %s", text, new(Packet).Instant(got).Text)
		}
	})
}

// FuzzLiteralsMeanTheText asks each engine, in sessions of several sql_modes, what
// the literal of a text means. It must be the text, byte by byte, and one value.
func FuzzLiteralsMeanTheText(f *testing.F) {
	for _, seed := range []string{
		"", "alice", "it's", `back\slash`, `\'; DROP TABLE zone_txn; -- `, "a\x00b", "\n\r\t\x1a", `"quoted"`, "`tick`",
		"50%_", "jürgen",
		"\U0001F511", "e\u0301", "\ufeffbom", "2001:db8::/64", "203.0.113.9", "x ", " x", "?", "??", ":name", "@user",
		"/*!80000 1*/", "-- ", "#", "\u200b\u202e", "\x7f",
	} {
		f.Add(seed)
	}
	type client struct {
		name string
		conn *sql.Conn
	}
	var clients []client
	for _, engine := range enginetest.Engines(f) {
		d := engine.Empty(f)
		for _, mode := range []string{
			"", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "PIPES_AS_CONCAT,IGNORE_SPACE", "ANSI,NO_BACKSLASH_ESCAPES",
			"TRADITIONAL",
		} {
			conn, err := d.SQL.Conn(f.Context())
			if err != nil {
				f.Fatal(err)
			}
			enginetest.Exec(f, conn, "SET SESSION sql_mode = '"+mode+"'")
			clients = append(clients, client{engine.Name + " " + mode, conn})
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || len(text) > 4*255 {
			return // refused by service.Bucket.Validate
		}
		literal := string(new(Packet).Quote(text).Text)
		for _, c := range clients {
			var hex, charset string
			var one int
			err := c.conn.QueryRowContext(t.Context(), "SELECT HEX(l), CHARSET(l), 1 FROM (SELECT "+literal+
				" AS l) AS literal").Scan(&hex,
				&charset, &one)
			if want := fmt.Sprintf("%X", text); err != nil || hex != want || charset != "utf8mb4" || one != 1 {
				t.Errorf("%s: %q as %s means %s in %s, %v", c.name, text, literal, hex, charset, err)
			}
		}
	})
}
