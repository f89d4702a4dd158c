package proof_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/proof"
)

// start is the instant of the first txns.
func start() time.Time { return time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC) }

// txn returns a txn of bucket "a" of zone 1 that counts.
func txn(id uint64, after time.Duration, edits ...func(*proof.Row)) proof.Row {
	at := start().Add(after)
	row := proof.Row{Txn: service.Txn{
		ID: id, Bucket: service.Bucket{ZoneID: 1, Key: "a"}, CreatedAt: service.At(at), LastAt: service.At(at), Attempts: 1,
		Counted: true,
	}}
	for _, edit := range edits {
		edit(&row)
	}
	return row
}

func key(key string) func(*proof.Row) { return func(r *proof.Row) { r.Bucket.Key = key } }

func blocked(r *proof.Row) {
	r.Blocked, r.WouldBlock, r.Counted, r.Reason = true, true, false, service.ReasonFull
}

func elsewhere(r *proof.Row) { r.Blocked, r.Counted, r.Reason = true, false, service.ReasonElsewhere }

// givenBack gives the place back after so much time.
func givenBack(after time.Duration) func(*proof.Row) {
	return func(r *proof.Row) {
		r.Counted, r.UncountedAt.Time, r.Outcome = false, r.CreatedAt.Add(after), service.OutcomeSuccess
	}
}

// pair makes it a txn of a check of two buckets.
func pair(r *proof.Row) { r.CheckID, r.CheckBuckets = 7, 2 }

// zone returns a zone with two attempts a minute.
func zone(edits ...func(*service.Zone)) service.Zone {
	z := service.Zone{ID: 1, Rate: 2, Window: time.Minute}
	for _, edit := range edits {
		edit(&z)
	}
	return z
}

// rulesOf returns the rules of zones that were never changed.
func rulesOf(zones ...service.Zone) *proof.Rules {
	rules := proof.NewRules()
	for _, z := range zones {
		rules.AddZone(z)
	}
	return rules
}

// prove returns the findings about rows, with room for so many places, and how many of something is not known.
func prove(rules *proof.Rules, places int, rows []proof.Row) (
	found []proof.Finding, unknown map[proof.Cause]int64, readings int,
) {
	rules.Settle()
	windows := proof.NewWindows(rules, places, func(f proof.Finding) { found = append(found, f) })
	windows.Suspect = func(row proof.Row) { found = append(found, proof.LacksSuccess(&row)) }
	p := proof.New(rules, windows, func(check []proof.Row) { found = append(found, proof.JudgeCheck(check)...) })
	for i := range rows {
		p.Add(&rows[i])
	}
	p.End()
	for readings = 1; windows.Next(); readings++ {
		for i := range rows {
			windows.Add(&rows[i])
		}
	}
	return found, windows.Unknown, readings
}

// expect fails the test unless the findings about rows are of these kinds.
func expect(t *testing.T, name string, rules *proof.Rules, rows []proof.Row, want ...proof.Kind) {
	t.Helper()
	found, _, _ := prove(rules, proof.DefaultPlaces, rows)
	var kinds []proof.Kind
	for _, f := range found {
		kinds = append(kinds, f.Kind)
		if strings.Contains(f.String(), `"a"`) {
			t.Errorf("%s: a finding names the key: %s", name, f)
		}
	}
	if !slices.Equal(kinds, want) {
		t.Errorf("%s: found %v, want %v", name, found, want)
	}
}

// edits of zones and rows for the tables below.
func shadow(z *service.Zone)     { z.Mode = service.ModeShadow }
func off(z *service.Zone)        { z.Mode = service.ModeOff }
func series(z *service.Zone)     { z.RecordBlocked = 1 }
func failures(z *service.Zone)   { z.Counts = service.CountsFailures }
func resets(z *service.Zone)     { z.ResetOnSuccess = true }
func free(z *service.Zone)       { z.RepeatSecret = service.RepeatFree }
func lockout(z *service.Zone)    { z.Lockout = time.Hour }
func concurrent(z *service.Zone) { z.Concurrent, z.ReserveTTL, z.Rate = 1, 10*time.Second, 5 }

func uncounted(r *proof.Row) { r.Counted = false }
func imprint(r *proof.Row)   { r.HasImprint = true }
func passed(r *proof.Row)    { r.Blocked = false }
func success(r *proof.Row)   { r.Outcome = service.OutcomeSuccess }

