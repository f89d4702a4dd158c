package session

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"velocityd/service"
)

func TestShardOfAKeyFollowsTheRanges(t *testing.T) {
	t.Parallel()
	buckets := []service.Bucket{{ZoneID: 1, Key: "a"}, {ZoneID: 1, Key: "b"}, {ZoneID: 1, Key: "c"}, {ZoneID: 1, Key: "é"}}
	for _, names := range [][]string{
		nil,
		{"0"},
		{"-"},
		{"-80", "80-"},
		{"c0-", "-40", "40-80", "80-c0"},
		{"-5b6e8ca9f1c44ed2", "5b6e8ca9f1c44ed2-"},
	} {
		m, err := NewShardMap(names)
		if err != nil {
			t.Fatal(err)
		}
		if want := max(len(names), 1); m.Count() != want {
			t.Errorf("%v: got %d shards, want %d", names, m.Count(), want)
		}
		for _, b := range buckets {
			id, place := KeyspaceID(b.Key), m.Of(b)
			if place > 0 && slices.Compare(m.ends[place-1], id[:]) > 0 || place < len(m.ends) &&
				slices.Compare(id[:], m.ends[place]) >= 0 {
				t.Errorf("%v: %x is on shard %d", names, id, place)
			}
		}
	}
	if _, err := NewShardMap([]string{"-8g"}); err == nil {
		t.Error("a name that is no range was read")
	}
}

func TestChecksOfUnreachableShardAreBrieflyRefused(t *testing.T) {
	t.Parallel()
	m, err := NewShardMap([]string{"-80", "80-"})
	if err != nil {
		t.Fatal(err)
	}
	shards := &Shards{}
	shards.Current.Store(m)
	shards.Lose("80-")
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		bucket := service.Bucket{ZoneID: 1, Key: key}
		if got, want := shards.IsAway(service.Check{Buckets: []service.Bucket{bucket}}), m.Of(bucket) == 1; got != want {
			t.Errorf("key %s on shard %d: away is %v", key, m.Of(bucket), got)
		}
	}
	if shards.readAt.Load() != 0 {
		t.Error("the map of shards is not read again")
	}
}

func TestProbeTeachesFirstShardMapOnly(t *testing.T) {
	t.Parallel()
	shards := new(Shards)
	for _, names := range [][]string{{"-80", "80-"}, {"-40", "40-80", "80-"}} {
		if err := shards.Learn(names); err != nil {
			t.Fatal(err)
		}
		if n := shards.Current.Load().Count(); n != 2 {
			t.Errorf("%d shards are known, want 2: a later list is read by refresh", n)
		}
	}
	if err := new(Shards).Learn([]string{"-8g"}); err == nil {
		t.Error("a name that is no range was learned")
	}
}

// vtgate answers SHOW VITESS_SHARDS out of the cluster's topology. When that is away, vtgate goes
// on with all other statements, and so must checks.
func TestChecksUseOldMapWhileTopologyIsAway(t *testing.T) {
	t.Parallel()
	away := errors.New("the topology is away")
	shards, asked := new(Shards), make(chan struct{}, 10)
	lost := func(context.Context) (*ShardMap, error) {
		asked <- struct{}{}
		return nil, away
	}
	if err := shards.Refresh(t.Context(), lost, nil); !errors.Is(err, away) {
		t.Fatalf("without any map: %v, want the error", err)
	} else if kind := FaultOf(err).Kind; !errors.Is(kind, service.ErrAway) || !strings.Contains(err.Error(), "topology") {
		t.Errorf("without any map: %v, which is %v, want it to be away and named", err, kind)
	}
	<-asked
	m, err := NewShardMap([]string{"-80", "80-"})
	if err != nil {
		t.Fatal(err)
	}
	if err := shards.Refresh(t.Context(), func(context.Context) (*ShardMap, error) { return m, nil }, nil); err != nil {
		t.Fatal(err)
	}
	shards.Lose("80-")
	for range 3 {
		if err := shards.Refresh(t.Context(), nil, lost); err != nil {
			t.Errorf("with an old map: %v", err)
		}
	}
	<-asked
	for shards.isReading.Load() {
		runtime.Gosched()
	}
	if err := shards.Refresh(t.Context(), nil, lost); err != nil || len(asked) > 0 || shards.Current.Load() != m {
		t.Errorf("after no answer: %v, asked again %d times; want a pause, and the old map", err, len(asked))
	}
}
