package vitess

import (
	"context"
	"fmt"
	"syscall"
)

// startEtcd starts etcd, which keeps the topology, with the data of an earlier start.
func (c *Cluster) startEtcd(ctx context.Context) error {
	client, peer := address(c.options.BasePort+etcdPort), address(c.options.BasePort+etcdPeerPort)
	etcd, err := c.launch("etcd", "etcd", "--data-dir="+c.path("etcd"), "--unsafe-no-fsync",
		"--listen-client-urls=http://"+client, "--advertise-client-urls=http://"+client,
		"--listen-peer-urls=http://"+peer, "--initial-advertise-peer-urls=http://"+peer, "--initial-cluster=default=http://"+
			peer)
	if err != nil {
		return err
	}
	c.own(func() { c.etcd = etcd })
	return etcd.await(ctx, answers(c.options.BasePort+etcdPort, "/health"))
}

// KillTopology ends etcd by SIGKILL. It stays away until StartTopology.
func (c *Cluster) KillTopology() { c.topology().kill() }

// StartTopology starts etcd again that KillTopology has ended, at the same ports, with all that
// it knew.
func (c *Cluster) StartTopology(ctx context.Context) error { return c.startEtcd(ctx) }

// FreezeTopology lets etcd keep its connections and answer no request, until ThawTopology.
func (c *Cluster) FreezeTopology() error { return c.signalTopology(syscall.SIGSTOP) }

// ThawTopology lets etcd go on after FreezeTopology.
func (c *Cluster) ThawTopology() error { return c.signalTopology(syscall.SIGCONT) }

func (c *Cluster) signalTopology(signal syscall.Signal) error {
	if err := c.topology().cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("send %s to etcd: %w", signal, err)
	}
	return nil
}

// topology returns the process that keeps the topology.
func (c *Cluster) topology() *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.etcd
}