// because gives the reason of a blocked row.
func because(reason service.Reason) func(*proof.Row) { return func(r *proof.Row) { r.Reason = reason } }

// standsFor lets a row stand for so many attempts, the last of which was so much later.
func standsFor(n int, later time.Duration) func(*proof.Row) {
	return func(r *proof.Row) { r.Attempts, r.LastAt.Time = n, r.CreatedAt.Add(later) }
}

// rowCase is some rows of a zone, and the kinds of the findings about them.
type rowCase struct {
	name string
	zone service.Zone
	rows []proof.Row
	want []proof.Kind
}

// filled returns two txns that fill the bucket, and others.
func filled(others ...proof.Row) []proof.Row {
	return append([]proof.Row{txn(1, 0), txn(2, 1000)}, others...)
}

func TestEachBadPassIsFound(t *testing.T) { //nolint:funlen // a table of cases
	t.Parallel()
	locked := func(r *proof.Row) { r.Reason = service.ReasonLockout }
	released := txn(2, time.Second, givenBack(time.Second))
	for _, c := range []rowCase{
		{"a full window, and the next", zone(), filled(txn(3, time.Minute), txn(4, time.Minute+time.Second)), nil},
		{"one more a microsecond early", zone(), filled(txn(3, time.Minute-time.Microsecond)), []proof.Kind{proof.KindOverRate}},
		{
			"a clock that was set back", zone(),
			[]proof.Row{txn(1, time.Second), txn(2, 0), txn(3, -time.Second)},
			[]proof.Kind{proof.KindOverRate},
		},
		{
			"a place that was given back in time", zone(failures),
			[]proof.Row{txn(1, 0), txn(2, 1000, givenBack(time.Millisecond)), txn(3, time.Second)},
			nil,
		},
		{
			"a place that was given back too late", zone(failures),
			[]proof.Row{txn(1, 0), txn(2, 1000, givenBack(time.Minute)), txn(3, time.Second)},
			[]proof.Kind{proof.KindOverRate},
		},
		{
			"a place that a success of the bucket gave back", zone(resets),
			[]proof.Row{
				txn(1, 0, givenBack(time.Minute), func(r *proof.Row) { r.Outcome = "" }),
				txn(2, time.Second, givenBack(time.Minute-time.Second)),
			},
			nil,
		},
		{
			"a place that nothing gave back", zone(resets),
			[]proof.Row{txn(1, 0, givenBack(time.Second), func(r *proof.Row) { r.Outcome = "" }), txn(2, time.Minute)},
			[]proof.Kind{proof.KindUncharged},
		},
		{
			"a place that a success gave back where attempts count", zone(),
			[]proof.Row{released},
			[]proof.Kind{proof.KindUncharged},
		},
		{"passed, and does not count", zone(), []proof.Row{txn(1, 0, uncounted)}, []proof.Kind{proof.KindUncharged}},
		{
			"a repeated secret", zone(free),
			[]proof.Row{txn(1, 0, imprint), txn(2, time.Second, uncounted), txn(3, time.Second, uncounted)},
			nil,
		},
		{
			"a repeated secret that was not tried", zone(free),
			[]proof.Row{txn(1, 0), txn(2, time.Second, uncounted)},
			[]proof.Kind{proof.KindUncharged},
		},
		{
			"a repeated secret beyond the rate", zone(free), filled(txn(3, time.Second, uncounted)),
			[]proof.Kind{proof.KindOverRate},
		},
		{
			"a new secret that takes no place", zone(free),
			[]proof.Row{txn(1, 0, imprint), txn(2, 1000, imprint, uncounted)},
			[]proof.Kind{proof.KindUncharged},
		},
		{"passed where nothing counts", zone(off), []proof.Row{txn(1, 0, uncounted)}, nil},
		{"counts where nothing counts", zone(off), []proof.Row{txn(1, 0)}, []proof.Kind{proof.KindCharged}},
		{
			"passed in a lockout", zone(lockout),
			filled(txn(3, time.Second, blocked, locked), txn(4, 2*time.Minute)),
			[]proof.Kind{proof.KindLocked},
		},
		{"passed after a lockout", zone(lockout), filled(txn(3, time.Second, blocked, locked), txn(4, 2*time.Hour)), nil},
		{
			"passed beyond concurrent", zone(concurrent),
			[]proof.Row{txn(1, 0), txn(2, time.Second)},
			[]proof.Kind{proof.KindConcurrent},
		},
		{"passed after the time of an attempt under way", zone(concurrent), []proof.Row{txn(1, 0), txn(2, 10*time.Second)}, nil},
		{"passed, and has a reason", zone(), []proof.Row{txn(1, 0, because(service.ReasonFull))}, []proof.Kind{proof.KindReason}},
		{"passed without room", zone(), filled(txn(3, time.Second, blocked, passed)), []proof.Kind{proof.KindFullPassed}},
		{"passed without room in a shadow", zone(shadow), filled(txn(3, time.Second, blocked, passed)), nil},
		{
			"passed, and stands for others", zone(series),
			[]proof.Row{txn(1, 0, standsFor(2, time.Second))},
			[]proof.Kind{proof.KindRepeats},
		},
		{
			"a success that counts", zone(failures), []proof.Row{txn(1, 0, success)}, []proof.Kind{proof.KindOutcome},
		},
	} {
		expect(t, c.name, rulesOf(c.zone), c.rows, c.want...)
	}
}

