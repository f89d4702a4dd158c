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
	decaysLater := func(z *service.Zone) { z.LockoutDecay = 9 * day }
	expect(t, "it grows from one of long ago", edited(decaysLater), again)
	again[6] = txn(7, 3*day+90*time.Minute)
	expect(t, "retention had forgotten the one of long ago", edited(decaysLater), again)
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
