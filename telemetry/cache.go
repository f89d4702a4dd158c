package telemetry

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// cache has the counters of label values that come again and again, so that a check finds its
// own without a lock and without an allocation. It also bounds how many label values there are.
type cache[K comparable, V any] struct {
	most    int
	create  func(K) V
	further func() V // the shared value of all keys without room
	all     atomic.Pointer[map[K]V]
	mu      sync.Mutex // of those that add
}

// newCache returns an empty cache. create is called once for each of the first keys, and once
// with rest if there are more.
func newCache[K comparable, V any](most int, rest K, create func(K) V) *cache[K, V] {
	c := &cache[K, V]{most: most, create: create, further: sync.OnceValue(func() V { return create(rest) })}
	c.all.Store(&map[K]V{})
	return c
}

func (c *cache[K, V]) of(key K) V {
	all := *c.all.Load()
	if value, ok := all[key]; ok {
		return value
	}
	if len(all) >= c.most {
		return c.further()
	}
	return c.add(key)
}

func (c *cache[K, V]) add(key K) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := *c.all.Load()
	if value, ok := all[key]; ok {
		return value
	}
	if len(all) >= c.most {
		return c.further()
	}
	all = maps.Clone(all) // others read the former one
	value := c.create(key)
	all[key] = value
	c.all.Store(&all)
	return value
}

// reasons are the counters of a label with a few values, which are all there from the start.
type reasons map[string]prometheus.Counter

func newReasons(create promauto.Factory, label, name, help string, words ...string) reasons {
	vec := create.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	r := reasons{}
	for _, word := range words {
		r[word] = vec.WithLabelValues(word)
	}
	return r
}

func (r reasons) add(word string, n int) { r[word].Add(float64(n)) }
