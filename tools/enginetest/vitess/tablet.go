package vitess

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"velocityd/db/localdb"
)

//go:embed accounts.sql
var accounts string

// Accounts returns the statements, one a line, that make the accounts by which a tablet comes
// to its MySQL server from the loopback. They have no passwords.
func Accounts() []string {
	return slices.DeleteFunc(strings.Split(accounts, "\n"), func(line string) bool {
		return line == "" || strings.HasPrefix(line, "--")
	})
}

// A mysqld that has died stays away for restartAfter.
const restartAfter = time.Second

// firstUID is the number of the first tablet.
const firstUID = 100

// Tablet is a mysqld and the vttablet in front of it. Its methods may be called from several
// goroutines.
type Tablet struct {
	Keyspace, Shard string

	uid      int
	dir      string
	database string
	isSource bool // mysqld is not the cluster's
	ports    tabletPorts
	binary   localdb.Binary
	vttablet *process
	gone     chan struct{} // closed when mysqld is not watched any more

	mu       sync.Mutex // guards the fields below
	mysqld   *localdb.Server
	lost     bool // is not to be started again
	stopping bool
}

// Alias returns the tablet's name, as vtctldclient takes it.
func (t *Tablet) Alias() string { return fmt.Sprintf("%s-%010d", cell, t.uid) }

// Port returns the port of its mysqld. root cannot log in there, vt_dba can.
func (t *Tablet) Port() int { return t.ports.mysqld }

// KillMysqld ends the tablet's mysqld by SIGKILL. It comes back about a second later, with all
// that it had committed, and can be written to again when vtorc has seen it.
func (t *Tablet) KillMysqld() error { return t.kill(false) }

// LoseMysqld ends the tablet's mysqld by SIGKILL. It stays away until ReturnMysqld.
func (t *Tablet) LoseMysqld() error { return t.kill(true) }

// ReturnMysqld lets a mysqld come back that LoseMysqld has taken away, about a second later.
func (t *Tablet) ReturnMysqld() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost = false
}

func (t *Tablet) kill(lost bool) error {
	t.mu.Lock()
	t.lost = lost
	server := t.mysqld
	t.mu.Unlock()
	if err := t.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-server.Done()
	return nil
}

// FreezeMysqld lets the tablet's mysqld keep its connections and answer no request, until ThawMysqld.
func (t *Tablet) FreezeMysqld() error { return t.signal(syscall.SIGSTOP) }

// ThawMysqld lets mysqld go on after FreezeMysqld.
func (t *Tablet) ThawMysqld() error { return t.signal(syscall.SIGCONT) }

func (t *Tablet) signal(signal syscall.Signal) error {
	if t.isSource {
		return fmt.Errorf("send %s to mysqld of %s: it is the source, which the cluster has not started", signal, t.Alias())
	}
	t.mu.Lock()
	server := t.mysqld
	t.mu.Unlock()
	if err := syscall.Kill(server.PID(), signal); err != nil {
		return fmt.Errorf("send %s to mysqld of %s: %w", signal, t.Alias(), err)
	}
	return nil
}

// template makes a folder of MySQL's that has the accounts of a tablet, and keys and a
// certificate: MySQL 9.7 replicates by TLS unless it is told not to, and Vitess 24 does not tell
// it. Copying the folder is quicker than making another.
func template(ctx context.Context, dir string, binary localdb.Binary) error {
	file := dir + ".accounts.sql"
	if err := os.WriteFile(file, []byte(accounts), 0o600); err != nil {
		return fmt.Errorf("write accounts of tablets: %w", err)
	}
	server, err := localdb.Start(ctx, localdb.Options{
		Dir: dir, Binary: binary,
		Args: []string{"--skip-log-bin", "--auto-generate-certs=ON", "--init-file=" + file},
	})
	if err != nil {
		return fmt.Errorf("make a template for tablets: %w", err)
	}
	if err := server.Stop(ctx); err != nil {
		return fmt.Errorf("make a template for tablets: %w", err)
	}
	// Every server makes a new identity.
	if err := os.Remove(filepath.Join(dir, "data", "auto.cnf")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("make a template for tablets: %w", err)
	}
	return nil
}

