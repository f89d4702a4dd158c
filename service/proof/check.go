package proof

import (
	"fmt"

	"velocityd/service"
)

// CheckSpan is how far apart the ids of one check's txns may be.
const CheckSpan = 1 << 16

// checks gathers the txns of checks of several buckets.
type checks struct {
	proof   *Proof
	suspect func([]Row)
	open    map[uint64][]Row // by CheckID
	begun   []begun          // in the order of their first txns; some are whole by now
}

// begun is a check, and the id of its first txn.
type begun struct{ check, txn uint64 }

// add takes a txn, and lets go of checks that are whole, or whose last txn should have come.
func (c *checks) add(row *Row) {
	for len(c.begun) > 0 && row.ID-c.begun[0].txn > CheckSpan {
		c.giveUp()
	}
	if row.CheckID == 0 {
		return
	}
	rows := append(c.open[row.CheckID], *row)
	if len(rows) >= row.CheckBuckets {
		delete(c.open, row.CheckID)
		if len(JudgeCheck(rows)) > 0 {
			c.suspect(rows)
		} else {
			c.proof.judgeCauses(rows)
		}
		return
	}
	if c.open[row.CheckID] = rows; len(rows) == 1 {
		c.begun = append(c.begun, begun{row.CheckID, row.ID})
	}
}

// giveUp ends the wait for the txns of the oldest check, if some have not come.
func (c *checks) giveUp() {
	oldest := c.begun[0]
	c.begun = c.begun[1:]
	if rows := c.open[oldest.check]; len(rows) > 0 && rows[0].ID == oldest.txn {
		delete(c.open, oldest.check)
		c.suspect(rows)
	}
}

// end gives up all checks.
func (c *checks) end() {
	for len(c.begun) > 0 {
		c.giveUp()
	}
}

// JudgeCheck returns a finding if txns of one check are not all or nothing.
func JudgeCheck(rows []Row) []Finding {
	first := &rows[0]
	torn := func(format string, args ...any) []Finding {
		return []Finding{first.finding(KindTorn, "check %d %s", first.CheckID, fmt.Sprintf(format, args...))}
	}
	named := map[service.Bucket]bool{}
	for i := range rows {
		row := &rows[i]
		named[row.Bucket] = true
		switch {
		case row.Blocked != first.Blocked:
			return torn("is blocked in some buckets and not in others")
		case row.CheckBuckets != first.CheckBuckets || row.AttemptID != first.AttemptID:
			return torn("has txns that say different things of it")
		case row.Outcome != first.Outcome:
			return torn("has an outcome in some buckets and another one, or none, in others")
		}
	}
	switch {
	case len(named) < len(rows):
		return torn("has a bucket twice")
	case len(rows) != first.CheckBuckets:
		return torn("has %d txns, and had %d", len(rows), first.CheckBuckets)
	}
	for i := range rows {
		if !rows[i].CreatedAt.Equal(first.CreatedAt.Time) {
			return []Finding{first.finding(KindInstants, "check %d happened at several instants", first.CheckID)}
		}
	}
	return nil
}

// judgeCauses looks for the bucket that was the cause of a blocked check, and for lockouts that began in spite of a
// denial, or did not without one.
func (p *Proof) judgeCauses(rows []Row) {
	first := &rows[0]
	hasCause, isDenied, mayBeDenied := false, false, false
	for i := range rows {
		row := &rows[i]
		enforces := func(z *service.Zone) bool { return z.Mode == service.ModeEnforce }
		mayBlock := row.WouldBlock && p.rules.may(row.Bucket.ZoneID, row.CreatedAt.Time, enforces)
		hasCause = hasCause || mayBlock
		denies := row.Reason == service.ReasonDenied
		mayBeDenied = mayBeDenied || denies && mayBlock
		isDenied = isDenied || denies && p.rules.always(row.Bucket.ZoneID, row.CreatedAt.Time, enforces)
	}
	if first.Blocked && !hasCause && !p.isCausedElsewhere(first) {
		p.found(first.finding(KindCauseless, "check %d is blocked, and all its buckets had room", first.CheckID))
		return
	}
	for i := range rows {
		switch row := &rows[i]; {
		case row.Reason == service.ReasonLockout && isDenied:
			p.found(row.finding(KindReason, "another bucket of its check was denied, and a lockout began"))
		case row.Reason == service.ReasonFull && !mayBeDenied && p.beginsLockouts(row) && !p.isCausedElsewhere(row):
			p.found(row.finding(KindReason, "the bucket was full, and no lockout began"))
		}
	}
}

// order looks for txns whose instants are not between those of their neighbours by id.
type order struct{ before, last Row } // of the last two instants

// add takes a row. A clock that was set goes on from its new time, so it is one instant alone that is out of order.
func (o *order) add(row *Row, found func(Finding)) {
	follows := func(later, earlier *Row) bool { return !later.CreatedAt.Before(earlier.CreatedAt.Add(-slack)) }
	switch {
	case o.last.ID == 0 || row.CreatedAt.Equal(o.last.CreatedAt.Time):
		o.last = *row
	case o.before.ID != 0 && follows(row, &o.before) && (!follows(row, &o.last) || !follows(&o.last, &o.before)):
		found(o.last.finding(KindInstants, "its instant is not between those of the txns before and after it"))
		o.last = *row
	default:
		o.before, o.last = o.last, *row
	}
}
