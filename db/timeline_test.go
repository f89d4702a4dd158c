package db

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
	"velocityd/tools/nightly"
)

// Flags of TestGoAndSQLAgreeOnRandomTimelines and TestClusterGoAndSQLAgreeOnRandomTimelines.
var (
	timelines = flag.Int("timelines", 0, "random `number` of timelines for each engine; 0: 6, or 50 in make test-all") //nolint:gochecknoglobals // a flag of the test binary
	firstSeed = flag.Uint64("timeline", 0, "`seed` of the first timeline; 0: 1, or the present time in make test-all") //nolint:gochecknoglobals // a flag of the test binary
)

// TestGoAndSQLAgreeOnRandomTimelines asks the same of package db, which decides by
// service.Decide, and of the procedures, which decide in SQL, in two databases that
// have one clock. Reports, releases and peeks are carried out by statements in one of them, and
// by procedures in the other. Answers and rows must be alike.
func TestGoAndSQLAgreeOnRandomTimelines(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		most := 6
		if nightly.Is() {
			most = 50
		}
		liveTogether(t, newTwins(t, engine), 1, most)
	})
}

// liveTogether has twins live through random timelines, each in three zones of its own: most of
// them, unless the flag says how many. Fifty or more go on until one crosses a tally, which few do.
func liveTogether(t *testing.T, twins []*twin, firstZone int64, most int) {
	t.Helper()
	most = cmp.Or(*timelines, most)
	seed := cmp.Or(*firstSeed, 1)
	if *firstSeed == 0 && nightly.Is() {
		seed = uint64(time.Now().UnixNano())
	}
	if *firstSeed == 0 {
		for i, old := range seedsThatDiffered() {
			l := newTimeline(twins, old, firstZone+int64(3*4*most+3*i))
			t.Run(fmt.Sprint("timeline ", old), l.live)
		}
	}
	failures, lived, ended := 0, 0, 0
	lacksTally := func() bool { return most >= 50 && twins[0].uses == 0 }
	for ; (lived < most || lacksTally() && lived < 4*most) && failures < 3; lived++ {
		l := newTimeline(twins, seed, firstZone+int64(3*lived))
		if !t.Run(fmt.Sprint("timeline ", seed), l.live) {
			failures++
		}
		if l.lostClock {
			ended++
		}
		seed++
	}
	t.Logf("%d timelines, up to that of seed %d; %d batches used tallies", lived, seed-1, twins[0].uses)
	if ended > lived/2 {
		t.Errorf("%d of %d timelines ended early, because a session was lost", ended, lived)
	}
	if lacksTally() {
		t.Error("no timeline has crossed a tally")
	}
}

// seedsThatDiffered are of timelines in which Go and SQL once disagreed.
func seedsThatDiffered() []uint64 {
	// The key of imprints, made anew for a blocked attempt, before the clock was set back.
	return []uint64{1795890439478160382}
}

// twinTimeline is a random history that twins live through together.
type twinTimeline struct {
	twins   []*twin // Go's, and SQL's
	random  *rand.Rand
	past    []string // one line for each step
	now     time.Time
	steady  bool // zones stay as they were first, so that the rows can be audited
	first   int64
	zones   map[int64]service.Zone // that exist
	audited []service.Zone
	keys    [3][]string
	// instants and spans make edges: something ends at an instant
	// and a span.
	instants []time.Time
	spans    []time.Duration
	attempts []service.Check
	named    int         // attempt ids
	reported [][2]uint64 // txn ids of the twins
	// lostClock says that a session was lost that had the timeline's clock.
	lostClock bool
}

func newTimeline(twins []*twin, seed uint64, firstZone int64) *twinTimeline {
	l := &twinTimeline{
		twins: twins, random: rand.New(rand.NewPCG(seed, 1)), first: firstZone,
		zones: map[int64]service.Zone{},
		keys: [3][]string{
			{"bob", "alice", "jürgen", "it's", "a\\b"},
			{"203.0.113.9", "203.0.113.10", "203.0.113.0/24", "2001:db8::/64", "2001:db8::2", "no address"},
			{"x", "X", "x "},
		},
		spans: []time.Duration{10 * time.Minute},
	}
	// Noon, and shortly before the ends of months, of years and of February, in leap years and in others.
	l.now = pick(l.random, time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC), time.Date(2028, 2, 28, 23, 59, 30, 0, time.UTC),
		time.Date(2028, 2, 29, 23, 59, 30, 0, time.UTC), time.Date(2029, 2, 28, 23, 59, 30, 0, time.UTC),
		time.Date(2029, 12, 31, 23, 59, 30, 0, time.UTC), time.Date(2030, 4, 30, 15, 44, 30, 0, time.UTC))
	l.steady = l.random.IntN(4) == 0
	for _, w := range twins {
		w.forgetNames()
	}
	return l
}

