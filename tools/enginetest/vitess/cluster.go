// Package vitess runs a Vitess cluster of real processes on the loopback: etcd, vtctld, a mysqld
// and a vttablet for each shard and replica, two vtgates and vtorc. It is for tests only, knows
// nothing of zones and checks, and installs no software: tools/vitess/programs.sh does.
package vitess

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"velocityd/db/localdb"
)

// The keyspaces. The DSN names the one with all tables but those of the buckets, which lie in the other
// one, on shards.
const (
	Keyspace = "velocityd"
	Buckets  = "velocityd_buckets"
)

const (
	cell     = "zone1"
	loopback = "127.0.0.1"
	// transactionCap bounds the open transactions of a tablet.
	transactionCap = 200
	// commandWait bounds one run of vtctldclient.
	commandWait = 2 * time.Minute
)

// Options configure a cluster. Programs and Dir are required.
type Options struct {
	// Programs is the folder that has etcd, vtctld, vtctldclient, vtgate, vtorc and vttablet:
	// tools/vitess/programs.sh prints it.
	Programs string
	// Dir is a folder for all files of the cluster, empty or new. Stop leaves it there. Root runs
	// the servers as another user, which needs access to it.
	Dir string
	// BasePort is the first of the hundred ports that the cluster uses. They should be below
	// those that the system gives to outgoing connections (on Linux 32768). 0 looks for a
	// hundred that are free.
	BasePort int
	// Shards are the shards of the keyspace Buckets; the default is -80 and 80-.
	Shards []string
	// Replicas is the number of further mysqlds of each shard. With replicas, a commit returns when one of
	// them has it (semi_sync), and vtorc makes one of them the primary after the loss of the primary.
	Replicas int
	// Source is the database behind the tablet of Keyspace. With it there are no Replicas, and Start does
	// not make the keyspace Buckets: AddKeyspace does, before tables are moved there. Nil makes a MySQL
	// server for that tablet, too.
	Source *Source
}

// Source is a database on a MySQL server that the cluster neither starts nor stops. The server
// listens on the loopback, has gtid_mode=ON, and has the accounts that Accounts makes.
type Source struct {
	Port     int
	Database string
}

// Cluster is a running cluster. Its methods may be called from several goroutines.
type Cluster struct {
	options Options
	binary  localdb.Binary
	failed  chan error

	mu      sync.Mutex // guards the fields below
	etcd    *process
	others  []*process // vtctld and vtorc
	vtgates []*process
	tablets []*Tablet
}

// Start starts a cluster without tables and returns when statements reach all its shards. ctx
// bounds the start and NOT the cluster's life, which lasts until Stop. Where a process fails,
// the error names it and ends with the end of its log, and nothing is left running.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	if len(o.Shards) == 0 {
		o.Shards = []string{"-80", "80-"}
	}
	if o.Source != nil && o.Replicas > 0 {
		return nil, errors.New("start cluster: a source has no replicas")
	}
	binary, err := localdb.Find(ctx, localdb.MySQL)
	if err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	if o.BasePort, err = claimPorts(ctx, o.BasePort); err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	if o.Dir, err = makeFolder(o.Dir); err != nil {
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	c := &Cluster{options: o, binary: binary, failed: make(chan error, 1)}
	if err := c.start(ctx); err != nil {
		c.Stop()
		return nil, fmt.Errorf("start cluster: %w", err)
	}
	return c, nil
}

// makeFolder makes the folder of the cluster, which the user of the servers may write to.
// The error says so if it holds files already.
func makeFolder(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("resolve folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the servers run as another user
		return "", fmt.Errorf("make folder: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("read folder: %w", err)
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("folder %s holds files (such as %s): name an empty or new one", dir, entries[0].Name())
	}
	if os.Getuid() != 0 {
		return dir, nil
	}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		return "", fmt.Errorf("give folder to the servers: %w", err)
	}
	return dir, passable(filepath.Dir(dir))
}

// passable returns an error if a folder, or one that it is in, is closed to the user that the
// servers run as.
func passable(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("look at folder: %w", err)
	case info.Mode().Perm()&0o001 == 0:
		return fmt.Errorf("folder %s is closed to user %d, as which root runs the servers: set TMPDIR to another", dir,
			nobody)
	case dir == filepath.Dir(dir):
		return nil
	}
	return passable(filepath.Dir(dir))
}

func (c *Cluster) path(name string) string { return filepath.Join(c.options.Dir, name) }

