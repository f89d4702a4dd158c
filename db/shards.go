package db

import (
	"bytes"
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

// newest returns the map as it was last read, or nil.
func (m *shardMemory) newest() *shardMap { return m.current.Load() }

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
	m.doubt()
}

// doubt has the map read again.
func (m *shardMemory) doubt() { m.readAt.Store(0) }

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
func (m *shardMemory) learn(names []string) error {
	if m.current.Load() != nil {
		return nil
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