func TestEachBadRefusalIsFound(t *testing.T) {
	t.Parallel()
	full := txn(3, time.Second, blocked)
	began := txn(3, time.Second, blocked, because(service.ReasonLockout))
	later := func(after time.Duration, reason service.Reason) proof.Row {
		return txn(4, after, blocked, because(reason))
	}
	refused, reason := []proof.Kind{proof.KindRefused}, []proof.Kind{proof.KindReason}
	for _, c := range []rowCase{
		{"refused, and full", zone(), filled(full), nil},
		{"refused, and had room", zone(), []proof.Row{txn(1, 0), full}, refused},
		{"refused by a period that has ended", zone(func(z *service.Zone) {
			z.Calendar.Period = service.PeriodMinute
		}), filled(txn(3, time.Minute, blocked)), refused},
		{"refused in a shadow, and had room", zone(shadow), []proof.Row{txn(1, 0), txn(3, 1000, blocked, passed)}, refused},
		{"blocked by a shadow", zone(shadow), filled(full), []proof.Kind{proof.KindCauseless}},
		{"refused where nothing counts", zone(off), []proof.Row{full}, append(refused, proof.KindCauseless)},
		{"denied by nothing", zone(), []proof.Row{txn(1, 0, blocked, because(service.ReasonDenied))}, reason},
		{"locked by nothing", zone(lockout), filled(txn(3, time.Second, blocked, because(service.ReasonLocked))), reason},
		{"locked where nothing locks", zone(), []proof.Row{txn(3, 0, blocked, because(service.ReasonLocked))}, refused},
		{"locked", zone(lockout), filled(began, later(time.Hour, service.ReasonLocked)), nil},
		{"locked after the end", zone(lockout), filled(began, later(time.Hour+time.Second, service.ReasonLocked)), refused},
		{"full in a lockout", zone(lockout), filled(began, later(2*time.Second, service.ReasonFull)), append(reason, reason...)},
		{"full, and no lockout began", zone(lockout), filled(full), reason},
		{"a lockout where nothing locks", zone(), filled(began), reason},
		{"concurrent", zone(concurrent), []proof.Row{txn(1, 0), txn(2, 1000, blocked, because(service.ReasonConcurrent))}, nil},
		{
			"concurrent, and none was under way", zone(concurrent),
			[]proof.Row{txn(1, 0), txn(2, time.Minute, blocked, because(service.ReasonConcurrent))},
			refused,
		},
		{
			"concurrent, and full", zone(concurrent, func(z *service.Zone) { z.Rate = 1 }),
			[]proof.Row{txn(1, 0), txn(2, 1000, blocked, because(service.ReasonConcurrent))},
			reason,
		},
		{"without a reason", zone(), filled(txn(3, time.Second, blocked, because(""))), reason},
		{
			"blocked, and counts", zone(), filled(txn(3, 1000, blocked, func(r *proof.Row) { r.Counted = true })),
			[]proof.Kind{proof.KindCharged},
		},
		{
			"blocked, and given back", zone(), filled(txn(3, 1000, blocked, func(r *proof.Row) { r.UncountedAt = r.CreatedAt })),
			[]proof.Kind{proof.KindCharged},
		},
		{"blocked, and its login ended", zone(), filled(txn(3, 1000, blocked, success)), []proof.Kind{proof.KindOutcome}},
		{"blocked by nothing", zone(), []proof.Row{txn(1, 0, elsewhere)}, []proof.Kind{proof.KindCauseless}},
		{
			"blocked by a series elsewhere", zone(series),
			filled(txn(3, time.Second, blocked, standsFor(2, time.Second)), txn(4, 2*time.Second, elsewhere, key("b"))), nil,
		},
		{
			"blocked after a series elsewhere", zone(series),
			filled(txn(3, time.Second, blocked, standsFor(2, time.Second)), txn(4, 3*time.Second, elsewhere, key("b"))),
			[]proof.Kind{proof.KindCauseless},
		},
		{
			"stands for others where each has a txn", zone(), filled(txn(3, 1000, blocked, standsFor(2, 1000))),
			[]proof.Kind{proof.KindRepeats},
		},
		{
			"stands for none, and had a later one", zone(series), filled(txn(3, 1000, blocked, standsFor(1, 1000))),
			[]proof.Kind{proof.KindRepeats},
		},
		{
			"stands for others of before", zone(series), filled(txn(3, 1000, blocked, standsFor(2, -1000))),
			[]proof.Kind{proof.KindRepeats},
		},
	} {
		expect(t, c.name, rulesOf(c.zone), c.rows, c.want...)
	}
}

