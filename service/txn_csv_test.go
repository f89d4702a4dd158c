package service_test

import (
	"bytes"
	"encoding/csv"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

// TestNoCellIsAFormula holds that the service guards keys against spreadsheets as the example for analysts does, and
// that both lose none.
func TestNoCellIsAFormula(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	keys := []string{
		"alice", "", "=1+1", "+1", "-1", "@SUM(A1)", "'=1", " =1", "\u00a0=1", "\u3000@x", "＝1", "＋1", "－1", "＠x", "＇x",
		"a=1", `"=1"`, "a,b;c", "\u0085=1", "\u200b=1", "\x1c=1", "é\u2028-", "\u2028-", "\u00ad=1", "\ufeff=1",
		`=cmd|' /C calc'!A0`, "\t=1", "\r=1", `a\b`, "x\ny", "zoë",
	}
	escape := strings.NewReplacer(`\`, `\\`, "\t", `\t`, "\n", `\n`) // as the client of MySQL prints
	var input strings.Builder
	var got []byte
	for _, key := range keys {
		txn := service.Txn{ID: 1<<63 + 1, Bucket: service.Bucket{ZoneID: 1, Key: key}, Attempts: 1}
		got = txn.AppendCSV(got)
		input.WriteString(strings.Join([]string{
			"9223372036854775809", "1", escape.Replace(key), txn.CreatedAt.String(), "false", "false", "", "", "false", "", "",
			"1", txn.LastAt.String(), "", "", "", "", "",
		}, "\t") + "\n")
	}
	example := exec.CommandContext(t.Context(), python, "../examples/analyst/tocsv.py")
	example.Stdin = strings.NewReader(input.String())
	want, err := example.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, want)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nthe example writes\n%s", got, want)
	}
	rows, err := csv.NewReader(bytes.NewReader(got)).ReadAll()
	if err != nil || len(rows) != len(keys) {
		t.Fatalf("%d rows (%v)\n%s", len(rows), err, got)
	}
	for i, row := range rows {
		if cell := row[2]; regexp.MustCompile(`^\s*[=+\-@＝＋－＠]|^[\t\r\n]`).MatchString(cell) ||
			strings.TrimPrefix(cell, "'") != keys[i] {
			t.Errorf("%q is exported as %q", keys[i], cell)
		}
	}
}

func TestCSVHasTheMembersOfATxn(t *testing.T) {
	t.Parallel()
	var members []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[service.Txn]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !field.Anonymous {
			members = append(members, name)
		}
	}
	full := service.Txn{
		ID: 9, Bucket: service.Bucket{ZoneID: 2, Key: `a"b`},
		CreatedAt: service.At(time.Date(2026, 8, 24, 9, 15, 2, 123456000, time.UTC)), Blocked: true,
		WouldBlock: true, Reason: service.ReasonDenied, OverrideID: 7, Counted: true, Outcome: service.OutcomeFailure,
		AttemptID: "x", Attempts: 3, LastAt: service.At(time.Date(2026, 8, 24, 9, 15, 3, 0, time.UTC)),
		UncountedAt: service.At(time.Date(2026, 8, 24, 9, 15, 4, 0, time.UTC)),
		Origin:      &service.Origin{Country: "DE", ASN: 64500, Organization: "=Example"}, CheckID: 5,
	}
	lines, err := csv.NewReader(bytes.NewReader(full.AppendCSV(service.AppendTxnHeader(nil)))).ReadAll()
	if err != nil || len(lines) != 2 || !reflect.DeepEqual(lines[0], members) {
		t.Fatalf("%q, %v; members are %q", lines, err, members)
	}
	want := strings.Split(
		`9|2|a"b|2026-08-24T09:15:02.123456Z|true|true|denied|7|true|failure|x|3|2026-08-24T09:15:03.000000Z|`+
			`2026-08-24T09:15:04.000000Z|DE|64500|'=Example|5`, "|")
	if !reflect.DeepEqual(lines[1], want) {
		t.Errorf("got %q, want %q", lines[1], want)
	}
}
