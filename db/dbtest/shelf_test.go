package dbtest

import "testing"

func TestADatabaseIsUsedAgainUnlessItsSchemaWasChanged(t *testing.T) {
	t.Parallel()
	One(t, func(t *testing.T, engine *Engine) {
		own := &Engine{Name: engine.Name, admin: engine.admin}
		for _, test := range []struct {
			name      string
			statement string
			isKept    bool
		}{
			{"rows", "INSERT INTO zone_master (id, rate, `window`) VALUES (1, 5, 60)", true},
			{"nothing", "DO 1", true},
			{"a column", "ALTER TABLE zone_txn ADD COLUMN note INT NULL", false},
			{"an index", "CREATE INDEX note ON zone_txn (blocked)", false},
			{"a table", "CREATE TABLE note (id INT)", false},
			{"a trigger", "DROP TRIGGER zone_master_after_insert", false},
			{"a procedure", "DROP PROCEDURE peek_velocity", false},
			{"a version", "UPDATE schema_migrations SET dirty = 1", false},
		} {
			var used *Database
			t.Run(test.name, func(t *testing.T) { //nolint:paralleltest // one database for all
				used = own.Database(t)
				Exec(t, used.SQL, test.statement)
			})
			next, found := own.shelf.next()
			if found != test.isKept || found && next.name != used.name {
				t.Errorf("%s: kept %v, want %v", test.name, found, test.isKept)
			}
			if !found {
				continue
			}
			own.shelf.idle = append(own.shelf.idle, next)
			t.Run("after "+test.name, func(t *testing.T) { //nolint:paralleltest // as above
				d := own.Database(t)
				if n := d.Count(t, "SELECT (SELECT COUNT(*) FROM zone_master) + (SELECT COUNT(*) FROM zone_audit)"); d.name != used.name || n != 0 {
					t.Errorf("got %s with %d rows, want %s without any", d.name, n, used.name)
				}
			})
		}
		for _, idle := range own.shelf.idle {
			d := connect(t, own.adminDSN(t), idle.name)
			d.drop()
		}
	})
}
