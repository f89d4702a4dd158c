package localdb_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/localdb"
	"velocityd/tools/enginetest"
)

func TestDataSurvivesARestart(t *testing.T) {
	onEachEngine(t, func(t *testing.T, b localdb.Binary) {
		o := localdb.Options{Dir: newFolder(t), Binary: b}
		s := start(t, o)
		exec(t, s, "CREATE DATABASE d", "CREATE TABLE d.t (v INT)", "INSERT INTO d.t VALUES (42)")
		if err := s.Stop(patiently(t)); err != nil {
			t.Fatalf("Stop: %v", err)
		}
		if err := s.Err(); err != nil {
			t.Errorf("Err after Stop is %v, want nil", err)
		}
		if _, err := os.Stat(s.Socket()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is still there after Stop: %v", err)
		}
		if got := query(t, start(t, o), "SELECT v FROM d.t"); got != "42" {
			t.Errorf("v is %s after a restart, want 42", got)
		}
	})
}

func TestServerIsDurableAndPrivate(t *testing.T) {
	onEachEngine(t, func(t *testing.T, b localdb.Binary) {
		o := localdb.Options{Dir: folder(t, b), Binary: b, Args: []string{"--max-connections=77"}}
		s := start(t, o)
		for statement, want := range map[string]string{
			"SELECT @@sync_binlog":                                      "1",
			"SELECT @@innodb_flush_log_at_trx_commit":                   "1",
			"SELECT @@log_bin":                                          "1",
			"SELECT @@binlog_format":                                    "ROW",
			"SELECT @@character_set_server":                             "utf8mb4",
			"SELECT @@skip_networking":                                  "1",
			"SELECT @@max_connections":                                  "77", // Args win
			"SELECT @@sql_mode LIKE '%STRICT_TRANS_TABLES%'":            "1",
			"SELECT CURRENT_USER()":                                     "root@localhost",
			"SELECT COUNT(*) FROM mysql.user WHERE User = ''":           "0",
			"SELECT COUNT(*) FROM mysql.user WHERE User = 'root'":       "1",
			"SELECT COUNT(*) FROM mysql.user WHERE Host <> 'localhost'": "0",
		} {
			if got := query(t, s, statement); got != want {
				t.Errorf("%s: got %s, want %s", statement, got, want)
			}
		}
		const tests = "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name LIKE 'test%'"
		if got := query(t, s, tests); got != "0" {
			t.Errorf("%s test databases, which anybody may write to", got)
		}
		info, err := os.Stat(o.Dir)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("folder's mode is %v (%v), want 0700", info.Mode(), err)
		}
	})
}

func TestSecondStartOnAFolderIsRefused(t *testing.T) {
	onOneEngine(t, func(t *testing.T, b localdb.Binary) {
		o := localdb.Options{Dir: folder(t, b), Binary: b}
		s := start(t, o)
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(o.Dir, link); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{o.Dir, link} {
			_, err := localdb.Start(t.Context(), localdb.Options{Dir: dir, Binary: b})
			wantErr(t, err, localdb.ErrInUse, o.Dir, strconv.Itoa(os.Getpid()))
		}
		if got := query(t, s, "SELECT 1"); got != "1" {
			t.Errorf("the first server answers %s, want 1", got)
		}
	})
}

