package migrations_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"velocityd/internal/engine"
	"velocityd/migrations"
	"velocityd/tools/enginetest"
	"velocityd/tools/nightly"
)

// each calls Up, Down and Status.
func each(ctx context.Context, dsn string) map[string]error {
	_, status := migrations.Status(ctx, migrations.MySQL, dsn)
	_, up := migrations.Up(ctx, migrations.MySQL, dsn)
	_, down := migrations.Down(ctx, migrations.MySQL, dsn, 0)
	return map[string]error{"up": up, "down": down, "status": status}
}

func TestABadDSNIsRefusedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ dsn, says string }{
		"empty":               {"", "names no database"},
		"no database":         {"admin:hunter2@tcp(db.example:3306)/", "names no database"},
		"no slash":            {"admin:hunter2@tcp(db.example:3306)", "cannot be read"},
		"an address":          {"mysql://admin:hunter2@db.example:3306/velocityd", "cannot be read"},
		"open parenthesis":    {"admin:hunter2@tcp(db.example:3306/velocityd", "cannot be read"},
		"slash in password":   {"admin:hunter2/x@tcp(db.example:3306)velocityd", "cannot be read"},
		"unknown network":     {"admin:hunter2@hunter2/velocityd", "cannot be read"},
		"unknown TLS setting": {"admin:hunter2@tcp(db.example:3306)/velocityd?tls=hunter2", "cannot be read"},
		"bad parameter":       {"admin:hunter2@tcp(db.example:3306)/velocityd?timeout=hunter2", "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for call, err := range each(t.Context(), test.dsn) {
				if err == nil || !strings.Contains(err.Error(), test.says) {
					t.Errorf("%s: got %v, want %q", call, err, test.says)
				} else if strings.Contains(err.Error(), "hunter2") {
					t.Errorf("%s: error %q repeats the password", call, err)
				}
			}
		})
	}
}

func TestAnEngineThatIsAwayIsAnError(t *testing.T) {
	t.Parallel()
	closed, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // a port that was free a moment ago
	if err == nil {
		err = closed.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{
		"tcp(" + closed.Addr().String() + ")",
		"unix(" + filepath.Join(t.TempDir(), "none.sock") + ")",
	} {
		for call, err := range each(t.Context(), "admin:hunter2@"+address+"/velocityd") {
			if err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s at %s: got %v, want an error without the password", call, address, err)
			}
		}
	}
}

func TestRefusedLoginIsEnginesErrorWithoutPassword(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		dsn := engine.Empty(t).DSN
		for wants, change := range map[string]func(*mysql.Config){
			"nobody_of_this_name": func(c *mysql.Config) { c.User, c.Passwd = "nobody_of_this_name", "hunter2" },
			"not_there":           func(c *mysql.Config) { c.DBName = "not_there" },
		} {
			cfg, err := mysql.ParseDSN(dsn)
			if err != nil {
				t.Fatal(err)
			}
			change(cfg)
			for call, err := range each(t.Context(), cfg.FormatDSN()) {
				var refused *mysql.MySQLError
				if !errors.As(err, &refused) || !strings.Contains(err.Error(), wants) || strings.Contains(err.Error(), "hunter2") {
					t.Errorf("%s: got %v, want the engine's refusal of %s without the password", call, err, wants)
				}
			}
		}
	})
}

// TestADatabaseOfAnyCollationIsMigrated is about those by default, which columns without one of their
// own take over.
func TestADatabaseOfAnyCollationIsMigrated(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		collations := []string{"utf8mb4_bin"} // all other tests have latin1_swedish_ci
		if nightly.Is() {
			collations = append(collations, "utf8mb4_unicode_ci", "utf8mb4_general_ci")
		}
		for _, collation := range collations {
			d := engine.Empty(t)
			enginetest.Exec(t, d.SQL, "ALTER DATABASE COLLATE "+collation)
			if _, err := migrations.Up(t.Context(), migrations.MySQL, d.DSN); err != nil {
				t.Errorf("%s: %v", collation, err)
			}
		}
	})
}

// A server that hangs accepts a connection and says nothing.
func TestSilentServerIsAwaitedOnlyBriefly(t *testing.T) {
	t.Parallel()
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	dsn := "a:b@tcp(" + silent.Addr().String() + ")/velocityd"
	for _, form := range []engine.Engine{migrations.Auto, migrations.MySQL, migrations.TiDB} {
		t.Run(string(form), func(t *testing.T) {
			t.Parallel()
			_, err := migrations.Status(t.Context(), form, dsn)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
	}
}
