package db

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/jmoiron/sqlx"

	"velocityd/db/session"
	"velocityd/internal/engine"
	"velocityd/service"
)

// knowShards has the map of shards read if need be: at once on conn, or by a connection of the
// pool beside the checks.
func (s *Store) knowShards(ctx context.Context, conn *session.Conn) error {
	if conn.Engine != engine.Vitess {
		return nil
	}
	read := func(ctx context.Context) (*session.ShardMap, error) { return session.ReadShards(ctx, conn) }
	beside := func(ctx context.Context) (found *session.ShardMap, err error) {
		err = s.lookUps.On(ctx, func(pooled *sqlx.Conn) error {
			own, err := session.Of(pooled.Conn)
			if err == nil {
				found, err = session.ReadShards(ctx, own)
			}
			return err
		})
		return found, err
	}
	return conn.Shards.Refresh(ctx, read, beside)
}

// ShardOf returns the place of a bucket's shard, from 0, and how many shards there are, as they
// were last seen. Where the engine has no shards, or none was seen yet, that is 0 of 1. It asks
// no engine.
func (s *Store) ShardOf(bucket service.Bucket) (shard, shards int) {
	m := s.database.Shards.Newest()
	return m.Of(bucket), m.Count()
}

// checkReachable decides checks as checkBatch does. Where there are shards, it refuses the checks
// of a shard that is away, with ErrBusy in their decisions, and decides the others.
func (s *Store) checkReachable(ctx context.Context, call service.Call) ([]service.Decision, error) {
	if s.database.Shards.Newest() == nil {
		return s.checkBatch(ctx, call)
	}
	decisions := make([]service.Decision, len(call.Checks))
	for {
		var asked []service.Check
		var places []int // of asked in checks
		for i, check := range call.Checks {
			if s.database.Shards.IsAway(check) {
				decisions[i] = service.Decision{Err: service.NewBusyError(session.AwayPause, "a shard of the database is away")}
				continue
			}
			asked, places = append(asked, check), append(places, i)
		}
		if len(asked) == 0 {
			return nil, decisions[0].Err
		}
		answers, err := s.checkBatch(ctx, call.Of(asked))
		if err == nil {
			for i, place := range places {
				decisions[place] = answers[i]
			}
			return decisions, nil
		}
		// Each round leaves out the checks of one more shard.
		if !s.lostShard(err) || ctx.Err() != nil || !slices.ContainsFunc(asked, s.database.Shards.IsAway) {
			return nil, err
		}
	}
}

// lostShard says that err came from a shard that is away, before anything was recorded, and
// remembers the shard.
func (s *Store) lostShard(err error) bool {
	var away *session.AwayError
	if !errors.As(err, &away) || !away.IsOf(&s.database.Shards) {
		return false
	}
	s.database.Shards.Lose(away.Shard)
	return !errors.Is(err, service.ErrUndecided)
}

func (b *batch) shardOf(bucket service.Bucket) int { return b.shardMap.Of(bucket) }

// compare is the lock order of buckets: by shard, zone and key.
func (b *batch) compare(x, y service.Bucket) int {
	return cmp.Or(b.shardOf(x)-b.shardOf(y), x.Compare(y))
}
