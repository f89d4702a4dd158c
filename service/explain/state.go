package explain

import (
	"slices"
	"time"

	"velocityd/service"
)

// view is one way to read the evidence where the instants alone leave a choice.
type view struct {
	settings time.Time // the settings are those at this instant
	// countsLast says that a txn which stopped counting in the microsecond of the check counted for the check.
	countsLast bool
	// isSetBack says that txns with lower ids and later instants came before: the clock was set back in between.
	isSetBack bool
	// isApart says that several pseudonyms of one bucket were decided each by itself, as for a caller by SQL.
	isApart bool
	// wasOpen says that the outcomes of all txns which have one now came after the check.
	wasOpen bool
	// repeats says that the secret of the check was tried before in the buckets that were not charged, in zones where that
	// is free. Nobody keeps which secret it was.
	repeats bool
}

// views returns the ways to read the evidence with the settings of an instant, the likeliest first. Ways that make no
// difference are left out, because each is a decision over all rows.
func (e *Evidence) views(settings time.Time) []view {
	views := []view{{settings: settings}}
	w, _ := e.Records.at(settings)
	for _, way := range []struct {
		matters bool
		take    func(*view)
	}{
		{
			e.someRow(func(row, own service.Txn) bool { return row.UncountedAt.Equal(own.CreatedAt.Time) }),
			func(v *view) { v.countsLast = true },
		},
		{w.some(func(z service.Zone) bool { return z.Concurrent > 0 }), func(v *view) { v.wasOpen = true }},
		{named(e.Check) != nil, func(v *view) { v.isApart = true }},
		{e.someRow(isFromAhead), func(v *view) { v.isSetBack = true }},
		{
			w.some(func(z service.Zone) bool { return z.RepeatSecret == service.RepeatFree }),
			func(v *view) { v.repeats = true },
		},
	} {
		if !way.matters {
			continue
		}
		for _, v := range views {
			way.take(&v)
			views = append(views, v)
		}
	}
	return views
}

// isFromAhead says that a row was recorded before a txn and has a later instant.
func isFromAhead(row, own service.Txn) bool {
	return row.CreatedAt.After(own.CreatedAt.Time) && row.ID < own.ID
}

// someRow says whether a row of some bucket fulfils a condition together with the bucket's txn of the check.
func (e *Evidence) someRow(is func(row, own service.Txn) bool) bool {
	for i, own := range e.Check {
		if slices.ContainsFunc(e.Buckets[i].Rows, func(row service.Txn) bool { return is(row, own) }) {
			return true
		}
	}
	return false
}

// some says whether some zone fulfils a condition.
func (w settings) some(is func(service.Zone) bool) bool {
	for _, zone := range w.zones {
		if is(zone) {
			return true
		}
	}
	return false
}

// anySecret stands for the secret of a check, which is not known any more.
const anySecret = "any-secret"

// imprints returns those in which the secret of a check is found if it was tried before, or nil.
func (v view) imprints(own service.Txn) *service.Imprints {
	if !v.repeats || own.Counted || !own.UncountedAt.IsZero() {
		return nil
	}
	var known service.Imprints
	known.Counted = map[service.Imprint]time.Time{known.Key.Of(anySecret): own.CreatedAt.Time}
	return &known
}

// counted returns the txns that counted in a bucket when its txn own was decided, but for those that had left the
// window by then.
func (p Past) counted(own service.Txn, v view) (rows []service.Txn) {
	for _, row := range p.Rows {
		at := row.CreatedAt.Time
		isBefore := at.Before(own.CreatedAt.Time) || at.Equal(own.CreatedAt.Time) && row.ID < own.ID || v.isSetBack &&
			isFromAhead(row, own)
		counts := row.Counted || row.UncountedAt.After(own.CreatedAt.Time) || v.countsLast &&
			row.UncountedAt.Equal(own.CreatedAt.Time)
		if isBefore && counts {
			rows = append(rows, row)
		}
	}
	return rows
}

// isOpen says that a txn that counted had no outcome when the check was decided. The outcome of one whose place was
// given back came with that.
func (v view) isOpen(row service.Txn) bool {
	return v.wasOpen || row.Outcome == "" || !row.UncountedAt.IsZero()
}

