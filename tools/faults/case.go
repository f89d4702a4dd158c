//go:build linux

package main

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"
)

// row is a txn as the table has it.
type row struct {
	bucket

	id         uint64
	at         time.Time
	isBlocked  bool
	wouldBlock bool
	counted    bool
	reason     string
	outcome    string
	name       string // attempt id
	repeats    int
}

func readRows(ctx context.Context, db *sql.DB) (map[uint64]row, error) {
	rows, err := db.QueryContext(ctx, "SELECT id, created_at, zone_id, bucket_key, blocked, would_block, counted, "+
		"COALESCE(reason, ''), COALESCE(outcome, ''), COALESCE(attempt_id, ''), COALESCE(repeats, 0) FROM zone_txn "+
		"WHERE bucket_key NOT LIKE 'old-%'")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := map[uint64]row{}
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.id, &r.at, &r.zone, &r.key, &r.isBlocked, &r.wouldBlock, &r.counted, &r.reason, &r.outcome,
			&r.name, &r.repeats); err != nil {
			return nil, err
		}
		list[r.id] = r
	}
	return list, rows.Err()
}

// caseOf is all that is judged of a round.
type caseOf struct {
	*records

	zones   map[int]zone
	rows    map[uint64]row
	named   map[string][]row       // by attempt id
	changed map[*attempt][]*change // outcomes of an attempt
	emptied map[bucket][]*change   // releases, erasures, and successes that reset
	asked   map[bucket][]placeOf   // that passed or may have passed
}

// placeOf is an attempt that takes a place in a bucket, or may take one.
type placeOf struct {
	*attempt

	isSure bool
}

func newCase(r *records, rows map[uint64]row) *caseOf {
	c := &caseOf{
		records: r, zones: zonesByID(), rows: rows, named: map[string][]row{}, changed: map[*attempt][]*change{},
		emptied: map[bucket][]*change{}, asked: map[bucket][]placeOf{},
	}
	for _, r := range rows {
		if r.name != "" {
			c.named[r.name] = append(c.named[r.name], r)
		}
	}
	for _, ch := range r.changes {
		if ch.attempt != nil {
			c.changed[ch.attempt] = append(c.changed[ch.attempt], ch)
		}
		for _, b := range ch.buckets {
			if ch.attempt == nil || c.zones[b.zone].resets && ch.kind == "success" {
				c.emptied[b] = append(c.emptied[b], ch)
			}
		}
	}
	for _, a := range r.attempts {
		switch {
		case a.state == unknown:
			for _, b := range a.buckets {
				c.asked[b] = append(c.asked[b], placeOf{a, false})
			}
		case a.state == acked && !a.blocked:
			for _, v := range a.answers {
				if !v.wouldBlock {
					c.asked[v.bucket] = append(c.asked[v.bucket], placeOf{a, true})
				}
			}
		}
	}
	return c
}

func (c *caseOf) judge(v *verdict) {
	seen := map[uint64]*attempt{}
	for _, a := range c.attempts {
		switch a.state {
		case acked:
			c.judgeAnswer(v, a, seen)
		case refused:
			if v.judged[isRefused]++; a.name != "" && len(c.named[a.name]) > 0 {
				v.breaks(isRefused, "%s is recorded, and its caller was told %.200s", a.name, a.fault)
			}
		case unknown, degraded:
		}
		if n := len(c.named[a.name]); a.name != "" && n > len(a.buckets) {
			v.breaks(isOnce, "%s has %d txns, and names %d buckets", a.name, n, len(a.buckets))
		}
		isCaused, isTold := false, false
		for _, b := range a.answers {
			isTold = isTold || b.reason != ""
			isCaused = isCaused || b.wouldBlock && !c.zones[b.zone].isShadow
			if a.state == acked && a.blocked && b.reason != "" {
				c.judgeRefusal(v, a, b)
			}
		}
		if a.state == acked && a.blocked != isCaused && (isTold || !a.blocked) {
			v.breaks(isRoom, "%s has the answers %+v, and the whole is %v", a.name, a.answers, a.blocked)
		}
	}
	for b, places := range c.asked {
		c.judgeRate(v, b, places)
		c.judgeLocks(v, b, places)
	}
	for _, ch := range c.changes {
		c.judgeOutcome(v, ch)
	}
}

