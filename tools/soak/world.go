//go:build linux

package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"velocityd/client"
	"velocityd/db/localdb"
	"velocityd/tools/enginetest/program"
	"velocityd/tools/enginetest/relay"
)

// world is an engine and two instances.
type world struct {
	engine     string // name and version
	dir        string
	server     *localdb.Server
	root       *sql.DB
	instances  []*instance
	partitions int // that were added
}

// instance is a velocityd serve with an account of its own, so that its connections can be told from others'.
type instance struct {
	name, account, url string
	process            *program.Process
	client             *client.Client

	mu   sync.Mutex
	took []time.Duration // by the checks since the last sample
}

// open starts the engine and the instances on a new database.
func open(ctx context.Context, engine, temp, binary string) (_ *world, err error) {
	w := &world{dir: filepath.Join(temp, "engine")}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.server, err = program.StartEngine(ctx, engine, w.dir); err != nil {
		return nil, err
	}
	bare, err := program.OpenRoot(w.server.Socket(), "")
	if err != nil {
		return nil, err
	}
	defer bare.Close()
	if err := program.ExecAll(ctx, bare, "CREATE DATABASE velocityd"); err != nil {
		return nil, err
	}
	if w.root, err = program.OpenRoot(w.server.Socket(), "velocityd"); err != nil {
		return nil, err
	}
	if _, err := program.Run(ctx, binary, w.dsn("root"), "migrate", "up"); err != nil {
		return nil, err
	}
	if err := program.ExecAll(ctx, w.root, setUp()...); err != nil {
		return nil, err
	}
	if err := w.addGuard(ctx); err != nil {
		return nil, err
	}
	if err := w.root.QueryRowContext(ctx, "SELECT VERSION()").Scan(&w.engine); err != nil {
		return nil, err
	}
	version, _, _ := strings.Cut(w.engine, "-")
	if w.engine = "MySQL " + version; strings.HasPrefix(engine, string(localdb.MariaDB)) {
		w.engine = "MariaDB " + version
	}
	for n := 1; n <= 2; n++ {
		if err := w.start(ctx, n, binary); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *world) dsn(account string) string {
	return account + "@unix(" + w.server.Socket() + ")/velocityd"
}

// start starts an instance, and waits until it is ready.
func (w *world) start(ctx context.Context, number int, binary string) error {
	i := &instance{name: fmt.Sprint("instance ", number), account: fmt.Sprint("velocity", number)}
	if err := program.ExecAll(ctx, w.root, "CREATE USER "+i.account+"@localhost"); err != nil {
		return err
	}
	if _, err := program.Run(ctx, binary, w.dsn("root"), "migrate", "roles", "--service", i.account+"@localhost",
		"--service-edits-zones", "--yes"); err != nil {
		return err
	}
	address, err := relay.FreeAddress()
	if err != nil {
		return err
	}
	i.url = "http://" + address
	if i.client, err = client.New(i.url); err != nil {
		return err
	}
	log := filepath.Join(filepath.Dir(w.dir), i.account+".log")
	if i.process, err = program.Start(binary, w.dsn(i.account), log, "serve", "--listen", address); err != nil {
		return err
	}
	w.instances = append(w.instances, i)
	if err := program.AwaitReady(ctx, address, time.Minute); err != nil {
		said, _ := os.ReadFile(log)
		return fmt.Errorf("%w: %.2000s", err, said)
	}
	return nil
}

// close ends all processes.
func (w *world) close() {
	for _, i := range w.instances {
		i.process.Kill()
	}
	if w.root != nil {
		_ = w.root.Close()
	}
	if w.server != nil {
		program.KillEngine(w.server)
	}
}
