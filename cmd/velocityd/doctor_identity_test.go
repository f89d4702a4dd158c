package main

import (
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/cmd/velocityd/doctor"

	"github.com/go-sql-driver/mysql"

	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/handlerstest"
)

// forward has an address of TCP lead to a socket until the test's end.
func forward(t *testing.T, socket string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", socket)
			if err != nil {
				_ = client.Close()
				continue
			}
			pass := func(to, from net.Conn) {
				_, _ = io.Copy(to, from) // it ends when either side does
				_, _ = to.Close(), from.Close()
			}
			go pass(client, server)
			go pass(server, client)
		}
	}()
	return listener.Addr().String()
}

func socketOf(t *testing.T, d *enginetest.Database) *mysql.Config {
	t.Helper()
	cfg := configOf(t, d.DSN)
	if cfg.Net != "unix" {
		t.Skip("the servers are reached by their sockets")
	}
	return cfg
}

func wantFault(t *testing.T, found []service.Diagnosis, is string) {
	t.Helper()
	if !slices.ContainsFunc(
		found, func(one service.Diagnosis) bool { return one.Level == doctor.Fault && strings.Contains(one.Is, is) }) {
		t.Errorf("got %+v, want a fault that says %q", found, is)
	}
}

func TestDoctorAsksEachAddressForItsDatabase(t *testing.T) {
	t.Parallel()
	engines := enginetest.Engines(t)
	if len(engines) < 2 {
		t.Skip("two servers are needed")
	}
	d, other := engines[0].Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute}), engines[1].Empty(t)
	cfg := socketOf(t, d)
	name := "`" + cfg.DBName + "`"
	enginetest.Exec(t, other.SQL, "CREATE DATABASE "+name)
	t.Cleanup(func() { _, _ = other.SQL.Exec("DROP DATABASE " + name) })
	enginetest.Exec(t, other.SQL, "CREATE TABLE "+name+".velocity_identity (name VARCHAR(50), value VARCHAR(50))")
	enginetest.Exec(t, other.SQL, "INSERT INTO "+name+".velocity_identity VALUES ('database', UUID())")
	first, second := forward(t, cfg.Addr), forward(t, cfg.Addr)
	elsewhere, away := forward(t, socketOf(t, other).Addr), "127.0.0.1:1"
	at := func(addresses ...string) []service.Diagnosis {
		cfg.Net, cfg.Addr = "tcp", strings.Join(addresses, ",")
		_, found := consult(t, &enginetest.Database{DSN: cfg.FormatDSN()})
		return found["identity"]
	}
	if found := at(first, second); len(found) != 1 || found[0].Level != doctor.OK {
		t.Errorf("two addresses of one database: %+v", found)
	}
	wantFault(t, at(first, away), "the address "+away+": the database cannot be reached")
	wantFault(t, at(first, second, elsewhere), elsewhere+" leads to another database than "+first)
}

func TestDoctorFindsADatabaseWithoutIdentity(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
		enginetest.Exec(t, d.SQL, "DELETE FROM velocity_identity WHERE name = 'database'")
		_, found := consult(t, d)
		wantFault(t, found["identity"], "has no row 'database'")
		_, cure, _ := strings.Cut(found["identity"][0].Do, "run ")
		cure, _, _ = strings.Cut(cure, " as the owner")
		enginetest.Exec(t, d.SQL, cure)
		if code, found := consult(t, d); code != exitSuccess || found["identity"][0].Level != doctor.OK {
			t.Errorf("after %s: exit code %d, %+v", cure, code, found["identity"])
		}
	})
}

// TestDoctorNamesTheCureOfASmallStack has a server on which a routine ends in error 1436.
func TestDoctorNamesTheCureOfASmallStack(t *testing.T) {
	t.Parallel()
	var found doctor.Diagnoses
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Database(t, service.Zone{ID: 1, Rate: 5, Window: time.Minute})
		body := "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1436, MESSAGE_TEXT = 'Thread stack overrun'"
		enginetest.Exec(t, d.SQL, "DROP PROCEDURE describe_schema")
		enginetest.Exec(t, d.SQL, "CREATE PROCEDURE describe_schema() "+body)
		_, all := consult(t, d)
		wantFault(t, all["texts"],
			"thread_stack is too small for looks at the schema: set it to 1M in its configuration, and start it again")
		found = append(found, all["texts"]...)
	})
	if slices.ContainsFunc(found, func(one service.Diagnosis) bool { return strings.Contains(one.Do, "migrate up") }) {
		t.Errorf("%+v advise migrate up", found)
	}
}

// TestDoctorSaysWhyTLSFails has a server whose certificate another authority has signed than doctor believes.
func TestDoctorSaysWhyTLSFails(t *testing.T) {
	t.Parallel()
	ours, theirs, folder := handlerstest.NewAuthority(t), handlerstest.NewAuthority(t), t.TempDir()
	pair := theirs.Issue(t, "localhost")
	for name, text := range map[string][]byte{
		"ca.pem": ours.PEM, "server.pem": pair.Cert, "server.key": pair.Key,
		"theirs.pem": theirs.PEM,
	} {
		writeFile(t, folder+"/"+name, string(text))
	}
	server := enginetest.First(t).Private(t, t.TempDir(), "--ssl-ca="+folder+"/theirs.pem",
		"--ssl-cert="+folder+"/server.pem",
		"--ssl-key="+folder+"/server.key")
	cfg := socketOf(t, &enginetest.Database{DSN: enginetest.AdminDSN(server, "velocityd")})
	cfg.Net, cfg.Addr = "tcp", forward(t, cfg.Addr)
	r := command(environment{"VELOCITY_DSN": cfg.FormatDSN(), "VELOCITY_DB_TLS_CA": folder + "/ca.pem"}, nil, "doctor")
	for _, want := range []string{"the certificate of the database's server is not believed", "x509: ", "--db-tls-ca"} {
		if r.code != exitError || !strings.Contains(r.stdout, want) {
			t.Errorf("want %q, got %+v", want, r)
		}
	}
}
