package console

import (
	"slices"
	"time"

	"velocityd/console/chart"
	"velocityd/console/format"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/event"
	"velocityd/service/lockout"
	"velocityd/service/zonereport"
)

const (
	// mostLines bounds the attempts of a key that its time line draws, in all zones together, and mostRows those of its
	// table.
	mostLines, mostRows = 600, 20
	// leastLines is how many of them each zone may have at least.
	leastLines = 50
)

// keyPage is the content of the page of one key.
type keyPage struct {
	Sealed  string // of the page's own address
	Asked   service.Bucket
	Zones   []keyZone   // that know the key, and the one that the link names
	Others  []keyStatus // that know the key, too, and are too many to tell all about
	Unseen  []keyStatus
	Left    int // zones that could not be looked at in time
	Span    time.Duration
	Spans   []time.Duration
	Line    *chart.Timeline
	Txns    []service.Txn
	Related zonereport.RelatedKeys
}

type keyZone struct {
	keyStatus
	Actions keyActions
	Txns    []service.Txn           // of the key in this zone
	Checks  []service.RecordedCheck // those of the Txns
	HasMore bool                    // there are older ones
	Locks   []lockout.Spell
	// Releases are the newest ones of which an event tells, the newest first.
	Releases []lockout.Release
	Totals   *service.BucketTotals
}

// key shows the story of a key.
func (v *visit) key() error {
	k := keyPage{Sealed: v.r.PathValue("key")}
	var ok bool
	if k.Asked, ok = v.openKey(k.Sealed); !ok {
		return v.failSealed()
	}
	zones, err := v.api.Zones(v.r.Context())
	if err != nil {
		return err
	}
	all, left, err := v.keyStatuses(zones, k.Asked)
	if err != nil {
		return err
	}
	k.Left = left
	for _, s := range all {
		switch {
		case s.Refused != "":
		case s.IsSeen(), s.Zone.ID == k.Asked.ZoneID:
			k.Others = append(k.Others, s)
		default:
			k.Unseen = append(k.Unseen, s)
		}
	}
	slices.SortStableFunc(k.Others, func(a, b keyStatus) int { return b.blocksUntil().Compare(a.blocksUntil()) })
	for _, s := range k.Others[:min(len(k.Others), mostKeyZones)] {
		k.Zones = append(k.Zones, keyZone{keyStatus: s, Actions: v.keyActionsOf(k.Sealed, s)})
	}
	k.Others = k.Others[len(k.Zones):]
	if v.may(access.ScopeHistory) {
		if err := v.tell(&k); err != nil {
			return err
		}
	}
	return v.show("key", "", "Key", k)
}

func (v *visit) tell(k *keyPage) (err error) {
	limit := max(leastLines, mostLines/max(1, len(k.Zones)))
	for i := range k.Zones {
		if err := v.tellZone(&k.Zones[i], limit); err != nil {
			return err
		}
		k.Txns = append(k.Txns, k.Zones[i].Txns...)
	}
	slices.SortStableFunc(k.Txns, func(a, b service.Txn) int { return b.CreatedAt.Compare(a.CreatedAt.Time) })
	if len(k.Txns) > 0 {
		k.Spans = chart.Spans()
		now := k.Zones[0].Peek.At.Time
		k.Span = chart.SpanOf(v.r.URL.Query().Get("span"), now.Sub(k.Txns[0].CreatedAt.Time),
			now.Sub(k.Txns[len(k.Txns)-1].CreatedAt.Time))
		k.Line = chart.NewTimeline(now, k.Span, k.drawn())
	}
	k.Related = k.related()
	k.Txns = k.Txns[:min(mostRows, len(k.Txns))]
	return nil
}

// related counts the other keys of all checks of the key that the page has, in all zones.
func (k keyPage) related() zonereport.RelatedKeys {
	var checks []service.RecordedCheck
	own, hasMore := map[service.Bucket]bool{}, false
	for _, z := range k.Zones {
		checks, hasMore = append(checks, z.Checks...), hasMore || z.HasMore
		for _, t := range z.Txns {
			own[t.Bucket] = true
		}
	}
	return zonereport.RelatedKeysOf(checks, own, hasMore)
}

// drawn returns the attempts for the time line.
func (k keyPage) drawn() (zones []chart.Zone) {
	for _, z := range k.Zones {
		zones = append(zones, chart.Zone{
			Name: format.Plain(z.Name()), Txns: z.Txns, HasMore: z.HasMore, Locks: z.Locks, Releases: z.Releases,
		})
	}
	return zones
}

// tellZone adds the attempts, the lockouts and the totals of the key in one zone.
func (v *visit) tellZone(z *keyZone, limit int) (err error) {
	bucket := z.Peek.Bucket
	query := service.HistoryQuery{
		Zones: []int64{bucket.ZoneID}, Keys: []string{bucket.Key}, Order: service.NewestFirst, Limit: limit,
	}
	page, err := v.api.Checks(v.r.Context(), query)
	if err != nil {
		return err
	}
	z.Checks, z.HasMore, z.Txns = page.Checks, page.Next != 0, zonereport.OwnTxns(page.Checks, bucket)
	if err := v.tellLocks(z); err != nil {
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
	return z.Totals != nil && z.Peek.At.Sub(z.Totals.CountedTo.CountedTo.Time) > service.TotalsLag
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
	var all []keyStatus
	for _, z := range k.Zones {
		all = append(all, z.keyStatus)
	}
	return foldings(all)
}

// IsTyped reports whether the reader typed the key. Otherwise a zone has it so.
func (k keyPage) IsTyped() bool { return k.Asked.ZoneID == 0 }

// Worst returns the zone that keeps the key out for longest, or nil if it may pass everywhere.
func (k keyPage) Worst() *keyStatus {
	if len(k.Zones) == 0 || k.Zones[0].blocksUntil().IsZero() {
		return nil
	}
	return &k.Zones[0].keyStatus
}

// HasSeveral reports whether several zones know the key.
func (k keyPage) HasSeveral() bool { return len(k.Zones) > 1 }

// IsLong reports whether there are more attempts than the page shows.
func (k keyPage) IsLong() bool {
	total := 0
	for _, z := range k.Zones {
		if total += len(z.Txns); z.HasMore {
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
	return format.ZoneName(service.Zone{ID: id})
}

// mostEvents bounds the lockouts and releases of one zone that a page asks for. Events are kept as long as the policy of
// retention says.
const mostEvents = 50

// tellLocks adds the newest lockouts and releases of the key in one zone.
func (v *visit) tellLocks(z *keyZone) error {
	bucket := z.Peek.Bucket
	page, err := v.api.Events(v.r.Context(), event.Query{
		Types: []event.Type{event.BucketLocked, event.BucketLockEnded, event.BucketReleased}, Zones: []int64{bucket.ZoneID},
		Keys: []string{bucket.Key}, Order: service.NewestFirst, Limit: mostEvents,
	})
	z.Locks, z.Releases = lockout.Story(page.Events)
	return err
}

// Releases returns those in all zones, the newest first.
func (k keyPage) Releases() (all []lockout.Release) {
	for _, z := range k.Zones {
		all = append(all, z.Releases...)
	}
	slices.SortStableFunc(all, func(a, b lockout.Release) int { return b.At.Compare(a.At.Time) })
	return all
}
