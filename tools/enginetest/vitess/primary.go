package vitess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Primary returns the tablet that takes the writes of a shard, as the topology names it. It may
// be unable to take any just now: see AwaitPrimary.
func (c *Cluster) Primary(ctx context.Context, keyspace, shard string) (*Tablet, error) {
	text, err := c.Vtctldclient(ctx, "GetShard", keyspace+"/"+shard)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Shard struct {
			Primary struct {
				UID int `json:"uid"`
			} `json:"primary_alias"`
		} `json:"shard"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return nil, fmt.Errorf("read what GetShard says: %w", err)
	}
	for _, t := range c.Tablets() {
		if t.uid == answer.Shard.Primary.UID {
			return t, nil
		}
	}
	return nil, fmt.Errorf("shard %s/%s has no primary", keyspace, shard)
}

// AwaitPrimary waits until a shard has a writable primary whose alias is not the given one, and returns it.
// "" stands for no alias. It gives up with ctx.
func (c *Cluster) AwaitPrimary(ctx context.Context, keyspace, shard, not string) (*Tablet, error) {
	tick := time.NewTicker(10 * pollEvery)
	defer tick.Stop()
	for {
		t, err := c.Primary(ctx, keyspace, shard)
		if err == nil && t.Alias() == not {
			err = fmt.Errorf("%s is the primary still", not)
		}
		if err == nil {
			err = c.writable(ctx, t)
		}
		if err == nil {
			return t, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for a primary of %s/%s: %w: %w", keyspace, shard, ctx.Err(), err)
		case <-tick.C:
		}
	}
}

// writable returns an error unless the tablet's mysqld takes writes.
func (c *Cluster) writable(ctx context.Context, t *Tablet) error {
	text, err := c.Vtctldclient(ctx, "GetFullStatus", t.Alias())
	if err != nil {
		return err
	}
	var answer struct {
		ReadOnly *bool `json:"read_only"`
	}
	switch err := json.Unmarshal([]byte(text), &answer); {
	case err != nil:
		return fmt.Errorf("read what GetFullStatus says: %w", err)
	case answer.ReadOnly == nil:
		return errors.New("GetFullStatus does not say whether the tablet is read-only")
	case *answer.ReadOnly:
		return fmt.Errorf("mysqld of %s is read-only", t.Alias())
	}
	return nil
}
