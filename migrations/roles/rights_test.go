package roles_test

import (
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"velocityd/migrations"
	"velocityd/migrations/roles"
	"velocityd/tools/enginetest"
)

// TestTheOwnersGrantsAreEnough migrates as the owner of the schema, on a server with a
// binary log.
func TestTheOwnersGrantsAreEnough(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := enginetest.Empty(t, enginetest.AdminDSN(engine.Private(t, t.TempDir()), ""))
		cfg, err := mysql.ParseDSN(d.DSN)
		if err != nil {
			t.Fatal(err)
		}
		cfg.User, cfg.Passwd = "velocity_admin", "pass"
		owner := cfg.FormatDSN()
		enginetest.Exec(t, d.SQL, "CREATE USER velocity_admin@localhost IDENTIFIED BY 'pass'")
		for _, statement := range roles.GrantStatements(migrations.MySQL, roles.Owner, cfg.DBName,
			roles.Account{User: cfg.User, Host: "localhost"}) {
			enginetest.Exec(t, d.SQL, statement)
		}
		untrusted := func(what string) {
			t.Helper()
			if _, err := migrations.Up(t.Context(), migrations.MySQL, owner); err == nil ||
				!strings.Contains(err.Error(), "log_bin_trust_function_creators = 1") {
				t.Errorf("%s without the server's trust: %v", what, err)
			}
		}
		trust := func(setting string) {
			t.Helper()
			enginetest.Exec(t, d.SQL, "SET GLOBAL log_bin_trust_function_creators = "+setting)
		}

		trust("0")
		untrusted("a first installation")
		if state, err := migrations.Status(t.Context(), migrations.MySQL, d.DSN); err != nil ||
			state.Version != migrations.Latest()-1 ||
			state.Dirty {
			t.Errorf("afterwards the schema is %+v, %v", state, err)
		}
		trust("1")
		for _, state := range []struct { // in this order: a trigger that is dropped must be there
			name  string
			bring func()
		}{
			{"nothing", func() {}},
			{"an older program", func() { d.Outdate(t) }},
			{"a trigger's DROP", func() { enginetest.Exec(t, d.SQL, "DROP TRIGGER zone_master_after_delete") }},
		} {
			state.bring()
			if _, err := migrations.Up(t.Context(), migrations.MySQL, owner); err != nil {
				t.Errorf("after %s: %v", state.name, err)
			}
		}
		trust("0")
		d.Outdate(t, triggers(t)...)
		untrusted("new triggers")
		if n := d.Count(t, "SELECT COUNT(*) FROM information_schema.triggers WHERE trigger_schema = DATABASE()"); n != 18 {
			t.Errorf("%d triggers are left of 18", n)
		}
		if _, err := migrations.Down(t.Context(), migrations.MySQL, owner, 0); err != nil {
			t.Errorf("down without the server's trust: %v", err)
		}
	})
}

// triggers are the names of all.
func triggers(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, r := range migrations.Expected() {
		if r.Kind == "TRIGGER" {
			names = append(names, r.Name)
		}
	}
	return names
}
