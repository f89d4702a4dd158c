package db

import (
	"bytes"
	"cmp"
	"context"
	"database/sql/driver"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/jmoiron/sqlx"

	"velocityd/service"
)

// shardMap is the ranges of keyspace ids that the shards of a keyspace hold, in order.
type shardMap struct {
	ends [][]byte // of each shard but the last: the first keyspace id behind it
}

// keyspaceID is where Vitess puts a bucket: the vindex xxhash of its key.
func keyspaceID(key string) [8]byte {
	var id [8]byte
	binary.LittleEndian.PutUint64(id[:], xxhash.Sum64String(key))
	return id
}

// of returns the place of a bucket's shard in the order of the shards' ranges.
func (m *shardMap) of(bucket service.Bucket) int {
	if m == nil || len(m.ends) == 0 {
		return 0
	}
	id := keyspaceID(bucket.Key)
	place, found := slices.BinarySearchFunc(m.ends, id[:], bytes.Compare)
	if found {
		place++ // a shard ends before the id that its name ends with
	}
	return place
}

// count returns how many shards there are.
func (m *shardMap) count() int {
	if m == nil {
		return 1
	}
	return len(m.ends) + 1
}

// newShardMap returns the map of shards by the names that Vitess gives them: -80, 80-c0, c0-, or
// 0 for the only one. Without any name there is one shard.
func newShardMap(names []string) (*shardMap, error) {
	m := &shardMap{}
	for _, name := range names {
		_, end, isRange := strings.Cut(name, "-")
		if !isRange || end == "" {
			continue
		}
		id, err := hex.DecodeString(end)
		if err != nil {
			return nil, fmt.Errorf("read the name of shard %.40q: %w", name, err)
		}
		m.ends = append(m.ends, id)
	}
	slices.SortFunc(m.ends, bytes.Compare)
	return m, nil
}

// shardMemory is the map of shards as a store last read it. A map that is out of date costs
// time and no correctness: vtgate itself knows where a bucket lies.
type shardMemory struct {
	keyspace  string // that holds the buckets
	current   atomic.Pointer[shardMap]
	readAt    atomic.Int64 // Unix time in nanoseconds; 0 if it is doubted
	isReading atomic.Bool  // somebody reads it beside the checks
	// away is when each of the first shards was last found away, as Unix time in nanoseconds.
	away [mostShards]atomic.Int64
}

// mostShards is of how many shards it is remembered that they are away.
const mostShards = 256

// awayPause is for how long checks are refused after their shard was found away. Without it each
// of them would wait for as long as vtgate waits for the shard.
const awayPause = time.Second

// lose remembers that a shard is away, and has the map read again.
func (m *shardMemory) lose(name string) {
	shards := m.current.Load()
	if shards == nil {
		return
	}
	_, end, _ := strings.Cut(name, "-")
	id, err := hex.DecodeString(end)
	if err != nil {
		return
	}
	place := len(shards.ends)
	if end != "" {
		place, _ = slices.BinarySearchFunc(shards.ends, id, bytes.Compare)
	}
	if place < mostShards {
		m.away[place].Store(time.Now().UnixNano())
	}
	m.readAt.Store(0)
}

// isAway says that a check has a bucket on a shard that was found away just now.
func (m *shardMemory) isAway(check service.Check) bool {
	shards, now := m.current.Load(), time.Now().UnixNano()
	return slices.ContainsFunc(check.Buckets, func(b service.Bucket) bool {
		place := shards.of(b)
		return place < mostShards && now-m.away[place].Load() < int64(awayPause)
	})
}

const (
	// shardMapLife is how long a map of shards is used before it is read again.
	shardMapLife = time.Minute
	// shardMapPause is how long a map is used before that is tried again if it did not work.
	shardMapPause = 10 * time.Second
	// shardMapPatience bounds how long a new map is waited for while there is an old one. vtgate
	// asks the cluster's topology, and waits for it when it is away.
	shardMapPatience = 3 * time.Second
)

// refresh reads the map of shards by read if there is none yet, and returns its error. All
// sessions that find none read it: a batch that takes the buckets of several shards for those of
// one may deadlock with others. A map that is old or doubted is read again beside the checks: it
// is used on as long as that takes or does not work.
func (m *shardMemory) refresh(ctx context.Context, read, beside func(context.Context) (*shardMap, error)) error {
	if m.current.Load() == nil {
		return m.renew(ctx, read)
	}
	if time.Now().UnixNano()-m.readAt.Load() > int64(shardMapLife) && m.isReading.CompareAndSwap(false, true) {
		go func() {
			defer m.isReading.Store(false)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shardMapPatience)
			defer cancel()
			_ = m.renew(ctx, beside) // the old map is good enough, and doctor tells of a topology that is away
		}()
	}
	return nil
}