// lockedOut is a lockout, and the txn with which it began, if that is known.
type lockedOut struct {
	service.Lockout
	by service.Txn
	// isKnown is false if more lockouts may have been there, or the zone of one is not known: then the lockout and its
	// length may have been others.
	isKnown bool
}

func (l lockedOut) began() time.Time { return l.Until.Add(-l.Length) }

// lockout returns the last lockout of a bucket before its txn own was decided.
func (e *Evidence) lockout(p Past, own service.Txn) lockedOut {
	before := e.lockoutsBefore(p, own)
	if last := (lockedOut{Lockout: p.Last, isKnown: true}); last.Length > 0 {
		if n := len(before); n > 0 && before[n-1].CreatedAt.Equal(last.began()) {
			last.by = before[n-1]
			return last
		}
		if last.began().Before(own.CreatedAt.Time) {
			return last
		}
	}
	found, records := lockedOut{isKnown: true}, e.Records.ofZone(own.Bucket.ZoneID)
	for i, txn := range append(before, own) {
		w, isKnown := records.at(txn.CreatedAt.Time)
		zone, exists := w.zones[txn.Bucket.ZoneID]
		if !isKnown || !exists {
			return lockedOut{}
		}
		if reach := zone.LockoutMax + zone.LockoutDecay; i == 0 && zone.Lockout > 0 &&
			txn.CreatedAt.Add(-reach).Before(p.Since) {
			found.isKnown = false
		}
		if i < len(before) {
			found.isKnown = found.isKnown && txn.Attempts <= 2 // of more, those in the middle are not known
			found.Lockout, found.by = begin(zone, txn, found.Lockout), txn
		}
	}
	return found
}

// lockoutsBefore returns the txns with which lockouts began before own, without those that a release has ended. Where a
// txn counts later attempts that began lockouts, too, it is there once more with the instant of the last of them.
func (e *Evidence) lockoutsBefore(p Past, own service.Txn) (before []service.Txn) {
	released := e.Records.released(own.Bucket, own.CreatedAt.Time)
	add := func(txn service.Txn) {
		isBefore := txn.CreatedAt.Before(own.CreatedAt.Time) || txn.CreatedAt.Equal(own.CreatedAt.Time) && txn.ID < own.ID
		if isBefore && txn.CreatedAt.After(released) {
			before = append(before, txn)
		}
	}
	for _, txn := range p.Rows {
		if txn.Reason != service.ReasonLockout {
			continue
		}
		add(txn)
		if txn.Attempts > 1 {
			txn.CreatedAt = txn.LastAt
			add(txn)
		}
	}
	slices.SortFunc(before, func(a, b service.Txn) int { return newestFirst(b, a) })
	return before
}

// begin returns the lockout that began with a txn of a zone as it was, after another one.
func begin(zone service.Zone, txn service.Txn, last service.Lockout) service.Lockout {
	full := service.BucketState{
		Velocity: &service.Velocity{Count: service.MaxRate, Oldest: txn.CreatedAt.Time},
		Lockout:  last,
	}
	ruling := service.Decide(txn.CreatedAt.Time, service.Ledger{
		Zones: map[int64]service.Zone{zone.ID: zone}, Buckets: []service.BucketState{full}, Places: [][]int{{0}},
	}, []service.Check{{Buckets: []service.Bucket{txn.Bucket}}})
	return ruling.Lockouts[txn.Bucket]
}

// named returns for each txn of a check the bucket that it stands for: the pseudonyms of one bucket by several secret
// keys stand side by side. Erased ones that do are of one bucket, too: each of them got another random key. It is nil
// if there are none.
func named(check []service.Txn) []int {
	places := make([]int, len(check))
	seen, several := map[string]bool{}, false
	for i, txn := range check {
		id := service.KeyIDOf(txn.Bucket.Key)
		if i > 0 {
			places[i] = places[i-1]
			if id == "" || seen[id] && id != service.ErasedKeyID || check[i-1].Bucket.ZoneID != txn.Bucket.ZoneID {
				places[i]++
				clear(seen)
			} else {
				several = true
			}
		}
		seen[id] = true
	}
	if !several {
		return nil
	}
	return places
}
