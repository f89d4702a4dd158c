//go:build cluster

package docs_test

import (
	"database/sql"
	"io"
	"os"
	"testing"

	"velocityd/internal/address"
)

// TestClusterStatementsForVitessRun runs the SQL that the pages have for Vitess, each block in
// a separate session with the keyspace that a DSN of the service names.
func TestClusterStatementsForVitessRun(t *testing.T) {
	t.Parallel()
	pool := overVtgate(t)
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
				if err := query(t.Context(), conn, s.text, io.Discard, false); err != nil {
					t.Errorf("%s: %v", b.at(s.line), err)
				}
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
		}
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
