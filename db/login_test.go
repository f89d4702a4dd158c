package db

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/handlerstest"
)

// MySQL refuses an account with an expired password when it connects, and MariaDB refuses its first
// statement.
func TestNewAccountIsReadAfterPasswordExpires(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 1000, time.Hour))
		old, renewed := d.ServiceAccount(t), d.ServiceAccount(t)
		account, _ := accountOf(t, old)
		enginetest.Exec(t, d.SQL, "ALTER USER "+account+" PASSWORD EXPIRE")
		store := connect(t, old, session.Options{Reread: func() (string, error) { return renewed.DSN, nil }})
		if _, err := ask(t.Context(), store, check(user("alice"))); err != nil {
			t.Errorf("check: %v", err)
		}
		if _, err := store.Records.Zones(t.Context()); err != nil {
			t.Errorf("look-up: %v", err)
		}
	})
}

// TestNewPasswordIsReadWhenOldIsRefused changes the account's password under a store
// that goes on.
func TestNewPasswordIsReadWhenOldIsRefused(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 1000, time.Hour))
		narrow := d.ServiceAccount(t)
		account, _ := accountOf(t, narrow)
		var written atomic.Pointer[string]
		written.Store(&narrow.DSN)
		var readings atomic.Int32
		store := connect(t, narrow, session.Options{Reread: func() (string, error) {
			readings.Add(1)
			if *written.Load() == "" {
				return "", errors.New("the file is gone")
			}
			return *written.Load(), nil
		}})
		works := func(when string, want error) {
			t.Helper()
			for _, question := range [][]service.Check{check(user("alice")), check(user("alice"), user("bob"))} {
				if _, err := ask(t.Context(), store, question); !errors.Is(err, want) || errors.Is(err, service.ErrInvalid) {
					t.Errorf("%s: %v, want %v", when, err, want)
				}
			}
			if _, err := store.Records.Zones(t.Context()); !errors.Is(err, want) {
				t.Errorf("%s: look-up: %v, want %v", when, err, want)
			}
		}
		letGo := func() {
			for _, pool := range []interface{ SetMaxIdleConns(int) }{store.checks, store.lookUps.Conns} {
				pool.SetMaxIdleConns(-1) // closes the idle ones, and keeps none
			}
		}
		works("at first", nil)
		enginetest.Exec(t, d.SQL, "ALTER USER "+account+" IDENTIFIED BY 'second'")
		works("on the connections of before", nil)
		if n := readings.Load(); n != 0 {
			t.Errorf("the DSN was read %d times without need", n)
		}
		letGo()
		works("before the new one is written", service.ErrForbidden)
		gone := ""
		written.Store(&gone)
		works("without the file", service.ErrForbidden)
		half := narrow.DSN[:len(narrow.DSN)/2]
		written.Store(&half)
		works("while it is being written", service.ErrForbidden)
		renewed := strings.Replace(narrow.DSN, ":pass@", ":second@", 1)
		written.Store(&renewed)
		works("after it is written", nil)
		before := readings.Load()
		works("later", nil)
		if n := readings.Load(); n != before {
			t.Errorf("the DSN is read for each connection: %d, then %d times", before, n)
		}
	})
}

// authority signs certificates of one test.
type authority struct {
	*handlerstest.Authority
	file string // its certificate
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	a := authority{handlerstest.NewAuthority(t), filepath.Join(t.TempDir(), "ca.pem")}
	if err := os.WriteFile(a.file, a.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// sign makes a certificate of a name, and returns its file and that of its key.
func (a authority) sign(t *testing.T, name string) (certFile, keyFile string) {
	t.Helper()
	files := handlerstest.NewMount(t, a.Issue(t, name))
	return files.Cert(), files.Key()
}

// TestTLSToTheDatabaseVerifiesBothSides asks a server that has TLS, as an account that needs
// TLS and as one that needs a certificate.
func TestTLSToTheDatabaseVerifiesBothSides(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		ours, stranger := newAuthority(t), newAuthority(t)
		serverCert, serverKey := ours.sign(t, "server")
		clientCert, clientKey := ours.sign(t, "velocity")
		port := enginetest.FreePort(t)
		server := engine.Private(t, t.TempDir(), "--skip-networking=0", fmt.Sprint("--port=", port),
			"--bind-address=127.0.0.1",
			"--ssl-ca="+ours.file, "--ssl-cert="+serverCert, "--ssl-key="+serverKey)
		d := enginetest.Empty(t, enginetest.AdminDSN(server, ""))
		cfg, err := mysql.ParseDSN(d.DSN)
		if err != nil {
			t.Fatal("parse dsn: unreadable")
		}
		for user, need := range map[string]string{"by_tls": "SSL", "by_cert": "X509"} {
			enginetest.Exec(t, d.SQL, "CREATE USER "+user+"@'127.0.0.1' IDENTIFIED BY 'pass' REQUIRE "+need)
			enginetest.Exec(t, d.SQL, "GRANT ALL ON "+cfg.DBName+".* TO "+user+"@'127.0.0.1'")
		}
		connects := func(user, host string, files session.TLSFiles) error {
			dsn, err := session.WithTLS(fmt.Sprintf("%s:pass@tcp(%s:%d)/%s", user, host, port, cfg.DBName), files)
			if err != nil {
				t.Fatal(err)
			}
			if err := session.CheckDSN(dsn); err != nil {
				t.Error(err)
			}
			p := probe(t, dsn)
			_, _, err = p.SchemaVersion(t.Context())
			return err
		}
		name := cfg.DBName
		anyHost := func(ca string) error { // by the CA alone
			cfg.DBName = name + "?tls=verify-ca"
			defer func() { cfg.DBName = name }()
			return connects("by_tls", "localhost", session.TLSFiles{CA: ca})
		}
		if err := anyHost(ours.file); err != nil {
			t.Errorf("a certificate of our CA for another host: %v", err)
		}
		if err := anyHost(stranger.file); !session.IsUnverified(err) {
			t.Errorf("a certificate of another CA: %v", err)
		}
		withCert := session.TLSFiles{CA: ours.file, Cert: clientCert, Key: clientKey}
		for name, c := range map[string]struct {
			user, host string
			files      session.TLSFiles
			want       string
		}{
			"by TLS": {"by_tls", "127.0.0.1", session.TLSFiles{CA: ours.file}, ""},
			// MySQL refuses to take a password.
			"without TLS": {"by_tls", "127.0.0.1", session.TLSFiles{}, "read schema version"},
			"another authority": {
				"by_tls", "127.0.0.1",
				session.TLSFiles{CA: stranger.file},
				"certificate signed by unknown authority",
			},
			"another host":                 {"by_tls", "localhost", session.TLSFiles{CA: ours.file}, "certificate is"},
			"by a certificate":             {"by_cert", "127.0.0.1", withCert, ""},
			"a certificate that is absent": {"by_cert", "127.0.0.1", session.TLSFiles{CA: ours.file}, "1045"},
		} {
			err := connects(c.user, c.host, c.files)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		}
	})
}

func TestWithTLSRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.sign(t, "velocity")
	const dsn = "velocity:hunter2@tcp(db.example:3306)/velocityd"
	for _, c := range []struct {
		dsn   string
		files session.TLSFiles
		want  string
	}{
		{dsn, session.TLSFiles{CA: a.file}, ""},
		{dsn + "?timeout=2s", session.TLSFiles{CA: a.file, Cert: cert, Key: key}, ""},
		{dsn + "?tls=true", session.TLSFiles{}, ""},
		{dsn + "?tls=verify-ca", session.TLSFiles{}, "--db-tls-ca"},
		{dsn + "?tls=verify-ca", session.TLSFiles{Cert: cert, Key: key}, "--db-tls-ca"},
		{dsn + "?tls=true", session.TLSFiles{CA: a.file}, "leave one out"},
		{"root@unix(/run/mysqld.sock)/velocityd", session.TLSFiles{CA: a.file}, "leads to a socket"},
		{dsn, session.TLSFiles{CA: a.file + ".gone"}, "no such file"},
		{dsn, session.TLSFiles{CA: key}, "holds no certificate"},
		{dsn, session.TLSFiles{Cert: cert}, "needs both files"},
		{dsn, session.TLSFiles{Cert: cert, Key: a.file}, "read client certificate"},
		{"hunter2", session.TLSFiles{CA: a.file}, "cannot be read"},
	} {
		got, err := session.WithTLS(c.dsn, c.files)
		switch {
		case c.want == "" && (err != nil || session.CheckDSN(got) != nil || !strings.HasPrefix(got, c.dsn)):
			t.Errorf("%+v: %v, %v", c, err, session.CheckDSN(got))
		case c.want != "" && (!errors.Is(err, service.ErrInvalid) || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestAnotherDatabaseBehindTheAddressIsRefused(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, zone(1, 5, time.Hour))
		p := enginetest.Through(t, d.DSN)
		var told atomic.Int64
		o := session.Options{DSN: p.DSN, Observe: func(e session.Event) {
			if e == session.OtherDatabase {
				told.Add(1)
			}
		}}
		store := connect(t, &enginetest.Database{DSN: p.DSN}, o)
		probe := store.Probe()
		decided(t, store, user("alice"))
		var identity string
		if err := d.SQL.QueryRow("SELECT value FROM velocity_identity WHERE name = 'database'").Scan(&identity); err != nil ||
			len(identity) != 36 {
			t.Fatalf("identity %q, %v", identity, err)
		}
		enginetest.Exec(t, d.SQL, "UPDATE velocity_identity SET value = UUID() WHERE name = 'database'")
		p.Cut()
		for range 3 {
			if _, err := ask(t.Context(), store, check(user("alice"))); !errors.Is(err, service.ErrAway) {
				t.Errorf("a check at another database: %v", err)
			}
		}
		if _, err := store.Records.Zones(t.Context()); !errors.Is(err, service.ErrAway) {
			t.Errorf("a look-up at another database: %v", err)
		}
		if err := probe.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "another database") ||
			told.Load() < 3 {
			t.Errorf("readiness says %v, %d refusals were told", err, told.Load())
		}
		enginetest.Exec(t, d.SQL, "UPDATE velocity_identity SET value = ? WHERE name = 'database'", identity)
		if _, err := ask(t.Context(), store, check(user("alice"))); err != nil {
			t.Errorf("back at its own: %v", err)
		}
	})
}