func TestEachBadCheckIsFound(t *testing.T) {
	t.Parallel()
	b := key("b")
	denied := func(r *proof.Row) { r.Reason, r.OverrideID = service.ReasonDenied, 9 }
	began := because(service.ReasonLockout)
	torn, causeless := []proof.Kind{proof.KindTorn}, []proof.Kind{proof.KindCauseless}
	for _, c := range []rowCase{
		{"an id twice", zone(), []proof.Row{txn(1, 0), txn(1, 1000)}, []proof.Kind{proof.KindTwice}},
		{"a whole check", zone(), []proof.Row{txn(1, 0, pair), txn(2, 0, pair, b)}, nil},
		{"a blocked check", zone(), filled(txn(3, time.Second, pair, blocked), txn(4, time.Second, pair, b, elsewhere)), nil},
		{"a check that lacks a txn", zone(), []proof.Row{txn(1, 0, pair)}, torn},
		{
			"a check that is half blocked", zone(),
			filled(txn(3, time.Second, pair, blocked), txn(4, time.Second, pair, b)), torn,
		},
		{
			"a check with half an outcome", zone(failures),
			[]proof.Row{txn(1, 0, pair), txn(2, 0, pair, b, givenBack(1000))},
			torn,
		},
		{"a check at two instants", zone(), []proof.Row{txn(1, 0, pair), txn(2, 1000, pair, b)}, []proof.Kind{proof.KindInstants}},
		{"a check with a bucket twice", zone(), []proof.Row{txn(1, 0, pair), txn(2, 0, pair)}, torn},
		{
			"a check that nothing blocks", zone(),
			[]proof.Row{txn(1, 0, pair, elsewhere), txn(2, 0, pair, b, elsewhere)},
			causeless,
		},
		{
			"a check that a shadow blocks", zone(shadow),
			filled(txn(3, time.Second, pair, blocked), txn(4, time.Second, pair, b, elsewhere)), causeless,
		},
		{
			"an instant out of order", zone(),
			[]proof.Row{txn(1, 0), txn(2, time.Hour, b), txn(3, time.Second), txn(4, 2*time.Second, b)},
			[]proof.Kind{proof.KindInstants},
		},
		{
			"no lockout beside a denial", zone(lockout), filled(
				txn(3, time.Second, pair, blocked), txn(4, time.Second, pair, blocked, denied, key("denied"))), nil,
		},
		{
			"a lockout beside a denial", zone(lockout), filled(
				txn(3, time.Second, pair, blocked, began), txn(4, time.Second, pair, blocked, denied, key("denied"))),
			[]proof.Kind{proof.KindReason},
		},
		{
			"passed in spite of a denial", zone(), []proof.Row{txn(1, 0, key("denied"))}, []proof.Kind{proof.KindDenied},
		},
		{
			"denied by another override", zone(),
			[]proof.Row{txn(1, 0, blocked, denied, key("denied"), func(r *proof.Row) { r.OverrideID = 8 })},
			[]proof.Kind{proof.KindReason},
		},
	} {
		rules := rulesOf(c.zone)
		deny := service.Override{ID: 9, ZoneID: 1, Key: "denied", Action: service.OverrideDeny}
		rules.AddOverrideChange(start().Add(-time.Hour), 9, nil, &deny)
		expect(t, c.name, rules, c.rows, c.want...)
	}
}

