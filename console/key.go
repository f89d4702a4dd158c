package console

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"velocityd/console/figure"
	"velocityd/console/words"
	"velocityd/service"
	"velocityd/service/access"
)

const (
	// mostLines bounds the attempts of a key that its time line draws, in all zones together, and mostRows those of its table.
	mostLines, mostRows = 600, 20
	// leastLines is how many of them each zone may have at least.
	leastLines = 50
)

// keyPage is the content of the page of one key.
type keyPage struct {
	Sealed string // of the page's own address
	Asked  service.Bucket
	Zones  []keyZone // that know the key, and the one that the link names
	Unseen []standing
	Left   int // zones that were not looked at
	Span   time.Duration
	Spans  []time.Duration
	Line   *figure.Timeline
	Txns   []service.Txn
	Beside beside
	// CanHistory says that the reader may see attempts.
	CanHistory bool
}

// keyZone is a key in one zone.
type keyZone struct {
	standing
	Deeds   deeds
	History service.HistoryPage
	Locks   []figure.Span
	Totals  *service.BucketTotals
}

// key shows the story of a key.
func (v *visit) key() error {
	k := keyPage{Sealed: v.r.PathValue("key"), CanHistory: v.may(access.ScopeHistory)}
	var ok bool
	if k.Asked, ok = v.openKey(k.Sealed); !ok {
		return v.failSealed()
	}
	all, left, err := v.standings(k.Asked)
	if err != nil {
		return err
	}
	k.Left = left
	for _, s := range all {
		switch {
		case s.Refused != "":
		case s.IsSeen(), s.Zone.ID == k.Asked.ZoneID:
			k.Zones = append(k.Zones, keyZone{standing: s, Deeds: v.deedsOf(k.Sealed, s)})
		default:
			k.Unseen = append(k.Unseen, s)
		}
	}
	if k.CanHistory {
		if err := v.tell(&k); err != nil {
			return err
		}
	}
	return v.show("key", "", "Key", k)
}

// tell adds the attempts of the key.
func (v *visit) tell(k *keyPage) (err error) {
	limit := max(leastLines, mostLines/max(1, len(k.Zones)))
	for i := range k.Zones {
		if err := v.tellZone(&k.Zones[i], limit); err != nil {
			return err
		}
		k.Txns = append(k.Txns, k.Zones[i].History.Txns...)
	}
	slices.SortStableFunc(k.Txns, func(a, b service.Txn) int { return b.CreatedAt.Compare(a.CreatedAt) })
	if len(k.Txns) > 0 {
		k.Spans = figure.Spans()
		now := k.Zones[0].Peek.At
		k.Span = figure.SpanOf(v.r.URL.Query().Get("span"), now.Sub(k.Txns[0].CreatedAt), now.Sub(k.Txns[len(k.Txns)-1].CreatedAt))
		k.Line = figure.NewTimeline(now, k.Span, k.drawn())
	}
	if k.Beside, err = v.beside(k); err != nil {
		return err
	}
	k.Txns = k.Txns[:min(mostRows, len(k.Txns))]
	return nil
}

// drawn returns the attempts for the time line.
func (k keyPage) drawn() (zones []figure.Zone) {
	for _, z := range k.Zones {
		zones = append(zones, figure.Zone{Name: words.Plain(z.Name()), Txns: z.History.Txns, HasMore: z.History.Next != 0, Locks: z.Locks})
	}
	return zones
}

// tellZone adds the attempts, the lockouts and the totals of the key in one zone.
func (v *visit) tellZone(z *keyZone, limit int) (err error) {
	bucket := z.Peek.Bucket
	query := service.HistoryQuery{Zones: []int64{bucket.ZoneID}, Keys: []string{bucket.Key}, Order: service.NewestFirst, Limit: limit}
	if z.History, err = v.api.History(v.r.Context(), query); err != nil {
		return err
	}
	if z.Locks, err = v.locks(z.standing); err != nil {
		return err
	}
	if z.Zone.Totals {
		totals, err := v.api.BucketTotals(v.r.Context(), bucket, service.TotalsQuery{By: service.SpanMonth})
		if err != nil {
			return err
		}
		z.Totals = &totals
	}
	return nil
}

