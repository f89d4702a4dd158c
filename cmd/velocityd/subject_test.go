package main

import (
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"velocityd/service"
)

func TestSubjectExportsAndErasesKeyAfterTypedWord(t *testing.T) {
	t.Parallel()
	d, env := databaseOf(
		t, service.Zone{ID: 1, Rate: 5, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyUsername}},
		service.Zone{ID: 2, Rate: 5, Window: time.Hour})
	must(t, env, "check", "1", "alice", "2", "alice", "--attempt-id", "x-1")
	must(t, env, "check", "1", "bob")
	var row struct {
		Table string         `json:"table"`
		Row   map[string]any `json:"row"`
	}
	for line := range strings.Lines(must(t, env, "subject", "export", "Alice", "--zone", "1")) {
		row.Table, row.Row = "", nil
		if err := json.Unmarshal([]byte(line), &row); err != nil || row.Table == "" || len(row.Row) == 0 ||
			strings.Contains(line, "bob") {
			t.Errorf("line %s: %v", line, err)
		}
	}
	if row.Table != "zone_audit" || row.Row["action"] != "export" {
		t.Errorf("the last row is %+v, want that of the export itself", row)
	}
	erase := []string{"subject", "erase", "Alice", "--reason", "request 7", "--zone", "1"}
	for _, answer := range []string{"", "yes\n"} {
		if r := command(env, strings.NewReader(answer), erase...); r.code != exitError ||
			!strings.Contains(r.stderr, "nothing was changed") {
			t.Errorf("answered %q: %+v", answer, r)
		}
	}
	if r := command(env, strings.NewReader("erase\n"), erase...); r.code != exitSuccess ||
		!strings.Contains(r.stdout, "zone 1: now erased:") ||
		!strings.Contains(r.stdout, "; 1 txn, 0 overrides, 2 mentions elsewhere\n") {
		t.Errorf("answered as asked: %+v", r)
	}
	if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE zone_id = 1 AND bucket_key = 'alice'"); n != 0 {
		t.Errorf("%d txns have the key still", n)
	}
	if n := d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE zone_id = 2 AND bucket_key = 'alice'"); n != 1 {
		t.Errorf("%d txns of a zone that was not named have the key, want 1", n)
	}
	if got := must(t, env, append(erase, "--yes")...); got != "no row names the key\n" {
		t.Errorf("once more: %q", got)
	}
	if r := command(env, nil, "subject", "erase", "a\nb", "--reason", "x", "--yes"); r.code != exitUsage {
		t.Errorf("no key: %+v", r)
	}
}

func TestBucketReleaseTakesSeveralKeysOrNone(t *testing.T) {
	t.Parallel()
	d, env := databaseOf(t, service.Zone{ID: 2, Rate: 1, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}})
	for _, key := range []string{"192.0.2.1", "192.0.2.2"} {
		must(t, env, "check", "2", key)
	}
	if r := command(env, nil, "bucket", "release", "2", "192.0.2.1", "nobody", "--reason", "x"); r.code != exitUsage {
		t.Errorf("with a key that the zone does not take: %+v", r)
	}
	if n := d.Count(t, "SELECT COUNT(*) FROM zone_audit WHERE action = 'release'"); n != 0 {
		t.Errorf("%d buckets were released with a wrong key among them", n)
	}
	if got := must(t, env, "bucket", "release", "2", "192.0.2.1", "192.0.2.2", "--reason", "mail gateway"); strings.Count(
		got, "1 of 1 left") != 2 {
		t.Errorf("released: %s", got)
	}
	if n := d.Count(
		t, "SELECT COUNT(*) FROM zone_audit WHERE action = 'release' AND state_after LIKE '%mail gateway%'"); n != 2 {
		t.Errorf("%d releases are recorded with their reason, want 2", n)
	}
}

// answering is an input that does something before the first answer.
type answering struct {
	io.Reader
	first func()
	once  sync.Once
}

func (a *answering) Read(p []byte) (int, error) {
	a.once.Do(a.first)
	return a.Reader.Read(p)
}

func TestBucketLockedListsBucketsOfReleaseAllLocked(t *testing.T) {
	t.Parallel()
	d, env := databaseOf(t, service.Zone{ID: 1, Rate: 1, Window: time.Hour, Lockout: time.Hour},
		service.Zone{ID: 3, Rate: 1, Window: time.Hour})
	for _, key := range []string{"alice", "bob"} {
		must(t, env, "check", "1", key)
		if r := command(env, nil, "check", "1", key); r.code != exitBlocked {
			t.Fatalf("%+v", r)
		}
	}
	must(t, env, "check", "1", "carol")
	i := start(t, env, "serve")
	for _, at := range []environment{env, {"VELOCITY_URL": i.url}} {
		lines := strings.Split(must(t, at, "bucket", "locked", "1"), "\n")
		if len(lines) != 3 || !strings.HasPrefix(lines[0], "bob  since 20") ||
			!strings.Contains(lines[1], "alice  since 20") || !strings.HasSuffix(lines[1], "  by txn 2") {
			t.Errorf("locked are %q", lines)
		}
	}
	all := []string{"bucket", "release", "1", "--all-locked", "--reason", "false alarm"}
	if r := command(env, strings.NewReader("yes\n"), all...); r.code != exitError ||
		!strings.Contains(r.stderr, `Type "2" to go on`) {
		t.Errorf("answered by yes: %+v", r)
	}
	answer := &answering{Reader: strings.NewReader("2\n"), first: func() {
		_, _ = command(env, nil, "check", "1", "late"), command(env, nil, "check", "1", "late")
	}}
	if r := command(env, answer, all...); r.code != exitSuccess || !strings.Contains(r.stderr, "released 2 buckets") {
		t.Errorf("answered by the number: %+v", r)
	}
	if got := must(t, env, "bucket", "locked", "1"); !strings.HasPrefix(got, "late  since 20") ||
		strings.Count(got, "\n") != 1 {
		t.Errorf("afterwards: %q", got)
	}
	if n := d.Count(
		t, "SELECT COUNT(*) FROM zone_audit WHERE action = 'release' AND state_after LIKE '%false alarm%'"); n != 2 {
		t.Errorf("%d releases are recorded with their reason, want 2", n)
	}
	for _, wrong := range [][]string{{"1"}, {"1", "alice", "--all-locked"}} {
		if r := command(
			env, nil, append(append([]string{"bucket", "release"}, wrong...), "--reason", "x")...); r.code != exitUsage {
			t.Errorf("%v: %+v", wrong, r)
		}
	}
	if r := command(env, nil, "bucket", "locked", "9"); r.code != exitError ||
		!strings.Contains(r.stderr, "velocityd zone list") {
		t.Errorf("of no zone: %+v", r)
	}
}
