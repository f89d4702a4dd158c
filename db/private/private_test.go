package private

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"velocityd/migrations"
	"velocityd/tools/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

func TestPrepareRestartsAfterKilledFirstStart(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		folder := t.TempDir()
		server := engine.Private(t, t.TempDir())
		d := Database{Folder: folder, Socket: server.Socket()}
		ctx := context.Background()
		if err := d.create(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := migrations.Up(ctx, migrations.MySQL, d.DSN()); err != nil {
			t.Fatal(err)
		}
		const killed = "UPDATE velocityd.schema_migrations SET version = 3, dirty = TRUE"
		if err := d.administer(ctx, killed); err != nil {
			t.Fatal(err)
		}
		if err := d.Prepare(ctx); err != nil {
			t.Fatalf("start after one that was killed in a migration: %v", err)
		}
		if state, err := migrations.Status(ctx, migrations.MySQL, d.DSN()); err != nil || !state.IsCurrent() {
			t.Errorf("the schema is at %+v, %v, want it current", state, err)
		}
		// Now there is something to lose.
		const zone = "INSERT INTO velocityd.zone_master (id, description, rate, `window`) VALUES (1, 'mine', 5, 60)"
		if err := d.administer(ctx, zone, killed); err != nil {
			t.Fatal(err)
		}
		if err := d.Prepare(ctx); !errors.Is(err, migrations.ErrDirty) {
			t.Errorf("dirty schema with zones in it: %v, want ErrDirty", err)
		}
	})
}

// TestPrepareRefusesTheFolderOfAnotherVersion changes a database into one that an earlier or later
// program might have made.
func TestPrepareRefusesTheFolderOfAnotherVersion(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := Database{Folder: t.TempDir(), Socket: engine.Private(t, t.TempDir()).Socket()}
		for change, says := range map[string]string{
			"UPDATE velocityd.schema_migrations SET version = 116": "it is at version 116",
			fmt.Sprintf("UPDATE velocityd.schema_migrations SET version = %d",
				migrations.Latest()+1): "this program knows versions up to",
			"ALTER TABLE velocityd.zone_txn DROP COLUMN repeated_at": "no column repeated_at in a table zone_txn",
			"DROP TABLE velocityd.access_token":                      "in a table access_token",
		} {
			if err := d.Prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := d.administer(t.Context(), change); err != nil {
				t.Fatal(err)
			}
			err := d.Prepare(t.Context())
			if !errors.Is(err, migrations.ErrForeign) || !strings.Contains(err.Error(), says) ||
				!strings.Contains(err.Error(), "remove the folder "+d.Folder) {
				t.Errorf("%s: %v, want %q and the folder", change, err, says)
			}
			if err := d.administer(t.Context(), "DROP DATABASE velocityd"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestPrepareRefusesSocketUnnameableByDSN(t *testing.T) {
	t.Parallel()
	base := Database{Socket: "/home/me@work/mysql.sock"}
	if err := base.Prepare(t.Context()); !errors.Is(err, ErrSocketPath) {
		t.Errorf("got %v", err)
	}
}

func TestPasswordFileOfSomebodyElsesIsRefused(t *testing.T) {
	t.Parallel()
	base := Database{Folder: t.TempDir()}
	made, err := base.password()
	if err != nil || len(made) < 20 {
		t.Fatalf("made %q, %v", made, err)
	}
	if again, err := base.password(); err != nil || again != made {
		t.Errorf("read %q, %v", again, err)
	}
	for _, text := range []string{"", "\n", "x' OR 1=1 --", "pass word"} {
		if err := os.WriteFile(filepath.Join(base.Folder, "password"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := base.password(); err == nil || (len(text) > 3 && strings.Contains(err.Error(), text)) {
			t.Errorf("%q was taken as %q (%v)", text, got, err)
		}
	}
}

func TestDSNIsFoundWhileItIsAnnounced(t *testing.T) {
	t.Parallel()
	base := Database{Folder: t.TempDir(), Socket: "/run/mysql.sock"}
	if _, err := RunningDSN(base.Folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before: %v", err)
	}
	if err := base.Announce(); err != nil {
		t.Fatal(err)
	}
	if dsn, err := RunningDSN(base.Folder); err != nil || dsn != "root@unix(/run/mysql.sock)/velocityd" {
		t.Errorf("announced %q, %v", dsn, err)
	}
	info, err := os.Stat(filepath.Join(base.Folder, "dsn"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v (%v), want it closed to others", info, err)
	}
	base.Withdraw()
	if _, err := RunningDSN(base.Folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after: %v", err)
	}
}
