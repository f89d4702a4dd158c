package enginetest

import (
	"fmt"
	"strings"
	"testing"
)

// StallCommits returns a switch: while it is on, each COMMIT of the database's server waits for a replica
// that is away. The server must belong to the test alone.
func (d *Database) StallCommits(tb testing.TB) (stall func(bool)) {
	tb.Helper()
	variables := "rpl_semi_sync_master_"
	if d.Count(tb, "SELECT VERSION() LIKE '%MariaDB%'") == 0 {
		Exec(tb, d.SQL, "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
		variables = "rpl_semi_sync_source_"
	}
	Exec(tb, d.SQL, "SET GLOBAL "+variables+"timeout = 600000") // milliseconds
	stall = func(on bool) {
		tb.Helper()
		Exec(tb, d.SQL, fmt.Sprint("SET GLOBAL ", variables, "enabled = ", on))
	}
	tb.Cleanup(func() { stall(false) }) // the test's clean-up commits, too
	return stall
}

// Committing returns the sessions of the database that are in their COMMIT.
func (d *Database) Committing(tb testing.TB) (sessions []Session) {
	tb.Helper()
	for _, s := range d.Sessions(tb) {
		if strings.HasPrefix(s.Statement, "COMMIT") {
			sessions = append(sessions, s)
		}
	}
	return sessions
}