// judgeAnswer holds an acknowledged answer against its rows.
func (c *caseOf) judgeAnswer(v *verdict, a *attempt, seen map[uint64]*attempt) {
	v.judged[isOnce]++
	if a.again != nil && !slices.Equal(a.again, a.answers) {
		v.breaks(isOnce, "%s was answered %v and %v", a.name, a.answers, a.again)
	}
	for _, b := range a.answers {
		if b.txn == 0 {
			continue // over gRPC
		}
		v.judged[isRecorded]++
		isShared := a.blocked && c.zones[b.zone].blocked > 0
		r, ok := c.rows[b.txn]
		isErased := b.key == erasable && strings.HasPrefix(r.key, "erased:")
		isGRPC := strings.HasPrefix(a.door, "grpc")
		switch {
		case !ok:
			v.breaks(isRecorded, "txn %d of %v was answered at %.3f s and is not there", b.txn, b.bucket, a.end.Seconds())
		case r.zone != b.zone || r.key != b.key && !isErased || r.isBlocked != a.blocked,
			!isGRPC && (r.wouldBlock != b.wouldBlock || r.reason != b.reason), !isShared && r.name != a.name:
			v.breaks(isRecorded, "%s was answered %+v, and is recorded as %+v", a.name, b, r)
		}
		if other := seen[b.txn]; other != nil && !isShared {
			v.breaks(isOnce, "txn %d was given to %s and %s", b.txn, other.name, a.name)
		}
		seen[b.txn] = a
	}
	if n := len(c.named[a.name]); a.name != "" && n < len(a.buckets) && (!a.blocked || !c.sharesRows(a)) {
		v.breaks(isRecorded, "%s was answered and has %d of %d txns", a.name, n, len(a.buckets))
	}
}

// sharesRows says that an attempt may be counted by the row of another one.
func (c *caseOf) sharesRows(a *attempt) bool {
	return slices.ContainsFunc(a.buckets, func(b bucket) bool { return c.zones[b.zone].blocked > 0 })
}

// tolerance is the most by which the clocks of caller and engine part within a window.
const tolerance = 2 * time.Millisecond

// isUntold says that a window ends after the engine's clock was set.
func (c *caseOf) isUntold(s span) bool {
	stepped := c.stepped.Load()
	return stepped > 0 && s.end > time.Duration(stepped)
}

// judgeRate counts passes that are in one window for sure: asked for after its begin, and answered before its end.
func (c *caseOf) judgeRate(v *verdict, b bucket, all []placeOf) {
	z := c.zones[b.zone]
	passes := slices.DeleteFunc(slices.Clone(all), func(p placeOf) bool {
		gaveBack := (z.failures || z.resets) && slices.ContainsFunc(c.changed[p.attempt],
			func(ch *change) bool { return ch.kind == "success" && ch.state != refused })
		return !p.isSure || gaveBack || z.isFree && !p.isFresh
	})
	slices.SortFunc(passes, func(a, b placeOf) int { return int(a.begin - b.begin) })
	for i, first := range passes {
		window := span{first.begin, first.begin + z.window - tolerance}
		if z.period != "" {
			window.end = c.wall(first.begin).Truncate(z.window).Add(z.window).Sub(c.began) - tolerance
		}
		isEmptied := slices.ContainsFunc(
			c.emptied[b], func(ch *change) bool { return ch.meets(window) && ch.state != refused })
		if isEmptied || c.isUntold(window) {
			v.untold[isRate]++
			continue
		}
		n := 0
		for _, p := range passes[i:] {
			if p.begin < window.end && p.end < window.end {
				n++
			}
		}
		if v.judged[isRate]++; n > z.rate {
			v.breaks(isRate, "%v has %d passes from %.3f s to %.3f s", b, n, window.begin.Seconds(), window.end.Seconds())
		}
	}
}

// judgeRefusal judges a blocked answer: as many attempts as its reason needs may have had places.
func (c *caseOf) judgeRefusal(v *verdict, a *attempt, b answer) {
	z := c.zones[b.zone]
	since, need := c.wall(a.begin).Sub(z.begin(c.wall(a.begin))), z.lowest
	switch b.reason {
	case "full", "lockout":
	case "concurrent":
		since, need = z.ttl, z.concurrent
	case "locked":
		c.judgeLocked(v, a, b)
		return
	default:
		return
	}
	window := span{max(a.begin-since-tolerance, 0), a.end}
	if c.isUntold(window) {
		v.untold[isRoom]++
		return
	}
	n := 0
	for _, p := range c.asked[b.bucket] {
		if p.meets(window) && !c.isGivenBack(z, b, p, a.begin) {
			n++
		}
	}
	if v.judged[isRoom]++; n < need {
		v.breaks(isRoom, "%s in %v was %s at %.3f s, and at most %d places were taken", a.name, b.bucket, b.reason,
			a.begin.Seconds(), n)
	}
}