func TestKilledServerIsReportedAndRecovers(t *testing.T) {
	onOneEngine(t, func(t *testing.T, b localdb.Binary) {
		o := localdb.Options{Dir: folder(t, b), Binary: b}
		s := start(t, o)
		exec(t, s, "CREATE DATABASE d", "CREATE TABLE d.t (v INT) ENGINE=InnoDB", "INSERT INTO d.t VALUES (42)")
		if err := syscall.Kill(s.PID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-s.Done()
		wantErr(t, s.Err(), nil, "killed", filepath.Join(o.Dir, "server.log"))
		if err := s.Stop(t.Context()); err != nil {
			t.Errorf("Stop of a server that has ended: %v", err)
		}
		if got := query(t, start(t, o), "SELECT v FROM d.t"); got != "42" {
			t.Errorf("v is %s after a crash, want 42", got)
		}
	})
}

func TestStopMayBeCalledAgainAndAtOnce(t *testing.T) {
	onOneEngine(t, func(t *testing.T, b localdb.Binary) {
		s := start(t, localdb.Options{Dir: folder(t, b), Binary: b})
		ctx := patiently(t)
		stop := func() {
			if err := s.Stop(ctx); err != nil {
				t.Errorf("Stop: %v", err)
			}
		}
		atOnce(stop, stop, stop)
		stop()
	})
}

func TestStopKillsAtItsDeadline(t *testing.T) {
	onOneEngine(t, func(t *testing.T, b localdb.Binary) {
		s := start(t, localdb.Options{Dir: folder(t, b), Binary: b})
		if err := syscall.Kill(s.PID(), syscall.SIGSTOP); err != nil { // deaf to SIGTERM
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		wantErr(t, s.Stop(ctx), context.DeadlineExceeded, "killed")
		<-s.Done()
	})
}

func TestFolderWithALongNameWorks(t *testing.T) {
	onOneEngine(t, func(t *testing.T, b localdb.Binary) {
		dir := filepath.Join(t.TempDir(), strings.Repeat("long name ", 15))
		s := start(t, localdb.Options{Dir: dir, Binary: b})
		if got := query(t, s, "SELECT 1"); got != "1" {
			t.Errorf("got %s, want 1", got)
		}
		private := filepath.Dir(s.Socket())
		info, err := os.Stat(private)
		if err != nil || info.Mode().Perm() != 0o700 || strings.HasPrefix(private, dir) {
			t.Errorf("socket's folder is %s, %v (%v), want a private one elsewhere", private, info.Mode(), err)
		}
		stopNow(s)
		if _, err := os.Stat(private); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("socket's folder is still there: %v", err)
		}
	})
}

func TestPortListensOnTheLoopbackAlone(t *testing.T) {
	onEachEngine(t, func(t *testing.T, b localdb.Binary) {
		port := enginetest.FreePort(t)
		s := start(t, localdb.Options{Dir: folder(t, b), Binary: b, Port: port})
		exec(t, s, "CREATE USER app@'127.0.0.1' IDENTIFIED BY 'secret'")
		cfg := mysql.NewConfig()
		cfg.Net, cfg.Addr, cfg.User, cfg.Passwd = "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), "app", "secret"
		cfg.TLSConfig = "preferred"
		if err := open(t, cfg).PingContext(t.Context()); err != nil {
			t.Errorf("app by TCP: %v", err)
		}
		cfg.User, cfg.Passwd = "root", ""
		if err := open(t, cfg).PingContext(t.Context()); err == nil {
			t.Error("root without a password may log in by TCP")
		}
		refuseOtherAddresses(t, port)
	})
}

// refuseOtherAddresses dials the port on every address of the machine that is not a
// loopback's.
func refuseOtherAddresses(t *testing.T, port int) {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		ip, ok := a.(*net.IPNet)
		if !ok || ip.IP.IsLoopback() || ip.IP.To4() == nil {
			continue
		}
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(ip.IP.String(), strconv.Itoa(port)), time.Second)
		if err == nil {
			_ = conn.Close()
			t.Errorf("the server listens on %s", ip.IP)
		}
	}
}

func TestFailedStartShowsTheLogAtOnce(t *testing.T) {
	onOneEngine(t, func(t *testing.T, b localdb.Binary) {
		o := localdb.Options{Dir: folder(t, b), Binary: b, Args: []string{"--no-such-option"}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // not by running into a deadline
		defer cancel()
		_, err := localdb.Start(ctx, o)
		wantErr(t, err, nil, "no-such-option", "ended by itself")
		o.Args = nil
		start(t, o)
	})
}

func TestStartEndsWithItsContext(t *testing.T) {
	onOneEngine(t, func(t *testing.T, b localdb.Binary) {
		o := localdb.Options{Dir: newFolder(t), Binary: b}
		ctx, cancel := context.WithCancel(patiently(t))
		go cancelWhen(ctx, cancel, func() bool { // in the middle of the initialisation
			found, _ := filepath.Glob(filepath.Join(o.Dir, "init.*", "data", "*"))
			return len(found) > 0
		})
		_, err := localdb.Start(ctx, o)
		wantErr(t, err, context.Canceled)
		if entries, _ := filepath.Glob(filepath.Join(o.Dir, "[di]*")); len(entries) > 0 {
			t.Errorf("left behind: %v", entries)
		}
		start(t, o)
	})
}

// cancelWhen cancels the context as soon as the claim holds.
func cancelWhen(ctx context.Context, cancel context.CancelFunc, holds func() bool) {
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func TestServerThatNeverAnswersIsKilled(t *testing.T) {
	t.Parallel()
	dir := newFolder(t)
	madeFolder(t, dir, "mysql 1.0.0")
	silent := localdb.Binary{
		Engine: localdb.MySQL, Version: "1.0.0",
		Path: script(t, "mysqld", "echo up and silent; exec sleep 1000"),
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // enough for it to say so
	defer cancel()
	_, err := localdb.Start(ctx, localdb.Options{Dir: dir, Binary: silent})
	wantErr(t, err, context.DeadlineExceeded, "up and silent")
}

// A MariaDB that starts deletes the temporary tables in its tmpdir, also those of other
// servers: on a shared one about one initialisation in six failed.
func TestMariaDBsInitialiseAtOnce(t *testing.T) {
	t.Parallel()
	b := findEngine(t, localdb.MariaDB1011)
	ctx := patiently(t)
	one := func() {
		s, err := localdb.Start(ctx, localdb.Options{Dir: newFolder(t), Binary: b})
		if err != nil {
			t.Error(err)
			return
		}
		stopNow(s)
	}
	atOnce(one, one, one, one)
}

// madeFolder makes a folder that looks like one of an earlier run.
func madeFolder(t *testing.T, dir, engine string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"lock": "1\n", "engine": engine + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(fmt.Errorf("make folder: %w", err))
		}
	}
}
