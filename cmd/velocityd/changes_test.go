package main

import (
	"strings"
	"testing"

	"velocityd/db/dbtest"
)

func TestChangesAreListedTheNewestFirst(t *testing.T) {
	t.Parallel()
	d := dbtest.First(t).Database(t)
	env := environment{"VELOCITY_DSN": d.DSN}
	must(t, env, "zone", "set", "1", "--rate", "5", "--window", "60s")
	must(t, env, "zone", "set", "1", "--rate", "9")
	must(t, env, "bucket", "release", "1", "alice", "--reason", "called us")
	r := command(env, nil, "changes", "--zone", "1", "--limit", "2")
	release, update := strings.Index(r.stdout, "bucket release"), strings.Index(r.stdout, "zone update")
	if r.code != exitFine || release < 0 || update < release || strings.Contains(r.stdout, "zone insert") || !strings.Contains(r.stdout, tester) ||
		!strings.Contains(r.stderr, "go on by --from 2") {
		t.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if text := must(t, env, "changes", "--subject", "zone", "--action", "update", "--json"); strings.Count(text, "\n") != 1 ||
		!strings.Contains(text, `"before":{`) || !strings.Contains(text, `"after":{`) {
		t.Errorf("as JSON:\n%s", text)
	}
	if text := must(t, env, "changes", "--by", "nobody"); text != "no changes\n" {
		t.Errorf("by nobody:\n%s", text)
	}
	if r := command(env, nil, "changes", "--subject", "zoo"); r.code != exitUsage || !strings.Contains(r.stderr, "subject must be one of") {
		t.Errorf("of a zoo: exit code %d\n%s", r.code, r.stderr)
	}
}
