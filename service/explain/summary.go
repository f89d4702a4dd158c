package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"velocityd/service"
)

// summary says the explanation in a sentence or two.
func (d *decided) summary(x Explanation, i int) string {
	text := d.fate(x, i)
	if x.Txn.Attempts > 1 {
		text += fmt.Sprintf(" The txn stands for %d attempts, the last of them at %s.", x.Txn.Attempts,
			d.moment(x.Txn.LastAt.Time))
	}
	return text
}

func (d *decided) moment(t time.Time) string { return moment(t, d.Txn.CreatedAt.Time) }

// fate is the summary of the first attempt of the txn.
func (d *decided) fate(x Explanation, i int) string {
	switch {
	case !x.Agrees || x.Zone == nil:
		return fmt.Sprintf("%s The whole reason is not known any more: %s.", recorded(x.Txn), x.Unknown[0].Why)
	case x.Txn.Reason == service.ReasonElsewhere:
		return fmt.Sprintf("Blocked by another bucket of the check: %s. This bucket had room.", d.elsewhere())
	case x.Txn.WouldBlock && x.Txn.Blocked && x.Zone.Mode != service.ModeEnforce:
		return fmt.Sprintf("Blocked by another bucket of the check: %s. This zone only watched (shadow): %s.", d.elsewhere(),
			d.cause(i))
	case x.Txn.WouldBlock && x.Txn.Blocked:
		return fmt.Sprintf("Blocked: %s.", d.cause(i))
	case x.Txn.WouldBlock:
		return fmt.Sprintf("Allowed, because the zone only watched (shadow). Enforced, it would have blocked: %s.",
			d.cause(i))
	case x.Zone.Mode == service.ModeOff:
		return "Allowed: the zone was off, so the attempt was recorded and did not count."
	case x.Unmetered:
		return fmt.Sprintf("Allowed: override %d let every attempt pass, so this one did not count.", x.Override.ID)
	}
	or := ""
	if slices.ContainsFunc(x.Unknown, func(g Gap) bool { return g.Part == PartRows }) {
		or = ", or a later one"
	}
	return fmt.Sprintf("Allowed: it was attempt %d of %d %s%s.", x.Velocity+1, x.Rate, d.span(x), or)
}

// recorded says how an attempt is recorded.
func recorded(t service.Txn) string {
	switch {
	case t.Blocked && t.Reason != "":
		return fmt.Sprintf("Blocked, with the recorded reason %s.", t.Reason)
	case t.Blocked:
		return "Blocked."
	case t.WouldBlock:
		return fmt.Sprintf("Allowed, and without room by the recorded reason %s.", t.Reason)
	}
	return "Allowed."
}

// span says for how long txns counted.
func (d *decided) span(x Explanation) string {
	if period := x.Zone.TermUnder(x.Override).Calendar; !period.IsNone() {
		begin, end := period.Bounds(d.Txn.CreatedAt.Time)
		return fmt.Sprintf("in the %s from %s to %s", period.Period, d.moment(begin), d.moment(end))
	}
	return fmt.Sprintf("in %d s", service.WholeSeconds(x.Window.Duration))
}

// elsewhere says why the other buckets of the check blocked it.
func (d *decided) elsewhere() string {
	var causes []string
	for j, v := range d.decision.Verdicts {
		isFirst := d.named == nil || j == 0 || d.named[j] != d.named[j-1]
		if v.Blocked && isFirst {
			causes = append(causes, fmt.Sprintf("in zone %d (txn %d) %s", v.Bucket.ZoneID, d.Check[j].ID, d.cause(j)))
		}
	}
	if len(causes) == 0 {
		return "it is not known any more which, and why"
	}
	return strings.Join(causes, "; ")
}

// cause says why a bucket of the check had no room.
func (d *decided) cause(i int) string {
	v := d.decision.Verdicts[i]
	lockout, _ := d.applied(i)
	switch v.Reason {
	case service.ReasonDenied:
		o := d.override(i)
		if o.ExpiresAt.IsZero() {
			return fmt.Sprintf("override %d denied the bucket, without an end", o.ID)
		}
		return fmt.Sprintf("override %d denied the bucket until %s", o.ID, d.moment(o.ExpiresAt.Time))
	case service.ReasonLocked:
		by := ""
		if lockout.by.ID != 0 {
			by = fmt.Sprintf(" by txn %d", lockout.by.ID)
		}
		return fmt.Sprintf("locked out since %s%s; the lockout %s at %s%s", d.moment(lockout.began()), by,
			d.tense(lockout.Until, "ended", "ends"), d.moment(lockout.Until), d.later(i, lockout.Until))
	case service.ReasonLockout:
		return fmt.Sprintf("%s, so a lockout of %s began, which %s at %s%s", d.full(i), short(lockout.Length),
			d.tense(lockout.Until, "ended", "ends"), d.moment(lockout.Until), d.later(i, lockout.Until))
	case service.ReasonFull:
		return d.full(i) + d.later(i, time.Time{})
	case service.ReasonConcurrent:
		zone, until := d.world.zones[v.Bucket.ZoneID], d.openUntil(i)
		return fmt.Sprintf("%d of %d attempts were under way, without an outcome; "+
			"a place opened with the next outcome, and at %s at the latest",
			zone.Concurrent, zone.Concurrent, d.moment(until))
	case service.ReasonElsewhere:
	}
	return "it had room"
}

// short returns a duration without units that are zero, as people write one.
func short(d time.Duration) string {
	text := d.String()
	for _, unit := range []string{"m0s", "h0m"} {
		if before, isWhole := strings.CutSuffix(text, unit); isWhole {
			text = before + unit[:1]
		}
	}
	return text
}

// full says that a bucket had no place.
func (d *decided) full(i int) string {
	v, lead := d.decision.Verdicts[i], d.lead(i)
	zone, o := d.world.zones[v.Bucket.ZoneID].WithDefaults(), d.override(i)
	if v.Rate == 0 {
		return "the limit was 0 attempts, so there was no place"
	}
	term := zone.TermUnder(o)
	if !term.Calendar.IsNone() {
		begin, end := term.Calendar.Bounds(d.Txn.CreatedAt.Time)
		return fmt.Sprintf("%d of %d attempts in the %s from %s to %s", v.Velocity, v.Rate, term.Calendar.Period,
			d.moment(begin), d.moment(end))
	}
	oldest := d.Txn.CreatedAt.Time
	if place, isKnown := d.placeAt(lead, o); isKnown && !place.IsZero() {
		oldest = place.Add(-term.Window)
	}
	return fmt.Sprintf("%d of %d attempts since %s", v.Velocity, v.Rate, d.moment(oldest))
}

// later says when the next place opened, if that was after an instant which the sentence names. A sentence about a
// period names its end.
func (d *decided) later(i int, named time.Time) string {
	at, isKnown := d.placeAt(d.lead(i), d.override(i))
	zone := d.world.zones[d.Check[i].Bucket.ZoneID]
	if !isKnown || !at.After(named) || !zone.TermUnder(d.override(i)).Calendar.IsNone() {
		return ""
	}
	return fmt.Sprintf("; the next place %s at %s", d.tense(at, "opened", "opens"), d.moment(at))
}

// tense chooses between the words for an instant that has passed and for one that is to come.
func (d *decided) tense(t time.Time, passed, toCome string) string {
	if t.After(d.Now) {
		return toCome
	}
	return passed
}
