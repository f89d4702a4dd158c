package db

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"velocityd/db/dbtest"
	"velocityd/service"
)

// FuzzParseInstant holds what is read of a DATETIME(6) against the standard
// library: what is no instant must be an error and never another instant.
func FuzzParseInstant(f *testing.F) {
	for _, seed := range []string{
		"2026-03-04 05:06:07.000008", "1970-01-01 00:00:00.000000", "9999-12-31 23:59:59.999999", "0000-00-00 00:00:00.000000",
		"2026-02-29 00:00:00.000000", "2024-02-29 00:00:00.000000", "2026-01-01 24:00:00.000000", "2026-01-01 00:60:00.000000",
		"2026-01-01T00:00:00.000000", "2026-01-01 00:00:00.00000x", "2026-01-01 00:00:00", "-026-01-01 00:00:00.000000", "",
		"2026/01/01 00:00:00,000000", "\xff026-01-01 00:00:00.000000",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := parseInstant(text)
		want, wantErr := time.Parse(instantFormat, string(text))
		if !regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}$`).Match(text) {
			wantErr = fmt.Errorf("not in the form of %s", instantFormat) // time.Parse takes a comma, too
		}
		if (err != nil) != (wantErr != nil) || err == nil && !got.Equal(want) {
			t.Errorf("%q: got %v, %v, want %v, %v", text, got, err, want, wantErr)
		}
		if err == nil && string(new(packet).instant(got).text) != "'"+string(text)+"'" {
			t.Errorf("%q is written as %s", text, new(packet).instant(got).text)
		}
	})
}

// FuzzParseAnswer reads what zone_attempt may hold. What is read must be what was
// written, in every member.
func FuzzParseAnswer(f *testing.F) {
	for _, seed := range []string{
		`[[1,"alice",0,1,7,5,60,1,4,0,"",0]]`, `[[1, "a\"b\\é\ud83d\udd11", 1, 1, 18446744073709551615, 5, 60, 5, 0, 58, "denied", 18446744073709551615], [2, "x", 0, 0, 8, 1, 1, 1, 0, 0, "elsewhere", 0]]`,
		`[[1,"x",1,1,7,5,60,null,null,9,"denied",3]]`, `[[1,"x",0,0,7,5,60,null,4,9,"",0]]`, `[]`, `null`, `{}`, `[[]]`, `[[1,"x"]]`, `[null]`, `[[1,"x",0,0,-1,1,1,1,0,0,"",0]]`, `[[1,"x",0,0,1.5,1,1,1,0,0,"",0]]`, `[[null,null,null,null,null,null,null,null,null,null,null,null]]`,
		`[[1,"x",0,0,1,1,1,1,0,99999999999999999,"",0]]`, `[[1,2,0,0,1,1,1,1,0,0,"",0]]`, `[[18446744073709551615,"x",0,0,1,1,1,1,0,0,"",0]]`, `[[1,"x",2,0,1,1,1,1,0,0,"",0]]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		var d service.Decision
		if err := parseAnswer(answer, &d); err != nil {
			return
		}
		var want [][]any
		decoder := json.NewDecoder(bytes.NewReader(answer))
		decoder.UseNumber()
		if err := decoder.Decode(&want); err != nil || len(want) != len(d.Verdicts) || len(want) == 0 {
			t.Fatalf("%q was read as %+v; it is %v, %v", answer, d, want, err)
		}
		for i, v := range d.Verdicts {
			flag := func(is bool) json.Number {
				if is {
					return "1"
				}
				return "0"
			}
			number := func(n any) json.Number { return json.Number(fmt.Sprint(n)) }
			var velocity any // null where no limit decided, as is what remains
			if velocity = number(v.Velocity); v.Unmetered {
				velocity = nil
			}
			if v.Unmetered != (want[i][8] == nil) {
				t.Errorf("%q: unmetered %v, and %v remain", answer, v.Unmetered, want[i][8])
			}
			got := []any{
				number(v.Bucket.ZoneID), v.Bucket.Key, flag(v.Blocked), flag(v.WouldBlock), number(v.TxnID), number(v.Rate),
				number(int64(v.Window / time.Second)), velocity, want[i][8], number(int64(v.RetryAfter / time.Second)),
				string(v.Reason), number(v.OverrideID),
			}
			if !slices.Equal(got, want[i]) {
				t.Errorf("%q: bucket %d was read as %v, want %v", answer, i, got, want[i])
			}
		}
	})
}

// FuzzLiteralsMeanTheText asks each engine, in sessions of several sql_modes, what
// the literal of a text means. It must be the text, byte by byte, and one value.
func FuzzLiteralsMeanTheText(f *testing.F) {
	for _, seed := range []string{
		"", "alice", "it's", `back\slash`, `\'; DROP TABLE zone_txn; -- `, "a\x00b", "\n\r\t\x1a", `"quoted"`, "`tick`", "50%_", "jürgen",
		"\U0001F511", "e\u0301", "\ufeffbom", "2001:db8::/64", "203.0.113.9", "x ", " x", "?", "??", ":name", "@user", "/*!80000 1*/", "-- ", "#", "\u200b\u202e", "\x7f",
	} {
		f.Add(seed)
	}
	type client struct {
		name string
		conn *sql.Conn
	}
	var clients []client
	for _, engine := range dbtest.Engines(f) {
		d := engine.Empty(f)
		for _, mode := range []string{"", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "PIPES_AS_CONCAT,IGNORE_SPACE", "ANSI,NO_BACKSLASH_ESCAPES", "TRADITIONAL"} {
			conn, err := d.SQL.Conn(f.Context())
			if err != nil {
				f.Fatal(err)
			}
			dbtest.Exec(f, conn, "SET SESSION sql_mode = '"+mode+"'")
			clients = append(clients, client{engine.Name + " " + mode, conn})
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || len(text) > 4*255 {
			return // refused by service.Bucket.Validate
		}
		literal := string(new(packet).string(text).text)
		for _, c := range clients {
			var hex, charset string
			var one int
			err := c.conn.QueryRowContext(t.Context(), "SELECT HEX(l), CHARSET(l), 1 FROM (SELECT "+literal+" AS l) AS literal").Scan(&hex, &charset, &one)
			if want := fmt.Sprintf("%X", text); err != nil || hex != want || charset != "utf8mb4" || one != 1 {
				t.Errorf("%s: %q as %s means %s in %s, %v", c.name, text, literal, hex, charset, err)
			}
		}
	})
}
