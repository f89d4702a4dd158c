package explain

import (
	"fmt"
	"time"

	"velocityd/service"
)

// Part is a part of an explanation that may not be known any more.
type Part string

// The parts.
const (
	PartSettings Part = "settings" // the zone and its overrides as they were
	PartRows     Part = "rows"     // the txns that counted
	PartOutcomes Part = "outcomes" // when the outcomes of the txns came that counted
	PartLockout  Part = "lockout"  // the lockout before, from which the next one grows
	PartCheck    Part = "check"    // the other buckets of the check
	PartDecision Part = "decision" // the reason of the decision
)

// Gap is a part that is not known any more, and why, in a sentence.
type Gap struct {
	Part Part   `json:"part"`
	Why  string `json:"why"`
}

// gaps returns the parts that are not known.
func (d *decided) gaps(x Explanation, i int) (gaps []Gap) {
	add := func(part Part, format string, args ...any) {
		gaps = append(gaps, Gap{part, fmt.Sprintf(format, args...)})
	}
	at := d.Txn.CreatedAt.Time
	_, isKnown := d.Records.at(at)
	switch {
	case !isKnown:
		add(PartSettings,
			"zone_audit holds the changes since %s alone, so the settings of the zones and their overrides are not known",
			moment(d.Records.Since, at))
	case d.decision.Err != nil:
		add(PartSettings, "zone_audit says that a zone of the check did not exist then, so its settings are not known")
	}
	if d.Missing > 0 {
		add(PartCheck, "%d of the %d txns of the check are not there any more", d.Missing, d.Missing+len(d.Check))
	} else if d.hidesCause {
		add(PartCheck, "another bucket of the check decided it too, and its attempt is counted in a txn of an earlier check")
	}
	// The first instant that counts is a microsecond after Since.
	if since := d.keptSince(x); d.isShort(x) && x.Since.Add(time.Microsecond).Before(since) {
		add(PartRows, "no txn from before %s needs to be there any more, so the window may have had more rows",
			moment(since, at))
	}
	if cut := d.Buckets[d.lead(i)].Cut; d.isShort(x) && cut.After(x.Since.Time) {
		add(PartRows, "the window has more rows than an explanation looks at: rows up to %s are left out", moment(cut, at))
	}
	if d.wasOpen && x.Agrees {
		add(PartOutcomes, "the recorded decision follows if the outcomes came after it, and when they came is not recorded")
	}
	if reason := d.Check[i].Reason; (reason == service.ReasonLocked || reason == service.ReasonLockout) &&
		!d.knowsLockout(i) {
		add(PartLockout,
			"the bucket's earlier lockouts are not all known, and the length of a lockout may have grown from theirs")
	}
	if !x.Agrees && len(gaps) == 0 {
		add(PartDecision, "the rows, zone_audit and the lockouts that are there now lead to another decision, "+
			"so one of them was changed without a record of it")
	}
	return gaps
}

// isShort says that more rows in the window would make a difference: fewer than the rate counted.
func (d *decided) isShort(x Explanation) bool {
	return x.Zone != nil && !x.Unmetered && x.Velocity < x.Rate
}

// keptSince returns the instant before which txns of the zone may be gone, or the zero time. That the oldest txn of all
// has not the first id proves nothing in a young history: attempts that were rolled back had ids, too.
func (d *decided) keptSince(x Explanation) time.Time {
	since, oldest := d.Records.keptSince(d.Now, d.Txn.Bucket.ZoneID), d.Oldest.CreatedAt.Time
	isCut := d.Oldest.ID > 1 && (!x.Agrees || d.Now.Sub(oldest) > 24*time.Hour)
	if isCut && oldest.After(since) {
		return oldest
	}
	return since
}

// knowsLockout says that the lockout of a bucket of the check is known with its length.
func (d *decided) knowsLockout(i int) bool {
	if d.decision.Err != nil {
		return false
	}
	l, applies := d.applied(i)
	return applies && l.isKnown
}

// moment writes an instant to the millisecond, with its day unless that is the day of another instant.
func moment(t, of time.Time) string {
	t, of = t.UTC(), of.UTC()
	if t.Format(time.DateOnly) == of.Format(time.DateOnly) {
		return t.Format("15:04:05.000 UTC")
	}
	return t.Format("2006-01-02 15:04:05.000 UTC")
}
