package migrations_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/migrations"
	"velocityd/migrations/roles"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// states returns the routines that are not current.
func states(t *testing.T, d *enginetest.Database) map[string]migrations.RoutineState {
	t.Helper()
	state, err := migrations.Status(t.Context(), migrations.MySQL, d.DSN)
	if err != nil {
		t.Fatal(err)
	}
	odd := map[string]migrations.RoutineState{}
	for _, r := range state.Routines {
		if r.State != migrations.Current {
			odd[r.String()] = r.State
		}
	}
	if state.IsCurrent() != (len(odd) == 0) {
		t.Errorf("IsCurrent is %v with %v", state.IsCurrent(), odd)
	}
	return odd
}

func TestUpBringsEachRoutineToItsText(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		want := schema(t, d)
		if odd := states(t, d); len(odd) > 0 {
			t.Errorf("a fresh database has %v", odd)
		}
		enginetest.Exec(t, d.SQL, "DROP PROCEDURE validate_bucket") // as a dump without routines does
		enginetest.Exec(t, d.SQL, "DROP PROCEDURE report_outcome")
		carryOut(t, d, "CREATE PROCEDURE report_outcome() SET @old = 1")
		enginetest.Exec(t, d.SQL, "DROP TRIGGER zone_master_after_delete")
		carryOut(t, d, "CREATE TRIGGER zone_master_after_delete AFTER DELETE ON zone_master FOR EACH ROW SET @old = 1")
		enginetest.Exec(t, d.SQL, "CREATE PROCEDURE forget_counted() SET @old = 1")
		enginetest.Exec(t, d.SQL, "CREATE PROCEDURE of_the_dba() SET @own = 1")
		odd := states(t, d)
		if fmt.Sprint(odd) != "map[procedure forget_counted:retired procedure report_outcome:differs "+
			"procedure validate_bucket:missing trigger zone_master_after_delete:differs]" {
			t.Errorf("status says %v", odd)
		}
		done, err := migrations.Up(t.Context(), migrations.MySQL, d.DSN)
		if err != nil || len(done.Routines) != 4 {
			t.Errorf("up has changed %v, %v", done.Routines, err)
		} else if first := done.Routines[0].Name; first != "validate_bucket" {
			t.Errorf("%s was installed before a procedure that it may call", first)
		}
		if odd := states(t, d); len(odd) > 0 {
			t.Errorf("up has left %v", odd)
		}
		enginetest.Exec(t, d.SQL, "DROP PROCEDURE of_the_dba") // it is there still
		wantSchema(t, d, want)
	})
}

// TestHalfDoneInstallationIsDoneAgain lets a table of the same
// purpose stop it.
func TestHalfDoneInstallationIsDoneAgain(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		want := schema(t, engine.Database(t))
		d := engine.Empty(t)
		enginetest.Exec(t, d.SQL, "CREATE TABLE notes (id INT)")
		enginetest.Exec(
			t, d.SQL, "CREATE TRIGGER zone_override_after_delete BEFORE INSERT ON notes FOR EACH ROW SET @old = 1")
		_, err := migrations.Up(t.Context(), migrations.MySQL, d.DSN)
		if err == nil || !strings.Contains(err.Error(), "zone_override_after_delete") ||
			!strings.Contains(err.Error(), "migrate up") {
			t.Errorf("got %v, want an error that names the trigger and what to do", err)
		}
		wantStatus(t, d, migrations.Latest(), true)
		enginetest.Exec(t, d.SQL, "DROP TABLE notes")
		up(t, d)
		wantStatus(t, d, migrations.Latest(), false)
		wantSchema(t, d, want)
	})
}

// triggers returns the names of all triggers.
func triggers(t *testing.T) []string {
	t.Helper()
	var names []string
	for file := range sqlFiles(t, "triggers") {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".sql"))
	}
	return names
}

// TestNoEditGoesUnauditedWhileTriggersAreReplaced edits a zone all the time.
func TestNoEditGoesUnauditedWhileTriggersAreReplaced(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		enginetest.Exec(t, d.SQL, "INSERT INTO zone_master (id, rate, `window`) VALUES (1, 1, 60)")
		stop, ended := make(chan struct{}), make(chan error)
		edits := 0
		go func() {
			var err error
			for ; err == nil; edits++ {
				select {
				case <-stop:
					ended <- nil
					return
				default:
					_, err = d.SQL.Exec("UPDATE zone_master SET rate = rate + 1")
				}
			}
			ended <- err
		}()
		for range 3 {
			d.Outdate(t, triggers(t)...)
			up(t, d)
		}
		close(stop)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if got := d.Count(t, "SELECT COUNT(*) FROM zone_audit WHERE action = 'update'"); got != edits || edits == 0 {
			t.Errorf("%d of %d edits were recorded", got, edits)
		}
		if got := d.Count(t, "SELECT revision FROM zone_master"); got != edits+1 {
			t.Errorf("after %d edits the revision is %d", edits, got)
		}
	})
}

