//go:build cluster

package migrations_test

import (
	"database/sql"
	"errors"
	"os"
	"strings"
	"testing"

	"velocityd/internal/address"
	"velocityd/internal/engine"
	"velocityd/migrations"
	"velocityd/tools/enginetest"
)

// clusterDSN is of a cluster that is migrated.
func clusterDSN(t *testing.T) string {
	t.Helper()
	dsn := os.Getenv("VELOCITY_CLUSTER_DSN")
	if dsn == "" {
		t.Fatal("VELOCITY_CLUSTER_DSN names no cluster: run make test-cluster")
	}
	return dsn
}

// A second migration finds nothing to do: it sees all that the first one has made, the vschema
// included.
func TestClusterSecondMigrateUpHasNothingToDo(t *testing.T) {
	t.Parallel()
	dsn := clusterDSN(t)
	if _, err := migrations.Up(t.Context(), migrations.Auto, dsn); err != nil {
		t.Fatal(err)
	}
	done, err := migrations.Up(t.Context(), migrations.Auto, dsn)
	if err != nil || len(done.Actions) != 0 || done.To != migrations.Latest() || len(done.Left) != 0 {
		t.Errorf("the second migration did %+v, %v", done, err)
	}
	state, err := migrations.Status(t.Context(), migrations.Auto, dsn)
	if err != nil || !state.IsCurrent() || state.Engine == migrations.MySQL {
		t.Errorf("the schema is %+v, %v", state, err)
	}
}

// The tests of this package that are parallel begin after this one, and find all tables.
//
//nolint:paralleltest // it drops all tables
func TestClusterMigrateUpWorksAfterTheWayDown(t *testing.T) {
	dsn := clusterDSN(t)
	if done, err := migrations.Down(t.Context(), migrations.Auto, dsn, 0); err != nil || done.From != migrations.Latest() {
		t.Fatalf("the way down began at version %d: %v", done.From, err)
	}
	if done, err := migrations.Up(t.Context(), migrations.Auto, dsn); err != nil || done.To != migrations.Latest() {
		t.Errorf("the way up ended at version %d: %v", done.To, err)
	}
}

// vtgate sees a new table some time after it was made, unless its vschema names it.
//
//nolint:paralleltest // it takes a table away
func TestClusterMigrateUpToleratesTablesUnseenByVtgate(t *testing.T) {
	dsn := clusterDSN(t)
	pool, err := sql.Open("mysql", address.Split(dsn)[0]+engine.BucketsSuffix)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pool.Close() }()
	var name, create string
	if err := pool.QueryRowContext(t.Context(), "SHOW CREATE TABLE zone_attempt").Scan(&name, &create); err != nil {
		t.Fatal(err)
	}
	enginetest.Exec(t, pool, "DROP TABLE zone_attempt")
	enginetest.Exec(t, pool, "ALTER VSCHEMA ON zone_attempt DROP VINDEX xxhash")
	enginetest.Eventually(t, "vtgate has forgotten the table", func() bool {
		_, err := pool.ExecContext(t.Context(), "SHOW COLUMNS FROM zone_attempt")
		return err != nil && strings.Contains(err.Error(), "1105")
	})
	enginetest.Exec(t, pool, create)
	if done, err := migrations.Up(t.Context(), migrations.Auto, dsn); err != nil || len(done.Actions) != 1 {
		t.Errorf("carried out %d actions, want 1, which names the table: %v", len(done.Actions), err)
	}
}

func TestClusterHasNoStepsToTakeBack(t *testing.T) {
	t.Parallel()
	if _, err := migrations.Down(t.Context(), migrations.Auto, clusterDSN(t), 1); !errors.Is(err, migrations.ErrNoSteps) {
		t.Errorf("a step was taken back: %v", err)
	}
}

// Its tables would come into the keyspace of the buckets, and stay there.
func TestClusterAShardedKeyspaceIsNotMigrated(t *testing.T) {
	t.Parallel()
	dsn := clusterDSN(t) + engine.BucketsSuffix
	if _, err := migrations.Up(t.Context(), migrations.Auto, dsn); !errors.Is(err, engine.ErrSharded) {
		t.Errorf("migrated up: %v", err)
	}
	if _, err := migrations.Down(t.Context(), migrations.Auto, dsn, 0); !errors.Is(err, engine.ErrSharded) {
		t.Errorf("migrated down: %v", err)
	}
	if _, err := migrations.Status(t.Context(), migrations.Auto, dsn); !errors.Is(err, engine.ErrSharded) {
		t.Errorf("read the status: %v", err)
	}
}