func (l *twinTimeline) live(t *testing.T) {
	const steps = 30
	defer func() {
		if t.Failed() {
			t.Logf("to see it again: -timelines 1 -timeline <its number>\n%s", strings.Join(l.past, "\n"))
		}
	}()
	defer l.forget(t)
	noon := l.now
	l.setClock(t, noon.Add(-2*time.Hour)) // the zones are older than their windows
	for id := l.first; id <= l.lastZone(); id++ {
		l.editZone(t, id)
	}
	for _, zone := range l.zones {
		l.audited = append(l.audited, zone)
	}
	l.setClock(t, noon)
	l.crowd(t)
	for range steps {
		l.step(t)
		l.twins[0].auditTallies(t, l.first, l.lastZone())
		if t.Failed() {
			return
		}
	}
	l.compareRows(t)
	for _, w := range l.twins {
		if l.steady {
			w.AuditZones(t, l.audited...)
		}
	}
}

// forget removes the twins' rows of the timeline.
func (l *twinTimeline) forget(t *testing.T) {
	t.Helper()
	for _, w := range l.twins {
		clearZones(t, w.SQL, l.first, l.lastZone())
		deleteRows(t, w.SQL, "zone_attempt WHERE attempt_id LIKE ?", l.attemptName("%"))
	}
}

func (l *twinTimeline) step(t *testing.T) {
	t.Helper()
	kind := l.random.IntN(24)
	if l.steady && kind < 7 {
		kind += 7
	}
	switch kind {
	case 0, 1:
		l.editZone(t, l.zoneID())
	case 2, 3, 4:
		l.override(t)
	case 5:
		l.fill(t)
	case 6:
		l.deleteZone(t)
	case 7:
		l.release(t)
	case 8:
		l.clean(t)
	case 9, 10:
		l.report(t)
	case 11, 12, 13, 14, 15:
		l.turnClock(t)
	default:
		for range pick(l.random, 1, 1, 3) {
			l.check(t)
		}
		l.peek(t)
	}
}

