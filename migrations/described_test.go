package migrations_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"velocityd/migrations"
	"velocityd/migrations/roles"
	"velocityd/tools/enginetest"
)

// described returns the answer of describe_schema to the service's account.
func described(t *testing.T, d, as *enginetest.Database) migrations.Schema {
	t.Helper()
	found, err := enginetest.Texts(as.SQL, "CALL describe_schema()")
	if err != nil {
		t.Fatal(err)
	}
	return migrations.SchemaOf(found, strings.Contains(rows(t, d, "SELECT VERSION()")[0], "MariaDB"))
}

// TestManualChangeIsFaultMendedByItsCure changes a database as no program does.
func TestManualChangeIsFaultMendedByItsCure(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Empty(t)
		owner := d.RoleAccount(t, roles.Owner)
		enginetest.Migrate(t, owner.DSN)
		want := schema(t, d)
		as := d.ServiceAccount(t)
		faults := func() []migrations.Fault { return described(t, d, as).Faults() }
		if list := faults(); len(list) > 0 {
			t.Fatalf("a fresh database has %q", list)
		}
		for _, changes := range changesByHand(t, engine) {
			for change := range changes {
				for _, statement := range strings.SplitN(change, ";", 2) {
					enginetest.Exec(t, owner.SQL, statement)
				}
			}
			list := faults()
			if len(list) != len(changes) {
				t.Errorf("%d faults after %d changes: %q", len(list), len(changes), list)
			}
			for change, says := range changes {
				if !slices.ContainsFunc(list, func(f migrations.Fault) bool { return strings.Contains(f.Is, says) }) {
					t.Errorf("%s: %q, want one that says %q", change, list, says)
				}
			}
			for _, fault := range list { // Up refuses a database whose tables are those of another version
				if statement, is := strings.CutPrefix(fault.Do, "run "); is && !strings.HasPrefix(statement, "'") {
					enginetest.Exec(t, d.SQL, statement)
				}
			}
			if _, err := migrations.Up(t.Context(), migrations.MySQL, owner.DSN); err != nil {
				t.Error(err)
			}
			if list := faults(); len(list) > 0 {
				t.Errorf("after the cures: %q", list)
			}
		}
		wantSchema(t, d, want)
	})
}

// changesByHand returns changes of the schema, each with the fault that it is. Those of one map change different
// things.
func changesByHand(t *testing.T, engine *enginetest.Engine) []map[string]string {
	t.Helper()
	_, forget, _ := strings.Cut(sqlFiles(t, "procedures")["procedures/forget_tally.sql"], "*/ ")
	hide := "INVISIBLE"
	if engine.Name != "mysql" {
		hide = "IGNORED"
	}
	return []map[string]string{{
		"DROP PROCEDURE release_bucket": "procedure release_bucket is missing",
		"DROP PROCEDURE forget_tally;CREATE PROCEDURE forget_tally(a INT, b VARCHAR(255), c DATETIME) SELECT 1": "" +
			"procedure forget_tally has another text",
		"ALTER PROCEDURE check_velocity SQL SECURITY INVOKER": "procedure check_velocity has another text",
		"DROP FUNCTION address_bits;CREATE FUNCTION address_bits(a VARBINARY(16)) RETURNS TEXT NO SQL RETURN 1": "function " +
			"address_bits has another text",
		"DROP TRIGGER zone_master_after_delete": "trigger zone_master_after_delete is missing",
		"DROP TRIGGER zone_override_before_insert;CREATE TRIGGER zone_override_before_insert BEFORE INSERT ON " +
			"zone_override FOR EACH ROW SET @a = 1": "trigger zone_override_before_insert has another text",
		"CREATE TRIGGER pardon BEFORE INSERT ON zone_txn FOR EACH ROW SET NEW.counted = FALSE": "trigger pardon on " +
			"zone_txn is not this program's",
		"ALTER TABLE zone_txn MODIFY counted INT NOT NULL": "zone_txn has another " +
			"column counted",
		"ALTER TABLE zone_txn MODIFY blocked BOOLEAN NULL": "zone_txn has another " +
			"column blocked",
		"ALTER TABLE zone_txn MODIFY created_at DATETIME(3) NOT NULL": "zone_txn has another " +
			"column created_at",
		"ALTER TABLE zone_master ALTER lockout_max SET DEFAULT 60": "zone_master has another column lockout_max",
		"ALTER TABLE zone_txn MODIFY attempt_id VARCHAR(64) CHARACTER SET ascii NULL DEFAULT NULL": "zone_txn has another " +
			"column attempt_id",
		"DROP VIEW read_zone": "view read_zone is missing",
		"CREATE OR REPLACE VIEW read_txn AS SELECT * FROM (SELECT * FROM zone_txn WHERE counted) AS txn": "view read_txn has another text",
		"CREATE OR REPLACE SQL SECURITY INVOKER VIEW read_audit AS SELECT * FROM zone_audit":             "view read_audit has another text",
		"ALTER TABLE zone_txn DROP INDEX zone_txn_window": "zone_txn has no index " +
			"zone_txn_window",
		"ALTER TABLE zone_attempt DROP PRIMARY KEY":                         "zone_attempt has no primary key",
		"ALTER TABLE zone_override DROP FOREIGN KEY zone_override_zone":     "zone_override has no constraint",
		"ALTER TABLE zone_bucket_lock DROP CONSTRAINT zone_bucket_lock_key": "zone_bucket_lock has no constraint",
		"ALTER TABLE zone_master DROP CONSTRAINT `rate must be 0 to 1000000`, ADD CONSTRAINT `rate must be 0 to 1000000` " +
			"CHECK (rate IS NOT NULL AND rate BETWEEN -1 AND 2000000)": "zone_master has another constraint",
	}, {
		"ALTER TABLE zone_txn DROP COLUMN imprint": "zone_txn has no column imprint",
		"DROP PROCEDURE forget_tally;CREATE " + strings.Replace(forget, "DATETIME(6)", "DATETIME", 1): "procedure " +
			"forget_tally has another text",
		"ALTER TABLE zone_txn DROP INDEX zone_txn_window, ADD KEY zone_txn_window (zone_id, bucket_key)": "zone_txn has " +
			"another index zone_txn_window",
	}, {
		"ALTER TABLE zone_txn ALTER INDEX zone_txn_window " +
			hide: "zone_txn has another index zone_txn_window",
	}}
}

