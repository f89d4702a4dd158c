package session

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

// ShardMap is the ranges of keyspace ids that the shards of a keyspace hold, in order.
type ShardMap struct {
	ends [][]byte // of each shard but the last: the first keyspace id behind it
}

// KeyspaceID is where Vitess puts a bucket: the vindex xxhash of its key.
func KeyspaceID(key string) [8]byte {
	var id [8]byte
	binary.LittleEndian.PutUint64(id[:], xxhash.Sum64String(key))
	return id
}

// Of returns the place of a bucket's shard in the order of the shards' ranges.
func (m *ShardMap) Of(bucket service.Bucket) int {
	if m == nil || len(m.ends) == 0 {
		return 0
	}
	id := KeyspaceID(bucket.Key)
	place, found := slices.BinarySearchFunc(m.ends, id[:], bytes.Compare)
	if found {
		place++ // a shard ends before the id that its name ends with
	}
	return place
}

// Together says that one statement may name both of two buckets. A condition with an OR would be sent to all shards, so
// where there are any the buckets must be of one zone and on one shard.
func (m *ShardMap) Together(x, y service.Bucket) bool {
	return m == nil || x.ZoneID == y.ZoneID && m.Of(x) == m.Of(y)
}

// Count returns how many shards there are.
func (m *ShardMap) Count() int {
	if m == nil {
		return 1
	}
	return len(m.ends) + 1
}

// NewShardMap returns the map of shards by the names that Vitess gives them: -80, 80-c0, c0-, or
// 0 for the only one. Without any name there is one shard.
func NewShardMap(names []string) (*ShardMap, error) {
	m := &ShardMap{}
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

// Shards is the map of shards as a store last read it. A map that is out of date costs
// time and no correctness: vtgate itself knows where a bucket lies.
type Shards struct {
	Keyspace  string // that holds the buckets
	Current   atomic.Pointer[ShardMap]
	readAt    atomic.Int64 // Unix time in nanoseconds; 0 if it is doubted
	isReading atomic.Bool  // a goroutine reads it beside the checks
	// away is when each of the first shards was last found away, as Unix time in nanoseconds.
	away [mostShards]atomic.Int64
}

// mostShards is of how many shards it is remembered that they are away.
const mostShards = 256

// AwayPause is for how long checks are refused after their shard was found away. Without it each
// of them would wait for as long as vtgate waits for the shard.
const AwayPause = time.Second

// Newest returns the map as it was last read, or nil.
func (m *Shards) Newest() *ShardMap { return m.Current.Load() }

// Lose remembers that a shard is away, and has the map read again.
func (m *Shards) Lose(name string) {
	shards := m.Current.Load()
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
	m.Doubt()
}

// Doubt has the map read again.
func (m *Shards) Doubt() { m.readAt.Store(0) }

// IsAway says that a check has a bucket on a shard that was found away just now.
func (m *Shards) IsAway(check service.Check) bool {
	shards, now := m.Current.Load(), time.Now().UnixNano()
	return slices.ContainsFunc(check.Buckets, func(b service.Bucket) bool {
		place := shards.Of(b)
		return place < mostShards && now-m.away[place].Load() < int64(AwayPause)
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

// Refresh reads the map of shards by read if there is none yet, and returns its error. All
// sessions that find none read it: a batch that does not know that its buckets lie on several
// shards may deadlock with others. A map that is old or doubted is read again beside the checks: it
// is used on as long as that takes or does not work.
func (m *Shards) Refresh(ctx context.Context, read, beside func(context.Context) (*ShardMap, error)) error {
	if m.Current.Load() == nil {
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

// ErrUnlisted says that the shards of the buckets are not known. vtgate reads their list from the
// cluster's topology, and that does not answer. Nothing was begun.
var ErrUnlisted = errors.New("the shards cannot be listed, which vtgate asks the cluster's topology for")

// Learn takes the names of all shards for the first map. A later map is left to refresh.
func (m *Shards) Learn(names []string) error {
	if m.Current.Load() != nil {
		return nil
	}
	return m.renew(context.Background(), func(context.Context) (*ShardMap, error) { return NewShardMap(names) })
}

func (m *Shards) renew(ctx context.Context, read func(context.Context) (*ShardMap, error)) error {
	shards, err := read(ctx)
	if err != nil {
		m.readAt.Store(time.Now().Add(shardMapPause - shardMapLife).UnixNano())
		return fmt.Errorf("%w: %w", ErrUnlisted, err)
	}
	m.readAt.Store(time.Now().UnixNano())
	m.Current.Store(shards)
	return nil
}

// ShardNames returns the names of the shards of the buckets' keyspace, such as -80. There is none if that does not
// exist.
func (s *Conn) ShardNames(ctx context.Context) (names []string, err error) {
	err = s.Each(ctx, 1, "SHOW VITESS_SHARDS", func(row []driver.Value) error {
		if of, name, _ := strings.Cut(Text(row[0]), "/"); of == s.Shards.Keyspace {
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// ReadShards asks for the shards of the buckets' keyspace. There is one if that does not exist or
// is not sharded.
func ReadShards(ctx context.Context, conn *Conn) (*ShardMap, error) {
	names, err := conn.ShardNames(ctx)
	if err != nil {
		return nil, err
	}
	return NewShardMap(names)
}

// Shard is a shard of the buckets, as vtgate sees it.
type Shard struct {
	Name      string // such as -80
	IsServing bool   // it has a primary that takes queries
	Replicas  int    // that serve
}

// ShardStates returns the shards of the buckets, in order.
func (s *Conn) ShardStates(ctx context.Context) ([]Shard, error) {
	names, err := s.ShardNames(ctx)
	if err != nil {
		return nil, err
	}
	shards := make([]Shard, len(names))
	for i, name := range slices.Sorted(slices.Values(names)) {
		shards[i].Name = name
	}
	return shards, s.Each(ctx, 5, "SHOW VITESS_TABLETS", func(row []driver.Value) error {
		const keyspaceAt, shardAt, typeAt, stateAt = 1, 2, 3, 4
		at := slices.IndexFunc(shards, func(shard Shard) bool { return shard.Name == Text(row[shardAt]) })
		if at < 0 || Text(row[keyspaceAt]) != s.Shards.Keyspace || Text(row[stateAt]) != "SERVING" {
			return nil
		}
		if Text(row[typeAt]) == "PRIMARY" {
			shards[at].IsServing = true
		} else {
			shards[at].Replicas++
		}
		return nil
	})
}