func pick[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

func (l *twinTimeline) note(format string, args ...any) {
	l.past = append(l.past, fmt.Sprintf(format, args...))
}

func (l *twinTimeline) lastZone() int64 { return l.first + 2 }

func (l *twinTimeline) zoneID() int64 { return l.first + l.random.Int64N(3) }

// bucket returns one whose key is as its zone writes keys: procedures refuse others.
func (l *twinTimeline) bucket() service.Bucket {
	place := pick[int64](l.random, 0, 1, 2, 2)
	for {
		b := service.Bucket{ZoneID: l.first + place, Key: pick(l.random, l.keys[place]...)}
		if l.isNormal(b) {
			return b
		}
	}
}

// isNormal reports whether a zone has such a key. A zone that is not there has any.
func (l *twinTimeline) isNormal(b service.Bucket) bool {
	key, err := l.zones[b.ZoneID].Keys.Normalize(b.Key)
	return err == nil && key == b.Key
}

func (l *twinTimeline) setClock(t *testing.T, now time.Time) {
	t.Helper()
	l.note("the clock says %s", now.Format(session.InstantFormat))
	l.now = now
	for _, w := range l.twins {
		w.setClock(t, now)
	}
}

// turnClock goes on, to the edge of something to the microsecond, or back.
func (l *twinTimeline) turnClock(t *testing.T) {
	t.Helper()
	now := l.now.Add(time.Duration(l.random.IntN(40)) * time.Second)
	switch {
	case l.random.IntN(8) == 0: // a step back
		now = l.now.Add(
			-time.Duration(1 + l.random.Int64N(int64(pick(l.random, time.Millisecond, time.Minute, 3*time.Hour)))))
	case l.random.IntN(2) == 0 && len(l.instants) > 0:
		edge := l.edge()
		now = edge.Add(time.Duration(l.random.IntN(3)-1) * time.Microsecond)
	}
	l.setClock(t, now.Truncate(time.Microsecond))
}

// edge returns an instant at which something ends: a span after an instant, or a period of a zone.
func (l *twinTimeline) edge() time.Time {
	if zone, exists := l.zones[l.zoneID()]; exists && !zone.Calendar.IsNone() {
		begin, end := zone.Calendar.Bounds(pick(l.random, append(l.instants, l.now)...))
		return pick(l.random, begin, end, end)
	}
	return pick(l.random, l.instants...).Add(pick(l.random, l.spans...))
}

// report reports a few outcomes in one call, some of them again.
func (l *twinTimeline) report(t *testing.T) {
	t.Helper()
	if len(l.reported) == 0 {
		return
	}
	var reports [2][]service.Report
	for range 1 + l.random.IntN(4) {
		ids := pick(l.random, l.reported...)
		outcome := pick(l.random, service.OutcomeSuccess, service.OutcomeSuccess, service.OutcomeFailure)
		for side := range reports {
			reports[side] = append(reports[side], service.Report{TxnID: ids[side], Outcome: outcome})
		}
	}
	var lines [2][]string
	for side, w := range l.twins {
		errs, err := w.others.ReportAll(context.Background(), reports[side])
		for _, err := range append(errs, err) {
			lines[side] = append(lines[side], kindOf(err))
		}
	}
	l.note("reports %+v: %q", reports, lines)
	if d := difference(lines[0], lines[1]); d != "" {
		t.Errorf("reports %+v: %s", reports, d)
	}
}

func (l *twinTimeline) compareRows(t *testing.T) {
	t.Helper()
	var lines [2][]string
	for side, w := range l.twins {
		lines[side] = w.rows(t, l.first, l.lastZone(), l.attemptName(""))
	}
	if d := difference(lines[0], lines[1]); d != "" {
		t.Errorf("rows: %s", d)
	}
}

// attemptName returns an attempt id. Those that begin otherwise other tests delete from a cluster.
func (l *twinTimeline) attemptName(n any) string { return fmt.Sprintf("cluster-t%d-%v", l.first, n) }

// check asks a random batch, in one of the ways that each twin has.
func (l *twinTimeline) check(t *testing.T) {
	t.Helper()
	if l.random.IntN(8) > 0 {
		l.setClock(t, l.now.Add(time.Millisecond))
	}
	checks := make([]service.Check, pick(l.random, 1, 1, 1, 2, 3, 4, 12))
	for i := range checks {
		checks[i] = l.randomCheck()
	}
	// A retry may name keys of a time when its zone wrote them otherwise.
	isOld := slices.ContainsFunc(checks, func(check service.Check) bool {
		return slices.ContainsFunc(check.Buckets, func(b service.Bucket) bool { return !l.isNormal(b) })
	})
	if stale := l.random.IntN(12); stale == 0 || stale == 1 || isOld {
		l.normalise(checks, stale == 1)
	}
	var lines [2][]string
	var decisions [2][]service.Decision
	for side, w := range l.twins {
		lines[side], decisions[side] = w.answers(l.random.IntN(len(w.ask)), checks)
	}
	l.note("checks %+v\n  %s", checks, strings.Join(lines[0], "\n  "))
	for side, w := range l.twins {
		if !w.isSharded && isOfToday(decisions[side]) {
			l.lostClock = true
			t.Skip(
				"the machine stood still for so long that the engine ended a session: its successor does not have the timeline's " +
					"clock")
		}
	}
	if d := difference(lines[0], lines[1]); d != "" {
		t.Errorf("checks %+v: %s", checks, d)
		return
	}
	for i, d := range decisions[0] {
		if d.Err != nil {
			continue
		}
		if !d.CheckedAt.Equal(l.now) && checks[i].AttemptID == "" {
			t.Errorf("decided at %s, the clock said %s", d.CheckedAt.Time, l.now)
		}
		l.instants = append(l.instants, d.CheckedAt.Time)
		l.answered(checks[i])
		for j, v := range d.Verdicts {
			l.reported = append(l.reported, [2]uint64{v.TxnID, decisions[1][i].Verdicts[j].TxnID})
		}
	}
}

// isOfToday says that checks were decided by the true time.
func isOfToday(decisions []service.Decision) bool {
	return slices.ContainsFunc(decisions, func(d service.Decision) bool {
		return d.Err == nil && time.Since(d.CheckedAt.Time).Abs() < 24*time.Hour
	})
}

// answered remembers the buckets that an attempt has now. It may have begun anew with others.
func (l *twinTimeline) answered(check service.Check) {
	for i := range l.attempts {
		if l.attempts[i].AttemptID == check.AttemptID {
			l.attempts[i].Buckets = slices.Clone(check.Buckets)
		}
	}
}
