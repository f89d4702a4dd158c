// Command cluster runs a Vitess cluster on the loopback, for trials and tests: `make cluster`
// and `make test-cluster` start it.
//
// Without a command it says how to reach the cluster and waits for Ctrl-C or SIGTERM. With one
// (cluster … -- go test …) it runs the command with VELOCITY_CLUSTER_DSN in its
// environment, and ends with its status. Either way it leaves no process and no file.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"velocityd/migrations"
	"velocityd/tools/enginetest/vitess"
)

// Waits.
const (
	startWait = 5 * time.Minute
	stopWait  = time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	status, err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
	}
	os.Exit(status)
}

// run returns the status to exit with.
func run(ctx context.Context, args []string) (int, error) {
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	programs := flags.String("programs", "", "the folder of Vitess' programs, as tools/vitess/programs.sh prints it")
	base := flags.Int("base-port", 0, "the first of the hundred ports to use; 0 looks for free ones")
	replicas := flags.Int("replicas", 0, "how many replicas each shard has")
	shards := flags.String("shards", "-80,80-", "the key ranges of the buckets' shards")
	migrate := flags.Bool("migrate", false, "make the tables, as velocityd migrate up does")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0, nil
	} else if err != nil {
		return 2, nil //nolint:nilerr // flags has said it
	}
	if *programs == "" {
		return 2, errors.New("give -programs \"$(tools/vitess/programs.sh)\"")
	}
	dir, err := os.MkdirTemp("", "velocityd-cluster-")
	if err != nil {
		return 1, fmt.Errorf("make a folder for the cluster: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // a rest stays in the system's folder for temporary files
	begun := time.Now()
	starting, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	c, err := vitess.Start(starting, vitess.Options{
		Programs: *programs, Dir: dir, BasePort: *base, Shards: strings.Split(*shards, ","), Replicas: *replicas,
	})
	if err != nil {
		return 1, err
	}
	defer c.Stop()
	fmt.Fprintf(os.Stderr, "cluster: up after %s\n", time.Since(begun).Round(time.Second/10))
	if *migrate {
		if _, err := migrations.Up(starting, migrations.Vitess, c.DSN()); err != nil {
			return 1, fmt.Errorf("make the tables: %w", err)
		}
	}
	if command := flags.Args(); len(command) > 0 {
		return carryOut(ctx, c, command)
	}
	return wait(ctx, c, dir)
}

// wait says how to reach the cluster and waits for ctx's end.
func wait(ctx context.Context, c *vitess.Cluster, dir string) (int, error) {
	fmt.Printf("DSN           %s\n", c.DSN())
	fmt.Printf("vtctldclient  vtctldclient %s\n", strings.Join(c.VtctldclientArgs(), " "))
	fmt.Printf("logs, data    %s (removed at the end)\n", dir)
	for _, t := range c.Tablets() {
		fmt.Printf("%s  mysqld of %s/%s: %s@tcp(127.0.0.1:%d)/vt_%s\n", t.Alias(), t.Keyspace, t.Shard, "vt_dba", t.Port(),
			t.Keyspace)
	}
	fmt.Println("Ctrl-C stops it.")
	select {
	case <-ctx.Done():
		return 0, nil
	case err := <-c.Failed():
		return 1, err
	}
}

// carryOut runs a command on the cluster and returns its status. A stop of this program stops the command,
// too.
func carryOut(ctx context.Context, c *vitess.Cluster, command []string) (int, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "VELOCITY_CLUSTER_DSN="+c.DSN())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopWait
	err := cmd.Run()
	// A process of the cluster that ended by itself explains the command's error.
	select {
	case fault := <-c.Failed():
		err = errors.Join(err, fault)
	default:
	}
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.ExitCode() > 0 {
		return ended.ExitCode(), fmt.Errorf("%s: %w", command[0], err)
	} else if err != nil {
		return 1, fmt.Errorf("%s: %w", command[0], err)
	}
	return 0, nil
}
