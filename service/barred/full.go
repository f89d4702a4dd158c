package barred

import (
	"context"
	"slices"
	"time"

	"velocityd/service"
)

const (
	// mostTxns is how many of the newest txns of a zone a look for full buckets goes through, and mostPages in how many
	// pages of history: in a zone with few attempts among those of others, a page may have few.
	mostTxns  = 5000
	mostPages = 10
	// mostPeeks is how many buckets it peeks at.
	mostPeeks = 100
)

// Full is a bucket that has no room now and is not locked out.
type Full struct {
	Key        string // as it is recorded
	Velocity   int
	Rate       int
	RetryAfter time.Duration
	LastAt     time.Time // of its newest attempt
}

// Looked is the result of a bounded look for full buckets.
type Looked struct {
	ZoneID int64
	At     time.Time // by the engine's clock
	Full   []Full
	// Txns is how many of the newest txns of the zone were looked at, and Since the time of the oldest of them. IsWhole
	// says that these are all txns of the window, and that no bucket was left out.
	Txns    int
	Since   time.Time
	IsWhole bool
}

// Source is where a look reads.
type Source interface {
	Store
	service.HistoryStore
	Zone(ctx context.Context, id int64) (service.Zone, error)
	Peek(ctx context.Context, bucket service.Bucket) (service.Peek, error)
}

// FindFull looks for full buckets of a zone among the newest txns of its window: those that had no room there, and those
// with so many counted txns that they may have none. It peeks at each of them. The errors are those of the source.
func FindFull(ctx context.Context, source Source, zoneID int64) (Looked, error) {
	zone, err := source.Zone(ctx, zoneID)
	if err != nil {
		return Looked{}, err
	}
	page, err := source.Locked(ctx, Query{ZoneID: zoneID, Limit: 1})
	if err != nil {
		return Looked{}, err
	}
	look := looking{source: source, zone: zone, seen: map[string]*candidate{}}
	look.ZoneID, look.At = zoneID, page.At
	if err := look.read(ctx, page.At); err != nil {
		return Looked{}, err
	}
	return look.Looked, look.peek(ctx)
}

// candidate is a bucket that was seen.
type candidate struct {
	key     string
	counted int
	isFull  bool // it was, for one of its attempts
	lastAt  time.Time
}

// looking is the state of FindFull.
type looking struct {
	Looked
	source Source
	zone   service.Zone
	seen   map[string]*candidate
	order  []*candidate // as they were seen first
}

// read goes through the newest txns.
func (l *looking) read(ctx context.Context, now time.Time) error {
	query := service.HistoryQuery{
		Zones: []int64{l.zone.ID}, Order: service.NewestFirst, Since: now.Add(-l.zone.Window), Limit: service.MaxHistoryPage,
	}
	for range mostPages {
		page, err := l.source.History(ctx, query)
		if err != nil {
			return err
		}
		for _, txn := range page.Txns {
			l.note(txn)
		}
		if page.Next == 0 {
			l.IsWhole = true
			return nil
		}
		if l.Txns >= mostTxns {
			return nil
		}
		query.Cursor = page.Next
	}
	return nil
}

func (l *looking) note(txn service.Txn) {
	l.Txns++
	l.Since = txn.CreatedAt
	c := l.seen[txn.Bucket.Key]
	if c == nil {
		c = &candidate{key: txn.Bucket.Key, lastAt: txn.LastAt}
		l.seen[c.key], l.order = c, append(l.order, c)
	}
	if txn.Counted {
		c.counted++
	}
	c.isFull = c.isFull || isFull(txn.Reason)
}

// peek asks for the state of the buckets that may be full, those of the newest attempts first.
func (l *looking) peek(ctx context.Context) error {
	maybe := slices.DeleteFunc(l.order, func(c *candidate) bool { return !c.isFull && c.counted < l.zone.Rate })
	if len(maybe) > mostPeeks {
		maybe, l.IsWhole = maybe[:mostPeeks], false
	}
	for _, c := range maybe {
		peek, err := l.source.Peek(ctx, service.Bucket{ZoneID: l.zone.ID, Key: c.key})
		if err != nil {
			return err
		}
		if isFull(peek.Reason) {
			l.Full = append(l.Full, Full{c.key, peek.Velocity, peek.Rate, peek.RetryAfter, c.lastAt})
		}
	}
	return nil
}

// isFull says that an attempt finds no room. In a zone with lockouts one begins then.
func isFull(reason service.Reason) bool {
	return reason == service.ReasonFull || reason == service.ReasonLockout
}
