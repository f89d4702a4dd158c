//go:build cluster

package docs_test

import (
	"bytes"
	"database/sql"
	"io"
	"os"
	"strings"
	"testing"

	"velocityd/db/address"
)

// TestClusterStatementsForVitessRun runs the SQL that the pages have for Vitess, each block in
// a separate session with the keyspace that a DSN of the service names.
//
// No DELETE may have the plan that vtgate makes of one with a LIMIT over several shards: it
// reads keys, locks nothing, and then deletes these keys, whatever has become of their rows.
func TestClusterStatementsForVitessRun(t *testing.T) {
	t.Parallel()
	pool := overVtgate(t)
	isDeleted := false
	for _, page := range pages(t) {
		for _, b := range pageBlocks(t, page) {
			if b.language != "sql" {
				continue
			}
			if _, family, err := b.runsAs(); err != nil || family != "vitess" {
				continue
			}
			conn, err := pool.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range statements(b.text) {
				if strings.HasPrefix(s.text, "DELETE") {
					isDeleted = true
					if plan := planOf(t, conn, s.text); strings.Contains(plan, "DMLWithInput") {
						t.Errorf("%s: vtgate would delete rows that it has not locked:\n%s", b.at(s.line), plan)
					}
				}
				if err := query(t.Context(), conn, s.text, io.Discard, false); err != nil {
					t.Errorf("%s: %v", b.at(s.line), err)
				}
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !isDeleted {
		t.Error("no page deletes old rows on Vitess")
	}
}

// overVtgate returns a pool of connections to a vtgate of the cluster that VELOCITY_CLUSTER_DSN
// names. None is used twice, as a block may leave its session bound to one shard.
func overVtgate(t *testing.T) *sql.DB {
	t.Helper()
	dsn := os.Getenv("VELOCITY_CLUSTER_DSN")
	if dsn == "" {
		t.Fatal("VELOCITY_CLUSTER_DSN names no cluster: run make test-cluster")
	}
	pool, err := sql.Open("mysql", address.Split(dsn)[0])
	if err != nil {
		t.Fatal(err)
	}
	pool.SetMaxIdleConns(-1)
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

// planOf returns how vtgate would carry out a statement.
func planOf(t *testing.T, conn *sql.Conn, statement string) string {
	t.Helper()
	var plan bytes.Buffer
	if err := query(t.Context(), conn, "VEXPLAIN PLAN "+statement, &plan, false); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}