// TestEachKeyAndConstraintComesFromSteps compares the reading of the steps with a database.
func TestEachKeyAndConstraintComesFromSteps(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		known := migrations.PartNames()
		for _, row := range described(t, d, d).Rows {
			name := row.Kind + " " + row.Table + " " + row.Name
			ofEngine := row.Table == "schema_migrations" || row.Kind == "CHECK" && strings.HasPrefix(row.Text, "json_valid(")
			if row.Table != "" && row.Kind != "TRIGGER" && !ofEngine && !slices.Contains(known, name) {
				t.Errorf("%s is not read out of the steps", name)
			}
		}
	})
}

// TestUpKeepsOneOwner restores parts of a database, and migrates as others than its owner.
func TestUpKeepsOneOwner(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Empty(t)
		owner, other := d.RoleAccount(t, roles.Owner), d.RoleAccount(t, roles.Owner)
		enginetest.Migrate(t, owner.DSN)
		ownerName, _ := account(t, owner)
		want := schema(t, d)
		enginetest.Exec(t, d.SQL, "DROP PROCEDURE check_velocity") // as a dump without routines does
		for _, as := range []*enginetest.Database{d, other} {
			if _, err := migrations.Up(t.Context(), migrations.MySQL, as.DSN); err == nil ||
				!strings.Contains(err.Error(), "run migrate up as "+ownerName.User+"@") {
				t.Errorf("up as another account than the owner: %v", err)
			}
		}
		up(t, owner)
		wantSchema(t, d, want)

		// A part has another owner, by the hand of an administrator.
		enginetest.Exec(t, d.SQL, "DROP VIEW read_zone")
		carryOut(t, d, strings.Replace(sqlFiles(t, "views")["views/read_zone.sql"], "CREATE OR REPLACE", "CREATE", 1))
		list := described(t, d, d).Faults()
		if len(list) != 1 || !strings.Contains(list[0].Is, "several accounts: root@localhost, "+ownerName.User) {
			t.Errorf("mixed owners: %q", list)
		}
		if odd := states(t, owner); fmt.Sprint(odd) != "map[view read_zone:differs]" {
			t.Errorf("status says %v", odd)
		}
		up(t, owner)
		wantSchema(t, d, want)

		// The owner is gone.
		enginetest.Exec(t, d.SQL, "DROP USER "+ownerName.String())
		up(t, other)
		otherName, _ := account(t, other)
		if list := described(t, d, d).Faults(); len(list) > 0 {
			t.Errorf("after the new owner's up: %q", list)
		}
		if got := rows(t, d, "SELECT DISTINCT definer FROM information_schema.views WHERE table_schema = DATABASE()"); len(
			got) != 1 ||
			!strings.Contains(got[0], otherName.User) {
			t.Errorf("the owner is %q, want %s", got, otherName)
		}
	})
}