// launch starts a program of the cluster and reports its end, should that come by itself.
func (c *Cluster) launch(name, program string, args ...string) (*process, error) {
	p, err := launch(c.options.Dir, name, filepath.Join(c.options.Programs, program), args...)
	if err != nil {
		return nil, err
	}
	go func() {
		<-p.done
		if p.err != nil {
			c.fail(p.err)
		}
	}()
	return p, nil
}

func (c *Cluster) fail(err error) {
	select {
	case c.failed <- err:
	default: // the first one counts
	}
}

// Failed returns a channel that gives the error of the first process that has ended by itself.
// A mysqld that dies is started again and is no failure.
func (c *Cluster) Failed() <-chan error { return c.failed }

// start brings everything up in order.
func (c *Cluster) start(ctx context.Context) error {
	err := together(
		func() error { return c.startTopology(ctx) },
		func() error { return template(ctx, c.path("template"), c.binary) },
	)
	if err != nil {
		return err
	}
	if err := c.AddKeyspace(ctx, Keyspace, "0"); err != nil {
		return err
	}
	if c.options.Source == nil {
		if err := c.AddKeyspace(ctx, Buckets, c.options.Shards...); err != nil {
			return err
		}
	}
	if err := c.startVtorc(ctx); err != nil {
		return err
	}
	return c.startVtgates(ctx)
}

// startTopology starts etcd, and vtctld, by which it writes the cell into it.
func (c *Cluster) startTopology(ctx context.Context) error {
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	if err := c.startVtctld(ctx); err != nil {
		return err
	}
	_, err := c.Vtctldclient(ctx, "AddCellInfo", "--root=/vitess/"+cell,
		"--server-address="+address(c.options.BasePort+etcdPort), cell)
	return err
}

// AddKeyspace makes a keyspace without tables, whose commits wait for a replica if there are
// any, and adds its shards.
func (c *Cluster) AddKeyspace(ctx context.Context, keyspace string, shards ...string) error {
	durability := "none"
	if c.options.Replicas > 0 {
		durability = "semi_sync"
	}
	if _, err := c.Vtctldclient(ctx, "CreateKeyspace", "--durability-policy="+durability, keyspace); err != nil {
		return err
	}
	return c.AddShards(ctx, keyspace, shards...)
}

// startVtctld starts vtctld, which carries out the commands of vtctldclient. The client can do most of them
// by itself, but not switch the traffic of shards.
func (c *Cluster) startVtctld(ctx context.Context) error {
	vtctld, err := c.launch("vtctld", "vtctld", append(c.topo(), "--cell="+cell, "--service-map=grpc-vtctl,grpc-vtctld",
		"--bind-address="+loopback, "--port="+strconv.Itoa(c.options.BasePort+vtctldPort),
		"--grpc-bind-address="+loopback, "--grpc-port="+strconv.Itoa(c.options.BasePort+vtctldGRPCPort))...)
	if err != nil {
		return err
	}
	c.own(func() { c.others = append(c.others, vtctld) })
	return vtctld.await(ctx, answers(c.options.BasePort+vtctldPort, "/debug/vars"))
}

// AddShards starts the tablets of further shards, which have no tables yet, and makes the first
// tablet of each its primary.
func (c *Cluster) AddShards(ctx context.Context, keyspace string, shards ...string) error {
	var starts, elections []func() error
	for _, shard := range shards {
		fresh := c.plan(keyspace, shard)
		for _, t := range fresh {
			starts = append(starts, func() error { return t.start(ctx, c) })
		}
		elections = append(elections, func() error {
			_, err := c.Vtctldclient(ctx, "PlannedReparentShard", keyspace+"/"+shard,
				"--new-primary="+fresh[0].Alias(), "--wait-replicas-timeout=1m")
			return err
		})
	}
	if err := together(starts...); err != nil {
		return err
	}
	return together(elections...)
}

// plan numbers the tablets of a shard.
func (c *Cluster) plan(keyspace, shard string) (fresh []*Tablet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range 1 + c.options.Replicas {
		n := len(c.tablets)
		t := &Tablet{
			Keyspace: keyspace, Shard: shard, uid: firstUID + n, binary: c.binary,
			dir: c.path("mysql-" + strconv.Itoa(firstUID+n)), ports: portsOf(c.options.BasePort, n), gone: make(chan struct{}),
			database: "vt_" + keyspace,
		}
		if source := c.options.Source; source != nil && keyspace == Keyspace {
			t.isSource, t.ports.mysqld, t.database = true, source.Port, source.Database
		}
		c.tablets = append(c.tablets, t)
		fresh = append(fresh, t)
	}
	return fresh
}

