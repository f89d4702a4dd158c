package proof_test

import (
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/proof"
)

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
