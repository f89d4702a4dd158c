//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"velocityd/tools/enginetest/program"
	"velocityd/tools/enginetest/relay"
)

// instance is a velocityd serve. One fault at a time replaces its process.
type instance struct {
	*world

	number  int
	binary  string
	process *program.Process
	busy    sync.Mutex // of process
	address string     // HTTP
	grpcAt  string
	grpc    *grpc.ClientConn
	outages []span // while it was killed, stopped or starting
}

// newInstance starts an instance on addresses that it keeps.
func newInstance(w *world, number int) (i *instance, err error) {
	i = &instance{world: w, number: number, binary: w.begins}
	if i.address, err = relay.FreeAddress(); err == nil {
		i.grpcAt, err = relay.FreeAddress()
	}
	if err == nil {
		i.grpc, err = grpc.NewClient(i.grpcAt, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	if err == nil {
		err = i.start()
	}
	return i, err
}

func (i *instance) start() (err error) {
	i.process, err = program.Start(i.binary, "velocity@tcp("+i.relays[i.number].Address()+")/velocityd", i.log(),
		"serve", "--listen", i.address, "--grpc-listen", i.grpcAt)
	return err
}

func (i *instance) log() string {
	return filepath.Join(i.dir, fmt.Sprintf("instance-%d.log", i.number))
}

// away notes that the process cannot answer while a function runs.
func (i *instance) away(do func()) {
	i.busy.Lock()
	defer i.busy.Unlock()
	i.mu.Lock()
	n := len(i.outages)
	i.outages = append(i.outages, span{i.now(), forever})
	i.mu.Unlock()
	do()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.outages[n].end = i.now()
}

// wasOut says that the process could not answer at some time of a span.
func (i *instance) wasOut(s span) bool { return slices.ContainsFunc(i.outages, s.meets) }