// TestWhatIsNotKnownIsCounted has rows that may be right, for each cause.
func TestWhatIsNotKnownIsCounted(t *testing.T) {
	t.Parallel()
	pseudonym := func(id string) func(*proof.Row) { return key("hmac:" + id + ":" + strings.Repeat("a", 43)) }
	began := txn(3, time.Second, blocked, because(service.ReasonLockout), standsFor(3, 30*time.Minute))
	failed := func(r *proof.Row) { r.Outcome = service.OutcomeFailure }
	unknownZone := zone(func(z *service.Zone) { z.Revision = 2 })
	for _, c := range []struct {
		cause proof.Cause
		zone  service.Zone
		rows  []proof.Row
		want  int64
	}{
		{proof.CauseSettings, unknownZone, filled(txn(3, 1000, blocked)), 3},
		{
			proof.CausePseudonyms, zone(), []proof.Row{
				txn(1, 0, pseudonym("old")), txn(2, 1000, pseudonym("new")),
				txn(3, time.Second, pair, blocked, pseudonym("old")), txn(4, time.Second, pair, blocked, pseudonym("new")),
			}, 2,
		},
		{
			proof.CausePseudonyms, zone(free), []proof.Row{
				txn(1, 0, imprint, pseudonym("old")), txn(2, time.Second, pair, uncounted, pseudonym("old")),
				txn(3, time.Second, pair, uncounted, pseudonym("new")),
			}, 1,
		},
		{proof.CauseErased, zone(), []proof.Row{txn(1, 0, blocked, key("erased:0"))}, 1},
		{
			proof.CauseOutcomes, zone(concurrent),
			[]proof.Row{txn(1, 0, failed), txn(2, 1000, blocked, because(service.ReasonConcurrent))},
			1,
		},
		{proof.CauseLockout, zone(lockout, series), filled(began, txn(4, 2*time.Hour)), 1},
		{proof.CauseClock, zone(), []proof.Row{txn(1, time.Second), txn(2, 0, blocked)}, 1},
		{
			proof.CauseSeries, zone(series),
			filled(txn(3, 1000, blocked, standsFor(2, time.Second)), txn(4, time.Second, elsewhere, key("b"))), 1,
		},
	} {
		found, unknown, _ := prove(rulesOf(c.zone), proof.DefaultPlaces, c.rows)
		if len(found) > 0 || len(unknown) != 1 || unknown[c.cause] != c.want || !strings.HasPrefix(c.cause.Why(), "because") {
			t.Errorf("%s: found %v, unknown %v", c.cause, found, unknown)
		}
	}
}

func TestPeriodsOfTheCalendarAreProven(t *testing.T) {
	t.Parallel()
	daily := zone(func(z *service.Zone) {
		z.Window, z.Calendar = 24*time.Hour, service.Calendar{Period: service.PeriodDay, Offset: 60, Anchor: 1}
	})
	last := 11*time.Hour - time.Microsecond // the end of the day at UTC+1
	expect(t, "a full day, and the next at once", rulesOf(daily), []proof.Row{
		txn(1, last-time.Hour), txn(2, last), txn(3, last+time.Microsecond), txn(4, last+time.Microsecond),
	})
	expect(t, "one more in a day", rulesOf(daily), []proof.Row{
		txn(1, last-10*time.Hour), txn(2, last-time.Hour), txn(3, last),
	}, proof.KindOverRate)
}

