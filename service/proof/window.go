package proof

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"

	"velocityd/service"
)

// Windows holds the places that count in the windows of buckets while rows go by. If they become too many, it goes on
// with a part of the buckets, and leaves the others to a later reading of the rows: its memory has a bound.
type Windows struct {
	rules   *Rules
	seed    maphash.Seed
	most    int // weight
	part    part
	later   []part
	buckets map[service.Bucket][]place
	weight  int // of buckets: see bucketWeight
}

// place is the interval in which a txn took a place, in microseconds since 1970.
type place struct{ from, until int64 }

const (
	// bucketWeight is how many places take about as much memory as a bucket without any.
	bucketWeight = 8
	// DefaultPlaces is a bound of about 128 MiB.
	DefaultPlaces = 4 << 20
	// mostBits bounds into how many parts buckets are divided: one bucket can not be.
	mostBits = 20
)

// compareFrom orders places.
func compareFrom(p place, at int64) int { return cmp.Compare(p.from, at) }

// part is the buckets whose hash ends in some bits. Txns with ids up to judged were judged by an earlier reading.
type part struct {
	bits   int
	end    uint64
	judged uint64
}

func (p part) has(hash uint64) bool { return hash&(1<<p.bits-1) == p.end }

// NewWindows returns windows that hold about so many places at most.
func NewWindows(rules *Rules, most int) *Windows {
	return &Windows{rules: rules, seed: maphash.MakeSeed(), most: most, buckets: map[service.Bucket][]place{}}
}

// Next begins with the next part of the buckets, for which the rows are to be read again from their begin. It returns
// false if there is none.
func (w *Windows) Next() bool {
	if len(w.later) == 0 {
		return false
	}
	w.part, w.later = w.later[0], w.later[1:]
	w.buckets, w.weight = map[service.Bucket][]place{}, 0
	return true
}

// Parts returns how many parts are left.
func (w *Windows) Parts() int { return len(w.later) }

// Add takes a row. It says whether the row took a place that there was not.
func (w *Windows) Add(row *Row) (f Finding, over bool) {
	if !row.passed() {
		return Finding{}, false
	}
	limits, _ := w.rules.limitsOf(row)
	return w.add(row, limits)
}

// add is Add by the limits of the row's time. Without limits the row is not judged.
func (w *Windows) add(row *Row, limits []limit) (f Finding, over bool) {
	if !row.Counted && (row.UncountedAt.IsZero() || w.rules.ClockWasSet) || w.part.bits > 0 &&
		!w.part.has(w.hash(row.Bucket)) {
		return Finding{}, false
	}
	now, until := row.CreatedAt.UnixMicro(), int64(math.MaxInt64)
	if !row.Counted {
		until = row.UncountedAt.UnixMicro()
	}
	places, isKnown := w.buckets[row.Bucket]
	had := len(places)
	places = w.drop(places, row, now)
	if row.ID > w.part.judged {
		f, over = judge(row, limits, places, now)
	}
	if len(places) == cap(places) {
		places = slices.DeleteFunc(places, func(p place) bool { return p.until <= now })
	}
	at, _ := slices.BinarySearchFunc(places, now, compareFrom)
	places = slices.Insert(places, at, place{now, until})
	w.buckets[row.Bucket] = places
	if w.weight += len(places) - had; !isKnown {
		w.weight += bucketWeight
	}
	if w.weight > w.most {
		w.lighten(row)
	}
	return f, over
}

// drop returns places without those that no later txn meets.
func (w *Windows) drop(places []place, row *Row, now int64) []place {
	since := now - w.rules.longest(row.Bucket, row.CreatedAt.Time).Microseconds()
	at, _ := slices.BinarySearchFunc(places, since+1, compareFrom)
	return places[at:]
}

// judge says that none of the limits had a place for a txn.
func judge(row *Row, limits []limit, places []place, now int64) (f Finding, over bool) {
	var strict limit
	for _, l := range limits {
		if !l.isMetered {
			continue
		}
		since := l.term.Since(row.CreatedAt.Time).UnixMicro()
		if taken(places, since, now, l.rate) < l.rate {
			return Finding{}, false
		}
		strict, over = l, true
	}
	if !over {
		return Finding{}, false
	}
	const text = "the bucket held %d txns already, the rate is %d in %s"
	return row.finding(KindOverRate, text, strict.rate, strict.rate, strict.term.Window), true
}

// taken returns how many places are taken at a time, of those that were taken after since. If they are fewer than rate,
// it may count some that were given back.
func taken(places []place, since, now int64, rate int) (n int) {
	at, _ := slices.BinarySearchFunc(places, since+1, compareFrom)
	if len(places)-at < rate {
		return len(places) - at
	}
	for _, p := range places[at:] {
		if p.until > now {
			n++
		}
	}
	return n
}

func (w *Windows) hash(b service.Bucket) uint64 { return maphash.Comparable(w.seed, b) }

// lighten drops buckets whose places count no more at a row. If too many are left, it drops a half of the buckets for
// later, and so on.
func (w *Windows) lighten(row *Row) {
	now := row.CreatedAt.UnixMicro()
	w.keep(func(b service.Bucket, places []place) []place {
		since := now - w.rules.longest(b, row.CreatedAt.Time).Microseconds()
		return slices.DeleteFunc(places, func(p place) bool { return p.from <= since || p.until <= now })
	})
	for w.weight > w.most/2 && w.part.bits < mostBits {
		bit := uint64(1) << w.part.bits
		w.part.bits++
		w.later = append(w.later, part{w.part.bits, w.part.end | bit, max(w.part.judged, row.ID)})
		w.keep(func(b service.Bucket, places []place) []place {
			if w.part.has(w.hash(b)) {
				return places
			}
			return nil
		})
	}
}

// keep lets f choose the places to keep.
func (w *Windows) keep(f func(service.Bucket, []place) []place) {
	kept := make(map[service.Bucket][]place, len(w.buckets)/2)
	w.weight = 0
	for bucket, places := range w.buckets {
		if places = f(bucket, places); len(places) > 0 {
			kept[bucket] = slices.Clone(places)
			w.weight += bucketWeight + len(places)
		}
	}
	w.buckets = kept
}
