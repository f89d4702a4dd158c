package main

import (
	"encoding/csv"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/tools/enginetest"
)

// idsIn returns the ids of the txns in an output, a line for each.
func idsIn(t *testing.T, output string) string {
	t.Helper()
	var ids []string
	if strings.HasPrefix(output, `"id"`) {
		rows, err := csv.NewReader(strings.NewReader(output)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows[1:] {
			ids = append(ids, row[0])
		}
		return strings.Join(ids, " ")
	}
	for line := range strings.Lines(output) {
		id, _, _ := strings.Cut(strings.TrimPrefix(line, `{"id":"`), `"`)
		ids = append(ids, strings.Fields(id)[0])
	}
	return strings.Join(ids, " ")
}

func TestTxnsAreListedShownAndExported(t *testing.T) {
	t.Parallel()
	user := service.Zone{ID: 1, Rate: 2, Window: 24 * time.Hour, Keys: service.KeyRule{Kind: service.KeyUsername}}
	d := enginetest.First(t).Database(t, user, service.Zone{ID: 2, Rate: 5, Window: time.Hour})
	direct := environment{"VELOCITY_DSN": d.DSN}
	for _, check := range []string{"1 alice", "1 bob", "1 alice", "1 alice", "2 =1+1"} {
		_ = command(direct, nil, append([]string{"check"}, strings.Fields(check)...)...)
	}
	must(t, direct, "outcome", "2", "success")
	enginetest.Exec(t, d.SQL, "UPDATE zone_txn SET created_at = created_at - INTERVAL 3 HOUR WHERE id <= 2")
	enginetest.Exec(t, d.SQL, "UPDATE zone_txn SET created_at = created_at - INTERVAL 1 MINUTE WHERE id > 2")
	for args, want := range map[string]string{
		"list":                                "5 4 3 2 1",
		"list --order asc --limit 3":          "1 2 3",
		"list --order asc --from 3":           "4 5",
		"list --limit 2 --from 4":             "3 2",
		"list --zone 1 --key ALICE":           "4 3 1",
		"list --zone 1 --key Alice --key bob": "4 3 2 1",
		"list --zone 2 --zone 1":              "5 4 3 2 1",
		"list --blocked":                      "4",
		"list --no-would-block --zone 1":      "3 2 1",
		"list --outcome success":              "2",
		"list --outcome none --output csv":    "5 4 3 1",
		"list --since 2h":                     "5 4 3",
		"list --until 2h":                     "2 1",
		"list --since 1d --until 2h":          "2 1",
		"list --since 2020-01-01":             "5 4 3 2 1",
		"show 4":                              "4",
		"show 4 --output csv":                 "4",
		"export":                              "1 2 3 4 5",
		"export --output csv --since 2h":      "3 4 5",
		"export --zone 1 --key alice":         "1 3 4",
	} {
		if got := idsIn(t, must(t, direct, append([]string{"txn"}, strings.Fields(args)...)...)); got != want {
			t.Errorf("txn %s: %s, want %s", args, got, want)
		}
	}
	table := must(t, direct, "txn", "list", "--output", "table", "--limit", "2")
	if lines := strings.Split(table, "\n"); len(lines) != 4 || !strings.HasPrefix(lines[0], "id ") ||
		!strings.Contains(lines[1], "=1+1") || !strings.Contains(lines[2], "blocked, full") {
		t.Errorf("the table is\n%s", table)
	}
	if got := must(t, direct, "txn", "export", "--output", "csv", "--zone", "2"); !strings.Contains(got, `"'=1+1"`) {
		t.Errorf("a formula is written as %s", got)
	}
	for args, want := range map[string]string{
		"list --key alice": "zone", "list --since yesterday": "--since must be", "list --limit 0": "--limit",
		"list --outcome won":         "outcome",
		"list --since 1h --until 2h": "until", "show x": "number", "export --output table": "output",
	} {
		if r := command(direct, nil, append([]string{"txn"}, strings.Fields(args)...)...); r.code != exitUsage ||
			!strings.Contains(r.stderr, want) {
			t.Errorf("txn %s: %+v, want %q", args, r, want)
		}
	}
	for args, want := range map[string]string{"list --zone 9 --key a": "zone list", "show 99": "not found"} {
		if r := command(direct, nil, append([]string{"txn"}, strings.Fields(args)...)...); r.code != exitError ||
			!strings.Contains(r.stderr, want) {
			t.Errorf("txn %s: %+v, want %q", args, r, want)
		}
	}
	r := command(direct, nil, "txn", "list", "--limit", "2")
	if !strings.Contains(r.stderr, "--from 4") {
		t.Errorf("said %q", r.stderr)
	}
	if n := d.Count(t, "SELECT COUNT(*) FROM zone_audit WHERE subject = 'history' AND principal = '"+tester+"'"); n != 4 {
		t.Errorf("%d exports are recorded", n)
	}
}

func TestFollowWorksOnDatabaseAndOverHTTP(t *testing.T) {
	t.Parallel()
	d := enginetest.First(t).Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Hour})
	direct := environment{"VELOCITY_DSN": d.DSN}
	over := environment{"VELOCITY_URL": start(t, direct, "serve").url}
	for _, key := range []string{"first", "alice", "bob", "alice"} {
		must(t, direct, "check", "1", key)
	}
	for _, key := range []string{"alice", "bob", "alice", "alice"} {
		must(t, direct, "bucket", "release", "1", key, "--reason", "test")
	}
	released, err := enginetest.Texts(
		d.SQL, "SELECT id FROM zone_event WHERE type = 'bucket.released' AND bucket_key = 'alice' ORDER BY id")
	if err != nil || len(released) != 3 {
		t.Fatalf("%v, %v", released, err)
	}
	for name, env := range map[string]environment{"direct": direct, "over": over} {
		followed(t, env, name, "2 4", "txn", "follow", "--zone", "1", "--key", "alice", "--after", "1")
		want := released[1][0] + " " + released[2][0]
		followed(t, env, name, want, "events", "follow", "--zone", "1", "--key", "alice", "--type", "bucket.*", "--after",
			released[0][0])
	}
}

// followed runs a command that follows until it has written two lines, and wants them to have these ids.
func followed(t *testing.T, env environment, name, want string, args ...string) {
	t.Helper()
	r := commandUntil(t, env, 2, args...)
	if lines := strings.ReplaceAll(r.stdout, `{"version":1,"id"`, `{"id"`); r.code != exitSuccess || idsIn(t, lines) != want {
		t.Errorf("%s %v: %+v", name, args, r)
	}
}