// errUnlisted says that the shards of the buckets are not known. vtgate reads their list from the
// cluster's topology, and that does not answer. Nothing was begun.
var errUnlisted = errors.New("the shards cannot be listed, which vtgate asks the cluster's topology for")

// learn takes the names of all shards for the first map. A later map is left to refresh.
func (m *shardMemory) learn(shards []Shard) error {
	if m.current.Load() != nil {
		return nil
	}
	names := make([]string, len(shards))
	for i, shard := range shards {
		names[i] = shard.Name
	}
	return m.renew(context.Background(), func(context.Context) (*shardMap, error) { return newShardMap(names) })
}

// renew reads the map of shards.
func (m *shardMemory) renew(ctx context.Context, read func(context.Context) (*shardMap, error)) error {
	shards, err := read(ctx)
	if err != nil {
		m.readAt.Store(time.Now().Add(shardMapPause - shardMapLife).UnixNano())
		return fmt.Errorf("%w: %w", errUnlisted, err)
	}
	m.readAt.Store(time.Now().UnixNano())
	m.current.Store(shards)
	return nil
}

// knowShards has the map of shards read if need be: at once on conn, or by a connection of the
// pool beside the checks.
func (s *Store) knowShards(ctx context.Context, conn *connection) error {
	read := func(ctx context.Context) (*shardMap, error) { return readShards(ctx, conn) }
	beside := func(ctx context.Context) (found *shardMap, err error) {
		err = s.pool.on(ctx, func(pooled *sqlx.Conn) error {
			return onConnection(ctx, pooled.Conn, func(ctx context.Context, own *connection) (err error) {
				found, err = readShards(ctx, own)
				return err
			})
		})
		return found, err
	}
	return conn.shards.refresh(ctx, read, beside)
}

// readShards asks for the shards of the buckets' keyspace. There is one if that does not exist or
// is not sharded.
func readShards(ctx context.Context, conn *connection) (*shardMap, error) {
	var names []string
	err := conn.each(ctx, 1, "SHOW VITESS_SHARDS", func(row []driver.Value) error {
		if of, name, _ := strings.Cut(text(row[0]), "/"); of == conn.shards.keyspace {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return newShardMap(names)
}

// ShardOf returns the place of a bucket's shard, from 0, and how many shards there are, as they
// were last seen. Where the engine has no shards, or none was seen yet, that is 0 of 1. It asks
// no engine.
func (s *Store) ShardOf(bucket service.Bucket) (shard, shards int) {
	m := s.engines.shards.current.Load()
	return m.of(bucket), m.count()
}

// checkReachable decides checks as checkBatch does. Where there are shards, it refuses the checks
// of a shard that is away, with ErrBusy in their decisions, and decides the others.
func (s *Store) checkReachable(ctx context.Context, call service.Call) ([]service.Decision, error) {
	if !s.engines.is().dialect().isSharded {
		return s.checkBatch(ctx, call)
	}
	decisions := make([]service.Decision, len(call.Checks))
	for {
		var asked []service.Check
		var places []int // of asked in checks
		for i, check := range call.Checks {
			if s.engines.shards.isAway(check) {
				decisions[i] = service.Decision{Err: service.NewBusyError(awayPause, "a shard of the database is away")}
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
		if !s.lostShard(err) || ctx.Err() != nil || !slices.ContainsFunc(asked, s.engines.shards.isAway) {
			return nil, err
		}
	}
}

// lostShard says that err came from a shard that is away, before anything was recorded, and
// remembers the shard.
func (s *Store) lostShard(err error) bool {
	var away *awayError
	if !errors.As(err, &away) || !away.isOf(&s.engines.shards) {
		return false
	}
	s.engines.shards.lose(away.shard)
	return !errors.Is(err, service.ErrUndecided)
}

// shardOf returns the place of a bucket's shard.
func (b *batch) shardOf(bucket service.Bucket) int { return b.shardMap.of(bucket) }

// compare is the lock order of buckets: by shard, zone and key.
func (b *batch) compare(x, y service.Bucket) int {
	if b.shardMap.count() == 1 {
		return x.Compare(y)
	}
	return cmp.Or(b.shardOf(x)-b.shardOf(y), x.Compare(y))
}
