package vitess

import (
	"errors"
	"slices"
	"sync"
)

// Stop ends all processes, clients before servers, and returns after their end. It kills a process that
// does not end when asked. The files stay.
func (c *Cluster) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var vtgates, tablets, others []func() error
	for _, p := range c.vtgates {
		if p != nil {
			vtgates = append(vtgates, func() error { p.stop(); return nil })
		}
	}
	for _, t := range c.tablets {
		tablets = append(tablets, func() error { t.stop(); return nil })
	}
	for _, p := range slices.Backward(c.others) {
		others = append(others, func() error { p.stop(); return nil })
	}
	if c.etcd != nil {
		others = append(others, func() error { c.etcd.stop(); return nil })
	}
	for _, stops := range [][]func() error{vtgates, tablets, others} {
		_ = together(stops...) // they return no errors
	}
}

// own changes the lists of processes.
func (c *Cluster) own(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// together runs functions at once, waits for all, and joins their errors.
func together(functions ...func() error) error {
	errs := make([]error, len(functions))
	var wait sync.WaitGroup
	for i, f := range functions {
		wait.Go(func() { errs[i] = f() })
	}
	wait.Wait()
	return errors.Join(errs...)
}