// startVtorc starts vtorc, which makes a returned primary writable, or another tablet the primary.
func (c *Cluster) startVtorc(ctx context.Context) error {
	vtorc, err := c.launch("vtorc", "vtorc", append(c.topo(), "--cell="+cell,
		"--bind-address="+loopback, "--port="+strconv.Itoa(c.options.BasePort+vtorcPort),
		"--instance-poll-time=1s", "--recovery-poll-duration=1s", "--topo-information-refresh-duration=1s",
		"--prevent-cross-cell-failover=false")...)
	if err != nil {
		return err
	}
	c.own(func() { c.others = append(c.others, vtorc) })
	return vtorc.await(ctx, answers(c.options.BasePort+vtorcPort, "/debug/vars"))
}

func (c *Cluster) startVtgates(ctx context.Context) error {
	return together(
		func() error { return c.startVtgate(ctx, 0) },
		func() error { return c.startVtgate(ctx, 1) },
	)
}

// startVtgate starts the vtgate of a number. It does not buffer statements for a shard that is
// lost: with it, they would hang until their caller gives up.
func (c *Cluster) startVtgate(ctx context.Context, n int) error {
	base := c.options.BasePort
	vtgate, err := c.launch("vtgate-"+strconv.Itoa(n+1), "vtgate", append(c.topo(),
		"--cell="+cell, "--cells-to-watch="+cell, "--tablet-types-to-wait=PRIMARY",
		"--bind-address="+loopback, "--port="+strconv.Itoa(base+vtgatePort+n),
		"--grpc-bind-address="+loopback, "--grpc-port="+strconv.Itoa(base+vtgateGRPCPort+n),
		"--mysql-server-bind-address="+loopback, "--mysql-server-port="+strconv.Itoa(base+vtgateSQLPort+n),
		"--mysql-server-version=8.4.6-Vitess", "--mysql-auth-server-impl=none", "--service-map=grpc-vtgateservice",
		"--vschema-ddl-authorized-users=%", "--tablet-refresh-interval=1s")...)
	if err != nil {
		return err
	}
	c.own(func() {
		if len(c.vtgates) <= n {
			c.vtgates = slices.Grow(c.vtgates, n+1)[:n+1]
		}
		c.vtgates[n] = vtgate
	})
	return vtgate.await(ctx, answers(base+vtgatePort+n, "/debug/health"))
}

// topo are the arguments by which every program of Vitess finds etcd.
func (c *Cluster) topo() []string {
	return []string{
		"--topo-implementation=etcd2", "--topo-global-server-address=" + address(c.options.BasePort+etcdPort),
		"--topo-global-root=/vitess/global",
	}
}

// Vtctldclient runs vtctldclient against the cluster, with a deadline, and returns its output. The error
// holds its complaint.
func (c *Cluster) Vtctldclient(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.options.Programs, "vtctldclient"),
		slices.Concat(c.VtctldclientArgs(), args)...)
	cmd.Dir = c.options.Dir
	cmd.WaitDelay = time.Second
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("vtctldclient %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(problems.Bytes()))
	}
	return out.String(), nil
}

// VtctldclientArgs returns the arguments by which vtctldclient finds the cluster.
func (c *Cluster) VtctldclientArgs() []string {
	return []string{"--server=" + address(c.options.BasePort+vtctldGRPCPort)}
}

// DSN returns the data source name of the cluster. It has the addresses of both vtgates.
func (c *Cluster) DSN() string {
	first, second := address(c.options.BasePort+vtgateSQLPort), address(c.options.BasePort+vtgateSQLPort+1)
	return "velocityd@tcp(" + first + "," + second + ")/" + Keyspace
}

// Tablets returns all tablets, in the order in which they were started: the first of a shard
// was its primary then.
func (c *Cluster) Tablets() []*Tablet {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.tablets)
}

// KillVtgate ends a vtgate, 0 or 1, by SIGKILL. It stays away until StartVtgate.
func (c *Cluster) KillVtgate(n int) {
	c.mu.Lock()
	vtgate := c.vtgates[n]
	c.mu.Unlock()
	vtgate.kill()
}

// StartVtgate starts a vtgate again that KillVtgate has ended, at the same ports.
func (c *Cluster) StartVtgate(ctx context.Context, n int) error { return c.startVtgate(ctx, n) }