// TestChecksGoOnWhileTriggerAwaitsOpenTransaction asks while Up waits for a reader of zone_master.
// The check's time is less than a statement of a migration may wait elsewhere.
func TestChecksGoOnWhileTriggerAwaitsOpenTransaction(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
		d.Outdate(t, "zone_master_after_delete")
		reader, err := d.SQL.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		enginetest.Exec(t, reader, "SELECT COUNT(*) FROM read_zone")
		ended := make(chan error, 1)
		go func() {
			_, err := migrations.Up(t.Context(), migrations.MySQL, d.DSN)
			ended <- err
		}()
		enginetest.Eventually(t, "the migration waits", func() bool {
			return slices.ContainsFunc(d.Sessions(t),
				func(s enginetest.Session) bool { return strings.Contains(s.State, "metadata lock") })
		})
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		if _, err := d.SQL.ExecContext(ctx, "CALL check_velocity(1, 'a')"); err != nil {
			t.Errorf("a check: %v", err)
		}
		if err := reader.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("the migration: %v", err)
		}
		if odd := states(t, d); len(odd) > 0 {
			t.Errorf("up has left %v", odd)
		}
	})
}

// TestUninstallableTextLeavesFormerOne takes the right to create
// routines from the account, and leaves it that to drop them.
func TestUninstallableTextLeavesFormerOne(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Empty(t)
		owner := d.RoleAccount(t, roles.Owner)
		up(t, owner)
		enginetest.Exec(t, d.SQL, "DROP PROCEDURE report_outcome")
		carryOut(t, owner, "CREATE PROCEDURE report_outcome() SELECT 'former' AS text")
		name, database := account(t, owner)
		enginetest.Exec(t, d.SQL, "REVOKE CREATE ROUTINE ON "+database+".* FROM "+name.String())
		_, err := migrations.Up(t.Context(), migrations.MySQL, owner.DSN)
		if err == nil || !strings.Contains(err.Error(), "install procedure report_outcome") ||
			!strings.Contains(err.Error(), "grant") {
			t.Errorf("got %v, want an error that says what to grant and for what", err)
		}
		if got := rows(t, d, "CALL report_outcome()"); len(got) != 1 || got[0] != "text=former" {
			t.Errorf("the procedure answers %q", got)
		}
		wantStatus(t, d, migrations.Latest(), false)
		if odd := states(t, owner); odd["procedure report_outcome"] != migrations.Differs {
			t.Errorf("status says %v", odd)
		}
		enginetest.Exec(t, d.SQL, "GRANT CREATE ROUTINE ON "+database+".* TO "+name.String())
		up(t, owner)
		if odd := states(t, owner); len(odd) > 0 {
			t.Errorf("after the owner's up: %v", odd)
		}
	})
}

// TestViewsShowAllButSchemasOwnColumns compares views with columns that are added.
func TestViewsShowAllButSchemasOwnColumns(t *testing.T) {
	t.Parallel()
	hidden := map[string][]string{
		"zone_master": {"narrowed_at", "overridden", "whole_rule"}, "zone_override": {"network"},
		"zone_txn": {"imprint", "repeated_at", "repeats"}, // in attempts and last_at
		"zone_bucket_lock": {
			"blocked_began", "blocked_override_id", "blocked_reason", "blocked_txn_at", "blocked_txn_id", "blocked_txns",
			"imprint_key", "imprint_until", "tallied_at", "tally", "tally_from", "tally_until",
		},
	}
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		for view, table := range map[string]string{
			"read_txn": "zone_txn", "read_history": "zone_txn", "read_attempt": "zone_attempt",
			"read_bucket": "zone_bucket_lock",
			"read_zone":   "zone_master", "read_override": "zone_override", "read_audit": "zone_audit",
			"read_zone_hour": "zone_hour", "read_bucket_total": "zone_bucket_total",
		} {
			var missing []string
			for _, line := range rows(t, d, "SELECT t.column_name AS c FROM information_schema.columns AS t WHERE "+
				"t.table_schema = DATABASE() AND t.table_name = ? AND NOT EXISTS (SELECT 1 FROM information_schema.columns AS v "+
				"WHERE v.table_schema = DATABASE() AND v.table_name = ? AND v.column_name = t.column_name) ORDER BY 1", table,
				view) {
				missing = append(missing, strings.TrimPrefix(line, "c="))
			}
			slices.Sort(missing) // engines order _ otherwise
			if !slices.Equal(missing, hidden[table]) {
				t.Errorf("%s does not show %q of %s, want all but %q", view, missing, table, hidden[table])
			}
		}
	})
}

func TestThroughNamesTheRoutinesBehindACall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ has, lacks string }{
		"check_velocity_by_rule": {"judge_bucket", "peek_velocity"},
		"report_outcomes":        {"uncount_bucket", "release_bucket"},
		"zone_override":          {"derive_target", "judge_bucket"},
	} {
		through := migrations.Through(name)
		is := func(name string) bool {
			return slices.ContainsFunc(through, func(r migrations.Routine) bool { return r.Name == name && r.IsCallable() })
		}
		if !is(c.has) || is(c.lacks) {
			t.Errorf("%s goes through %v, want %s and not %s", name, through, c.has, c.lacks)
		}
	}
}