// isGivenBack says that an attempt takes no place any more at a time, or is not under way.
func (c *caseOf) isGivenBack(z zone, b answer, p placeOf, at time.Duration) bool {
	ended := func(ch *change) bool {
		counts := ch.kind == "success" && z.failures || b.reason == "concurrent"
		return ch.state == acked && ch.end < at && counts
	}
	emptied := func(ch *change) bool { return ch.state == acked && ch.end < at && p.end < ch.begin }
	return slices.ContainsFunc(c.changed[p.attempt], ended) || slices.ContainsFunc(c.emptied[b.bucket], emptied)
}

// judgeLocked judges an answer by an earlier lockout: there is an attempt that may have begun one which has not ended.
func (c *caseOf) judgeLocked(v *verdict, a *attempt, b answer) {
	z := c.zones[b.zone]
	v.judged[isRoom]++
	for _, o := range c.attempts {
		if o == a || o.begin > a.end || o.end != forever && o.end+z.lockoutMax < a.begin ||
			!slices.Contains(o.buckets, b.bucket) {
			continue
		}
		if o.state == unknown || slices.ContainsFunc(o.answers, func(x answer) bool {
			return x.bucket == b.bucket && (x.reason == "lockout" || o.blocked && x.reason == "") // gRPC tells none
		}) {
			return
		}
	}
	if !c.isUntold(span{a.begin - z.lockoutMax, a.end}) {
		v.breaks(isRoom, "%s in %v was locked at %.3f s, and no lockout began", a.name, b.bucket, a.begin.Seconds())
	}
}

// judgeLocks finds passes during a lockout, and passes while as many attempts as concurrent were under way.
func (c *caseOf) judgeLocks(v *verdict, b bucket, places []placeOf) {
	z := c.zones[b.zone]
	if z.isShadow || z.lockout == 0 && z.concurrent == 0 {
		return
	}
	emptied := func(s span) bool {
		return c.isUntold(s) ||
			slices.ContainsFunc(c.emptied[b], func(ch *change) bool { return ch.meets(s) && ch.state != refused })
	}
	for _, p := range places {
		if !p.isSure {
			continue
		}
		v.judged[isLockout]++
		open := 0
		for _, o := range places {
			ended := slices.ContainsFunc(c.changed[o.attempt],
				func(ch *change) bool { return ch.begin < p.end && ch.state != refused })
			if z.concurrent > 0 && o.isSure && o.end < p.begin && o.begin+z.ttl > p.end+tolerance && !ended {
				open++
			}
		}
		if z.concurrent > 0 && open >= z.concurrent && !emptied(span{p.begin - z.ttl, p.end}) {
			v.breaks(isLockout, "%s in %v passed at %.3f s while %d were under way", p.name, b, p.begin.Seconds(), open)
		}
	}
	for _, a := range c.attempts {
		locked := span{a.end, a.begin + z.lockout - tolerance}
		if z.lockout == 0 || a.state != acked || !slices.ContainsFunc(a.answers, func(x answer) bool {
			return x.bucket == b && x.reason == "lockout"
		}) || emptied(locked) {
			continue
		}
		for _, p := range places {
			if v.judged[isLockout]++; p.isSure && p.begin > locked.begin && p.end < locked.end {
				v.breaks(isLockout, "%s in %v passed at %.3f s, after a lockout began at %.3f s", p.name, b, p.begin.Seconds(),
					a.end.Seconds())
			}
		}
	}
}

// judgeOutcome holds an outcome against the rows of its attempt.
func (c *caseOf) judgeOutcome(v *verdict, ch *change) {
	if ch.attempt == nil || ch.attempt.txn() == 0 || ch.state == unknown {
		return
	}
	v.judged[isOutcome]++
	r := c.rows[ch.attempt.txn()]
	others := slices.ContainsFunc(c.changed[ch.attempt], func(o *change) bool { return o != ch && o.state != refused })
	switch {
	case ch.state == acked && r.outcome != ch.kind:
		v.breaks(isOutcome, "txn %d was reported as %s, and is recorded as %q", r.id, ch.kind, r.outcome)
	case ch.state == refused && r.outcome != "" && !others:
		v.breaks(isOutcome, "txn %d is recorded as %s, and that report was refused", r.id, r.outcome)
	case ch.state == acked && ch.kind == "success" && r.counted && c.zones[r.zone].failures:
		v.breaks(isOutcome, "txn %d was a success, and still takes its place", r.id)
	}
}