func TestTxnsAreJudgedByLimitOfTheirTime(t *testing.T) {
	t.Parallel()
	wide, narrow := zone(func(z *service.Zone) { z.Rate, z.Revision = 4, 1 }),
		zone(func(z *service.Zone) { z.Revision = 2 })
	changed := func() *proof.Rules {
		rules := proof.NewRules()
		rules.AddChange(start().Add(-time.Hour), 1, nil, &wide)
		rules.AddChange(start().Add(time.Hour), 1, &wide, &narrow)
		rules.AddZone(narrow)
		return rules
	}
	four := func(after time.Duration) (rows []proof.Row) {
		for i := range 4 {
			rows = append(rows, txn(uint64(i+1), after+time.Duration(i)*time.Second))
		}
		return rows
	}
	expect(t, "before it was narrowed", changed(), four(0))
	expect(t, "while it was narrowed", changed(), four(time.Hour+time.Minute)) // the change may be committed later
	expect(t, "afterwards", changed(), four(2*time.Hour), proof.KindOverRate, proof.KindOverRate)

	limited := proof.NewRules()
	exception := service.Override{
		ID: 9, ZoneID: 1, Key: "a", Action: service.OverrideLimit, Rate: 1,
		Window: service.Lasting(time.Hour),
	}
	limited.AddOverrideChange(start().Add(-time.Hour), 9, nil, &exception)
	limited.AddOverrideChange(start().Add(3*time.Hour), 9, &exception, nil)
	limited.AddZone(zone())
	expect(t, "under an override", limited, []proof.Row{
		txn(1, 0), txn(2, time.Hour-1000), txn(3, 2*time.Hour), txn(4, 4*time.Hour), txn(5, 4*time.Hour),
	}, proof.KindOverRate)

	moved := proof.NewRules()
	before, after := exception, exception
	before.Action, after.Action, after.Key = service.OverrideDeny, service.OverrideDeny, "b"
	moved.AddOverrideChange(start().Add(-time.Hour), 9, nil, &before)
	moved.AddOverrideChange(start().Add(time.Hour), 9, &before, &after)
	moved.AddZone(zone())
	expect(t, "an override was given another key", moved, []proof.Row{
		txn(1, 0), txn(2, 0, key("b")), txn(3, 2*time.Hour), txn(4, 2*time.Hour, key("b")),
	}, proof.KindDenied, proof.KindDenied)

	denied := func(complete time.Time) *proof.Rules {
		rules := rulesOf(zone())
		rules.Complete = complete
		rules.AddOverride(service.Override{ID: 9, ZoneID: 1, Key: "a", Action: service.OverrideDeny})
		return rules
	}
	expect(t, "denied since an unknown time", denied(time.Time{}), []proof.Row{txn(1, 0)})
	expect(t, "denied since before all changes", denied(start().Add(-time.Hour)), []proof.Row{txn(1, 0)}, proof.KindDenied)

	unknown := proof.NewRules()
	unknown.AddZone(narrow) // its first change is missing
	expect(t, "without its changes", unknown, four(0))
}

// wantCut wants that a row is not judged, because those before an instant are gone.
func wantCut(t *testing.T, rules *proof.Rules, complete time.Time, row proof.Row) {
	t.Helper()
	rules.Settle()
	windows := proof.NewWindows(rules, proof.DefaultPlaces, func(f proof.Finding) { t.Error("rows before are gone:", f) })
	windows.Complete = complete
	if windows.Add(&row); windows.Unknown[proof.CauseHistory] != 1 {
		t.Errorf("rows before are gone: not known are %v", windows.Unknown)
	}
}

func TestRowsThatAreGoneMayExplainOthers(t *testing.T) {
	t.Parallel()
	wantCut(t, rulesOf(zone()), start(), txn(9, time.Second, blocked))
	wantCut(t, rulesOf(zone(free)), start(), txn(9, time.Second, uncounted))
	wantCut(t, rulesOf(zone(concurrent)), start(), txn(9, time.Second, blocked, because(service.ReasonConcurrent)))
	wantCut(t, rulesOf(zone(lockout)), start(), txn(9, time.Second, blocked, because(service.ReasonLocked)))
}

