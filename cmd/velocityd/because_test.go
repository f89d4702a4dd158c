package main

import (
	"fmt"
	"testing"

	"velocityd/db/dbtest"
)

func TestCommandsRecordTheReasonOfAChange(t *testing.T) {
	t.Parallel()
	d := dbtest.First(t).Database(t)
	in := environment{"VELOCITY_DSN": d.DSN}
	must(t, in, "zone", "set", "1", "--rate", "5", "--window", "60", "--reason", "ticket 1")
	must(t, in, "override", "set", "1", "alice", "--action", "deny", "--reason", "ticket 2")
	must(t, in, "override", "delete", "1", "alice", "--reason", "ticket 3")
	must(t, in, "zone", "delete", "1", "--yes", "--reason", "ticket 4")
	got, err := dbtest.Texts(d.SQL, "SELECT subject, action, reason FROM zone_audit ORDER BY id")
	want := "[[zone insert ticket 1] [override insert ticket 2] [override delete ticket 3] [zone delete ticket 4]]"
	if err != nil || fmt.Sprint(got) != want {
		t.Errorf("recorded %v, %v, want %s", got, err, want)
	}
	if r := command(in, nil, "zone", "delete", "1", "--yes", "--reason", " "); r.code != 2 {
		t.Errorf("an empty reason: %v", r)
	}
}
