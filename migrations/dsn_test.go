package migrations_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/dbtest"
	"velocityd/db/engine"
	"velocityd/internal/nightly"
	"velocityd/migrations"
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
	// A port that was free a moment ago, a socket that never was, and a server
	// that takes connections and says nothing.
	closed, silent := listen(t), listen(t)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for name, address := range map[string]string{
		"no port":       "tcp(" + closed.Addr().String() + ")",
		"no socket":     "unix(" + filepath.Join(t.TempDir(), "none.sock") + ")",
		"silent server": "tcp(" + silent.Addr().String() + ")",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			ended := make(chan map[string]error, 1)
			go func() { ended <- each(ctx, "admin:hunter2@"+address+"/velocityd") }()
			select {
			case errs := <-ended:
				for call, err := range errs {
					if err == nil || strings.Contains(err.Error(), "hunter2") {
						t.Errorf("%s: got %v, want an error without the password", call, err)
					}
				}
			case <-time.After(20 * time.Second):
				t.Error("no answer long after the deadline")
			}
		})
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestAnAccountThatIsRefusedIsAnErrorWithoutThePassword(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		cfg, err := mysql.ParseDSN(engine.Empty(t).DSN)
		if err != nil {
			t.Fatal(err)
		}
		cfg.User, cfg.Passwd = "nobody_of_this_name", "hunter2"
		for call, err := range each(t.Context(), cfg.FormatDSN()) {
			var refused *mysql.MySQLError
			if !errors.As(err, &refused) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: got %v, want the engine's refusal without the password", call, err)
			}
		}
	})
}

// TestADatabaseOfAnyCollationIsMigrated is about those by default, which columns without one of their
// own take over.
func TestADatabaseOfAnyCollationIsMigrated(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		collations := []string{"utf8mb4_bin"} // all other tests have latin1_swedish_ci
		if nightly.Is() {
			collations = append(collations, "utf8mb4_unicode_ci", "utf8mb4_general_ci")
		}
		for _, collation := range collations {
			d := engine.Empty(t)
			dbtest.Exec(t, d.SQL, "ALTER DATABASE COLLATE "+collation)
			if _, err := migrations.Up(t.Context(), migrations.MySQL, d.DSN); err != nil {
				t.Errorf("%s: %v", collation, err)
			}
		}
	})
}

func TestADatabaseThatDoesNotExistIsAnError(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		cfg, err := mysql.ParseDSN(engine.Empty(t).DSN)
		if err != nil {
			t.Fatal(err)
		}
		cfg.DBName += "_not"
		for call, err := range each(t.Context(), cfg.FormatDSN()) {
			if err == nil || !strings.Contains(err.Error(), cfg.DBName) {
				t.Errorf("%s: got %v, want an error that names the database", call, err)
			}
		}
	})
}

// A server that hangs accepts a connection and says nothing.
func TestAServerThatSaysNothingIsNotWaitedForForLong(t *testing.T) {
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