// startMysqld starts the tablet's mysqld on its folder, with the settings that Vitess ships for
// it (config/mycnf/mysql90.cnf). It is read only until the tablet or vtorc says otherwise.
// Commits reach the system and not the disk: they survive the end of a process, which is all
// that tests do to it.
func (t *Tablet) startMysqld(ctx context.Context) (*localdb.Server, error) {
	server, err := localdb.Start(ctx, localdb.Options{
		Dir: t.dir, Binary: t.binary, Port: t.ports.mysqld,
		Args: []string{
			"--server-id=" + strconv.Itoa(t.uid),
			"--gtid-mode=ON", "--enforce-gtid-consistency=ON",
			"--super-read-only=ON", "--skip-replica-start=ON", "--relay-log=relay", "--relay-log-recovery=ON",
			"--replica-net-timeout=8", "--report-host=" + loopback,
			"--plugin-load=rpl_semi_sync_source=semisync_source.so;rpl_semi_sync_replica=semisync_replica.so",
			"--loose-rpl-semi-sync-source-timeout=1000000000000000000", "--loose-rpl-semi-sync-source-wait-no-replica=ON",
			"--sync-binlog=0", "--innodb-flush-log-at-trx-commit=2", "--skip-innodb-doublewrite",
			"--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=20", "--max-connections=500",
		},
	})
	if err != nil {
		return nil, fmt.Errorf("start mysqld of %s: %w", t.Alias(), err)
	}
	return server, nil
}

// keep starts the tablet's mysqld again whenever it dies. It calls failed if that does not work.
func (t *Tablet) keep(failed func(error)) {
	defer close(t.gone)
	for {
		t.mu.Lock()
		server := t.mysqld
		t.mu.Unlock()
		<-server.Done()
		<-time.After(restartAfter)
		if !t.restart(failed) {
			return
		}
	}
}

// restart starts mysqld again unless it is lost. It reports whether to go on looking after it.
func (t *Tablet) restart(failed func(error)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopping {
		return false
	}
	if t.lost {
		return true
	}
	server, err := t.startMysqld(context.Background())
	if err != nil {
		failed(err)
		return false
	}
	t.mysqld = server
	return true
}

// start starts mysqld, unless a source is there, and then vttablet. It returns when the tablet can be made
// a primary.
func (t *Tablet) start(ctx context.Context, c *Cluster) error {
	if !t.isSource {
		if err := t.startOwnMysqld(ctx, c); err != nil {
			return err
		}
	}
	var err error
	t.vttablet, err = c.launch("vttablet-"+strconv.Itoa(t.uid), "vttablet", append(c.topo(),
		"--tablet-path="+t.Alias(), "--tablet-hostname="+loopback, "--init-keyspace="+t.Keyspace, "--init-shard="+t.Shard,
		"--init-tablet-type=replica", "--init-db-name-override="+t.database,
		"--db-host="+loopback, "--db-port="+strconv.Itoa(t.ports.mysqld), "--db-ssl-mode=disabled",
		"--bind-address="+loopback, "--port="+strconv.Itoa(t.ports.http),
		"--grpc-bind-address="+loopback, "--grpc-port="+strconv.Itoa(t.ports.grpc),
		"--service-map=grpc-queryservice,grpc-tabletmanager,grpc-updatestream",
		"--health-check-interval=1s", "--shutdown-grace-period=3s",
		"--queryserver-config-transaction-cap="+strconv.Itoa(transactionCap), "--queryserver-config-pool-size=64",
		"--queryserver-config-terse-errors", "--sanitize-log-messages",
	)...)
	if err != nil {
		return err
	}
	return t.vttablet.await(ctx, answers(t.ports.http, "/debug/vars"))
}

// startOwnMysqld copies the template, starts mysqld on the copy, and looks after it.
func (t *Tablet) startOwnMysqld(ctx context.Context, c *Cluster) error {
	if err := os.CopyFS(t.dir, os.DirFS(c.path("template"))); err != nil {
		return fmt.Errorf("copy template for %s: %w", t.Alias(), err)
	}
	server, err := t.startMysqld(ctx)
	if err != nil {
		return err
	}
	t.mysqld = server
	go t.keep(c.fail)
	return nil
}

// stop ends vttablet, then mysqld. A tablet that was never started is left alone.
func (t *Tablet) stop() {
	if t.vttablet != nil {
		t.vttablet.stop()
	}
	t.mu.Lock()
	t.stopping = true
	server := t.mysqld
	t.mu.Unlock()
	if server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	_ = server.Stop(ctx) // kills it in the end
	<-t.gone
}
