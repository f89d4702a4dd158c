package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"velocityd/db/session"
	"velocityd/service"
)

const (
	// allShardsPatience bounds how long all shards are asked at once, and shardPatience how long
	// one of them is. vtgate may wait for a shard that is away, in the hope that it comes back.
	allShardsPatience = 700 * time.Millisecond
	shardPatience     = 300 * time.Millisecond
)

// tryShards asks all shards at once. If a shard does not answer as it should, or if vtgate knows
// of one without a primary, it asks them one by one, and returns nil if one of them works, because
// the buckets of that one can be decided. It does NOT do so after an error of vtgate itself, which
// the buckets of all shards have in common. The others are lost: see Lost. If none works, it may be that the
// buckets are yet to be moved there: then it asks wherever vtgate finds the tables. If vtgate
// cannot list the shards, as it reads them from the cluster's topology, all of them must work, and
// they must have been listed before: no check is decided by a store that has never known them.
func (p *Probe) tryShards(ctx context.Context, reports bool) error {
	shards, unlisted := p.listShards(ctx)
	if unlisted != nil && p.database.Shards.Newest() == nil {
		return fmt.Errorf("%w: %w", session.ErrUnlisted, unlisted)
	}
	var err error
	if !slices.ContainsFunc(shards, func(s session.Shard) bool { return !s.IsServing }) {
		err = p.onConnFor(ctx, allShardsPatience, func(ctx context.Context, conn *session.Conn) error {
			return p.tryAll(ctx, conn, reports)
		})
		if err == nil {
			p.setLost(nil)
			return nil
		}
	}
	if errors.Is(err, service.ErrPaused) || isOfGate(err) {
		return err // a shard that is asked by its name may work, and vtgate still sends checks elsewhere
	}
	if unlisted != nil {
		return errors.Join(err, unlisted)
	}
	lost, lastErr := p.tryEach(ctx, shards, reports)
	if len(lost) < len(shards) {
		p.setLost(lost)
		return nil
	}
	elsewhere := p.onConn(ctx, func(ctx context.Context, conn *session.Conn) error {
		return p.tryAll(ctx, conn, reports)
	})
	switch {
	case elsewhere == nil:
		p.setLost(nil)
		return nil
	case len(shards) == 0:
		err = elsewhere
	case lastErr != nil:
		err = lastErr
	case err == nil:
		err = &UnreadyError{reason: "no shard of the buckets has a primary that serves: look at the tablets"}
	}
	p.setLost(lost)
	return err
}

// tryAll asks for a bucket of each shard at once, by the map of shards that batches go by.
func (p *Probe) tryAll(ctx context.Context, conn *session.Conn, reports bool) error {
	shards := p.database.Shards.Newest()
	buckets := make([]service.Bucket, shards.Count())
	for place := range buckets {
		buckets[place] = bucketOn(shards, place)
	}
	return tryBuckets(ctx, conn, buckets, reports)
}

// bucketOn returns a bucket on the shard that has a place in a map. While shards are split, two may have one range, and
// a place none: then the bucket is on another.
func bucketOn(shards *session.ShardMap, place int) (bucket service.Bucket) {
	const tries = 1 << 14
	for range tries {
		if bucket = unusedBucket(); shards.Of(bucket) == place {
			break
		}
	}
	return bucket
}

// isOfGate says that vtgate has refused a statement itself: it found no table of that name, or no
// plan. It names the tablet whose error it passes on. A statement that ran out of time is from neither.
func isOfGate(err error) bool {
	var gate *mysql.MySQLError
	if !errors.As(err, &gate) || gate.Number == session.NumberInterrupted {
		return false
	}
	keyspace, _ := session.TargetOf(gate.Message)
	return keyspace == ""
}

// listShards returns the shards of the buckets, as vtgate sees them.
func (p *Probe) listShards(ctx context.Context) (shards []session.Shard, err error) {
	err = p.onConnFor(ctx, allShardsPatience, func(ctx context.Context, conn *session.Conn) (err error) {
		if shards, err = conn.ShardStates(ctx); err != nil {
			return err
		}
		names := make([]string, len(shards))
		for i, shard := range shards {
			names[i] = shard.Name
		}
		return p.database.Shards.Learn(names)
	})
	if err != nil {
		return nil, err
	}
	return shards, nil
}

// tryEach asks the shards one by one, and returns the names of those that do not work. lastErr
// is that of the last one that has a primary and yet does not work.
func (p *Probe) tryEach(ctx context.Context, shards []session.Shard, reports bool) (lost []string, lastErr error) {
	for _, shard := range shards {
		if shard.IsServing {
			err := p.tryShard(ctx, shard.Name, reports)
			if err == nil {
				continue
			}
			lastErr = err
		}
		lost = append(lost, shard.Name)
	}
	return lost, lastErr
}

func (p *Probe) tryShard(ctx context.Context, name string, reports bool) error {
	start, _, isRange := strings.Cut(name, "-")
	if !isRange {
		start = "" // the only shard
	}
	ranges, err := session.NewShardMap([]string{"-" + start, name})
	if err != nil {
		return err
	}
	bucket := bucketOn(ranges, min(len(start), 1))
	return p.onConnFor(ctx, shardPatience, func(ctx context.Context, conn *session.Conn) error {
		return tryBuckets(ctx, conn, []service.Bucket{bucket}, reports)
	})
}

func (p *Probe) setLost(shards []string) { p.lost.Store(&shards) }

// Lost returns the names of the shards that the last question by Ready or ReadyForChecks found to
// decide nothing, while others do. Their buckets are answered as those of a database that is
// away. Where there are no shards, none is lost.
func (p *Probe) Lost() []string {
	if lost := p.lost.Load(); lost != nil {
		return *lost
	}
	return nil
}