// IsBehind reports whether the newest attempts are not in the totals yet.
func (z keyZone) IsBehind() bool {
	return z.Totals != nil && z.Peek.At.Sub(z.Totals.CountedTo.CountedTo) > service.TotalsLag
}

// Origin is the network of the key, if it is an address and the service knows it.
func (k keyPage) Origin() *service.Origin {
	for _, t := range k.Txns {
		if t.Origin != nil {
			return t.Origin
		}
	}
	return nil
}

// Folded returns the zones that keep the key in another spelling than it was asked for.
func (k keyPage) Folded() []folding {
	var all []standing
	for _, z := range k.Zones {
		all = append(all, z.standing)
	}
	return foldings(all)
}

// IsTyped reports whether somebody has typed the key. Otherwise a zone has it so.
func (k keyPage) IsTyped() bool { return k.Asked.ZoneID == 0 }

// Worst returns the zone that keeps the key out for longest, or nil if it may pass everywhere.
func (k keyPage) Worst() *standing {
	var worst *standing
	for i := range k.Zones {
		s := &k.Zones[i].standing
		if !s.Watches() && s.Peek.Reason != "" && (worst == nil || s.OpensAt().After(worst.OpensAt())) {
			worst = s
		}
	}
	return worst
}

// HasSeveral reports whether several zones know the key.
func (k keyPage) HasSeveral() bool { return len(k.Zones) > 1 }

// IsLong reports whether there are more attempts than the page shows.
func (k keyPage) IsLong() bool {
	total := 0
	for _, z := range k.Zones {
		if total += len(z.History.Txns); z.History.Next != 0 {
			return true
		}
	}
	return total > len(k.Txns)
}

// ZoneName returns the name of a zone by its number.
func (k keyPage) ZoneName(id int64) string {
	for _, z := range k.Zones {
		if z.Zone.ID == id {
			return z.Name()
		}
	}
	return words.ZoneName(service.Zone{ID: id})
}

const (
	// mostChecks bounds the checks whose other buckets a page looks up, and besideTime ends that early: the first is always
	// looked up.
	mostChecks = 8
	besideTime = 40 * time.Millisecond
)

// beside are the other buckets of the newest checks of a key: the addresses of a user, or the users of an address.
type beside struct {
	Checks int // that were looked up
	Found  []neighbour
}

// neighbour is one of them.
type neighbour struct {
	Bucket service.Bucket
	Times  int
	LastAt time.Time
	Origin *service.Origin
}

// beside looks up the other buckets of the newest checks. The explanation of an attempt names them. To a reader who is bound to
// zones, a check in other zones, too, does not exist.
func (v *visit) beside(k *keyPage) (found beside, err error) {
	began, last, looks := time.Now(), time.Time{}, 0
	places := map[service.Bucket]int{}
	for _, txn := range k.Txns { // zones may keep the key in several forms
		places[txn.Bucket] = -1
	}
	for _, txn := range k.Txns {
		if looks == mostChecks || looks > 0 && time.Since(began) > besideTime {
			break
		}
		if txn.CreatedAt.Equal(last) { // of the same check
			continue
		}
		last = txn.CreatedAt
		looks++
		x, err := v.api.Explain(v.r.Context(), txn.ID)
		if errors.Is(err, service.ErrNotFound) {
			continue
		}
		if err != nil {
			return found, err
		}
		found.Checks++
		found.add(places, x.Others)
	}
	slices.SortStableFunc(found.Found, func(a, b neighbour) int {
		return cmp.Or(cmp.Compare(b.Times, a.Times), b.LastAt.Compare(a.LastAt))
	})
	return found, nil
}

// add counts the txns of one check. places are those of the buckets in the list, and below 0 for buckets that are left out.
func (b *beside) add(places map[service.Bucket]int, txns []service.Txn) {
	for _, t := range txns {
		place, isKnown := places[t.Bucket]
		if !isKnown {
			place = len(b.Found)
			places[t.Bucket] = place
			b.Found = append(b.Found, neighbour{Bucket: t.Bucket, LastAt: t.CreatedAt, Origin: t.Origin})
		}
		if place >= 0 {
			b.Found[place].Times++
		}
	}
}