// TestALockoutOutlastsAnEditOfItsZone shortens lockout_max while a lockout runs, and makes lockout_decay longer after
// one that had been forgotten.
func TestALockoutOutlastsAnEditOfItsZone(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	edited := func(edit func(*service.Zone)) *proof.Rules {
		before := zone(lockout, func(z *service.Zone) { z.Revision, z.LockoutMax, z.LockoutDecay = 1, 20*day, day })
		after := before
		after.Revision++
		edit(&after)
		rules := proof.NewRules()
		rules.AddChange(start().Add(-day), 1, nil, &before)
		rules.AddChange(start().Add(2*day), 1, &before, &after)
		rules.AddZone(after)
		return rules
	}
	wantCut(t, edited(func(z *service.Zone) { z.LockoutMax = day }), start().Add(2*day),
		txn(9, 4*day, blocked, because(service.ReasonLocked)))
	again := []proof.Row{
		txn(1, 0), txn(2, 1000), txn(3, time.Second, blocked, because(service.ReasonLockout)),
		txn(4, 3*day), txn(5, 3*day), txn(6, 3*day, blocked, because(service.ReasonLockout)),
		txn(7, 3*day+90*time.Minute, blocked, because(service.ReasonLocked)),
	}
	expect(t, "it grows from one of long ago", edited(func(z *service.Zone) { z.LockoutDecay = 9 * day }), again)
	again[6] = txn(7, 3*day+90*time.Minute)
	expect(t, "retention had forgotten the one of long ago", edited(func(z *service.Zone) { z.LockoutDecay = 9 * day }), again)
	expect(t, "it does not grow", edited(func(z *service.Zone) { z.LockoutFactor = 3 }), again)
}

func TestASmallMemoryFindsTheSame(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var rows []proof.Row
	for i := range 20_000 {
		row := txn(uint64(i+1), time.Duration(i)*time.Millisecond, key(fmt.Sprint(random.IntN(5000))))
		if random.IntN(10) == 0 {
			givenBack(time.Second)(&row)
		}
		rows = append(rows, row)
	}
	whole, _, once := prove(rulesOf(zone(failures)), proof.DefaultPlaces, rows)
	parts, _, often := prove(rulesOf(zone(failures)), 2000, rows)
	byID := func(a, b proof.Finding) int { return int(a.TxnID) - int(b.TxnID) }
	slices.SortFunc(parts, byID)
	if once != 1 || often < 8 || len(whole) == 0 || !slices.Equal(whole, parts) {
		t.Errorf("%d findings in %d reading, %d in %d", len(whole), once, len(parts), often)
	}
}

func TestAnAnswerNeedsItsTxns(t *testing.T) {
	t.Parallel()
	const text = `[[1,"a",0,0,1,5,60,1,4,0,"elsewhere",0,0],[2,"b",1,1,2,5,60,5,0,9,"full",0,0]]`
	answer := proof.Answer{AttemptID: "x", At: start()}
	if err := answer.Read([]byte(text)); err != nil {
		t.Fatal(err)
	}
	named := func(r *proof.Row) { r.AttemptID = "x" }
	a := txn(1, 0, elsewhere, named)
	b := txn(2, 0, blocked, named, func(r *proof.Row) { r.Bucket = service.Bucket{ZoneID: 2, Key: "b"} })
	earlier := b
	earlier.CreatedAt.Time, earlier.AttemptID, earlier.Attempts = b.CreatedAt.Add(-time.Minute), "", 3
	other := b
	other.Bucket.Key = "c"
	for _, c := range []struct {
		name string
		txns []proof.Row
		want int
	}{
		{"both", []proof.Row{a, b}, 0},
		{"one counts it in an earlier txn", []proof.Row{a, earlier}, 0},
		{"one is missing", []proof.Row{a}, 1},
		{"one is of another bucket", []proof.Row{a, other}, 1},
		{"one passed", []proof.Row{txn(1, 0, named), b}, 1},
		{"none", nil, 2},
	} {
		if found := answer.Judge(c.txns); len(found) != c.want {
			t.Errorf("%s: found %v, want %d", c.name, found, c.want)
		}
	}
}

func FuzzAnAnswerIsReadOrRefused(f *testing.F) {
	for _, seed := range []string{
		`[[1,"a",0,1,7,5,60,1,4,0,"",0,0]]`, `[]`, `null`, `[[]]`, `[[1,"x"]]`, `[[1,2,0,0,1]]`, `[[1,"x",0,0,-1]]`, `{}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var answer proof.Answer
		if err := answer.Read(text); err == nil && len(answer.Verdicts) == 0 {
			t.Errorf("%q names no bucket, and is no error", text)
		} else if err != nil && len(text) > 20 && strings.Contains(err.Error(), string(text)) {
			t.Errorf("the error quotes %q", text)
		}
	})
}
