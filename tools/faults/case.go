//go:build linux

package main

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
)

// row is a txn as the table has it.
type row struct {
	bucket

	ID         uint64
	At         time.Time `db:"created_at"`
	Blocked    bool
	WouldBlock bool `db:"would_block"`
	Counted    bool
	Reason     string
	Outcome    string
	Name       string `db:"attempt_id"`
}

func readRows(ctx context.Context, db *sql.DB) (list []row, err error) {
	err = sqlx.NewDb(db, "mysql").SelectContext(ctx, &list, "SELECT id, created_at, zone_id, bucket_key, blocked, "+
		"would_block, counted, COALESCE(reason, '') AS reason, COALESCE(outcome, '') AS outcome, "+
		"COALESCE(attempt_id, '') AS attempt_id FROM zone_txn WHERE bucket_key NOT LIKE 'old-%'")
	return list, err
}

// caseOf is all that is judged of a round.
type caseOf struct {
	*records

	zones   map[int]zone
	rows    map[uint64]row
	named   map[string][]row       // by attempt id, or ""
	changed map[*attempt][]*change // outcomes of an attempt
	emptied map[bucket][]*change   // releases, erasures, and successes that reset
	asked   map[bucket][]*attempt  // that passed or, being unknown, may have passed
}

func newCase(r *records, rows []row) *caseOf {
	c := &caseOf{
		records: r, zones: zonesByID(), rows: map[uint64]row{}, named: map[string][]row{}, changed: map[*attempt][]*change{},
		emptied: map[bucket][]*change{}, asked: map[bucket][]*attempt{},
	}
	for _, r := range rows {
		c.rows[r.ID], c.named[r.Name] = r, append(c.named[r.Name], r)
	}
	for _, ch := range r.changes {
		if ch.attempt != nil {
			c.changed[ch.attempt] = append(c.changed[ch.attempt], ch)
		}
		for _, b := range ch.buckets {
			if ch.attempt == nil || c.zones[b.Zone].resets && ch.kind == "success" {
				c.emptied[b] = append(c.emptied[b], ch)
			}
		}
	}
	for _, a := range r.attempts {
		for _, b := range a.buckets {
			isBlocked := slices.ContainsFunc(a.answers, func(v answer) bool { return v.bucket == b && v.WouldBlock })
			if a.state == unknown || a.state == acked && !a.blocked && !isBlocked {
				c.asked[b] = append(c.asked[b], a)
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
			isTold = isTold || b.Reason != ""
			isCaused = isCaused || b.WouldBlock && !c.zones[b.Zone].isShadow
			if a.state == acked && a.blocked && b.Reason != "" {
				c.judgeRefusal(v, a, b)
			}
		}
		if a.state == acked && a.blocked != isCaused && (isTold || !a.blocked) {
			v.breaks(isRoom, "%s has the answers %+v, and the whole is %v", a.name, a.answers, a.blocked)
		}
	}
	for b, places := range c.asked {
		c.judgeRate(v, b, places)
	}
	for _, ch := range c.changes {
		c.judgeOutcome(v, ch)
	}
}

// judgeAnswer holds an acknowledged answer against its rows.
func (c *caseOf) judgeAnswer(v *verdict, a *attempt, seen map[uint64]*attempt) {
	isShared := a.blocked && slices.ContainsFunc( // by the rows of other attempts
		a.buckets, func(b bucket) bool { return c.zones[b.Zone].blocked > 0 })
	v.judged[isOnce]++
	if a.again != nil && !slices.Equal(a.again, a.answers) {
		v.breaks(isOnce, "%s was answered %v and %v", a.name, a.answers, a.again)
	}
	for _, b := range a.answers {
		if b.Txn == 0 {
			continue // over gRPC
		}
		v.judged[isRecorded]++
		r, ok := c.rows[b.Txn]
		isErased := b.Key == erasable && strings.HasPrefix(r.Key, "erased:")
		isGRPC := strings.HasPrefix(a.door, "grpc")
		switch {
		case !ok:
			v.breaks(isRecorded, "txn %d of %v was answered at %.3f s and is not there", b.Txn, b.bucket, a.end.Seconds())
		case r.Zone != b.Zone || r.Key != b.Key && !isErased || r.Blocked != a.blocked,
			!isGRPC && (r.WouldBlock != b.WouldBlock || r.Reason != b.Reason), !isShared && r.Name != a.name:
			v.breaks(isRecorded, "%s was answered %+v, and is recorded as %+v", a.name, b, r)
		}
		if other := seen[b.Txn]; other != nil && !isShared {
			v.breaks(isOnce, "txn %d was given to %s and %s", b.Txn, other.name, a.name)
		}
		seen[b.Txn] = a
	}
	if n := len(c.named[a.name]); a.name != "" && n < len(a.buckets) && !isShared {
		v.breaks(isRecorded, "%s was answered and has %d of %d txns", a.name, n, len(a.buckets))
	}
}

// tolerance is the most by which the clocks of caller and engine part within a window.
const tolerance = 2 * time.Millisecond

// isUntold says that a window ends after the engine's clock was set.
func (c *caseOf) isUntold(s span) bool {
	stepped := c.stepped.Load()
	return stepped > 0 && s.end > time.Duration(stepped)
}

// judgeRate counts passes that are in one window for sure: asked for after its begin, and answered before its end.
func (c *caseOf) judgeRate(v *verdict, b bucket, all []*attempt) {
	z := c.zones[b.Zone]
	passes := slices.DeleteFunc(slices.Clone(all), func(p *attempt) bool {
		gaveBack := (z.failures || z.resets) && slices.ContainsFunc(c.changed[p],
			func(ch *change) bool { return ch.kind == "success" && ch.state != refused })
		return p.state != acked || gaveBack || z.isFree && !p.isFresh
	})
	slices.SortFunc(passes, func(a, b *attempt) int { return int(a.begin - b.begin) })
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
	z := c.zones[b.Zone]
	since, need := c.wall(a.begin).Sub(z.begin(c.wall(a.begin))), z.lowest
	switch b.Reason {
	case "full", "lockout":
	case "concurrent":
		since, need = z.ttl, z.concurrent
	default: // the histories and the audit judge lockouts
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
		v.breaks(isRoom, "%s in %v was %s at %.3f s, and at most %d places were taken", a.name, b.bucket, b.Reason,
			a.begin.Seconds(), n)
	}
}

// isGivenBack says that an attempt takes no place any more at a time, or is not under way.
func (c *caseOf) isGivenBack(z zone, b answer, p *attempt, at time.Duration) bool {
	ended := func(ch *change) bool {
		counts := ch.kind == "success" && z.failures || b.Reason == "concurrent"
		return ch.state == acked && ch.end < at && counts
	}
	emptied := func(ch *change) bool { return ch.state == acked && ch.end < at && p.end < ch.begin }
	return slices.ContainsFunc(c.changed[p], ended) || slices.ContainsFunc(c.emptied[b.bucket], emptied)
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
	case ch.state == acked && r.Outcome != ch.kind:
		v.breaks(isOutcome, "txn %d was reported as %s, and is recorded as %q", r.ID, ch.kind, r.Outcome)
	case ch.state == refused && r.Outcome != "" && !others:
		v.breaks(isOutcome, "txn %d is recorded as %s, and that report was refused", r.ID, r.Outcome)
	case ch.state == acked && ch.kind == "success" && r.Counted && c.zones[r.Zone].failures:
		v.breaks(isOutcome, "txn %d was a success, and still takes its place", r.ID)
	}
}
