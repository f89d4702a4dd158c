package proof

import (
	"fmt"

	"velocityd/service"
)

// CheckSpan is how far apart the ids of one check's txns may be.
const CheckSpan = 1 << 16

// checks gathers the txns of checks of several buckets.
type checks struct {
	rules   *Rules
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
		if len(JudgeCheck(rows, c.rules.hasSeries)) > 0 {
			c.suspect(rows)
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

// JudgeCheck returns a finding if txns of one check are not all or nothing. isCausedElsewhere says that the bucket that
// was the cause may count the attempt in a txn of an earlier check.
func JudgeCheck(rows []Row, isCausedElsewhere bool) []Finding {
	first := &rows[0]
	torn := func(format string, args ...any) []Finding {
		return []Finding{first.finding(KindTorn, "check %d %s", first.CheckID, fmt.Sprintf(format, args...))}
	}
	named := map[service.Bucket]bool{}
	hasCause := false
	for i := range rows {
		row := &rows[i]
		named[row.Bucket] = true
		hasCause = hasCause || row.WouldBlock
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
	if first.Blocked && !hasCause && !isCausedElsewhere {
		return []Finding{first.finding(KindCauseless, "check %d is blocked, and all its buckets had room", first.CheckID)}
	}
	return nil
}
