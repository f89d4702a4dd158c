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

// prove returns the findings about rows, with room for so many places.
func prove(rules *proof.Rules, places int, rows []proof.Row) (found []proof.Finding, readings int) {
	rules.Settle()
	windows := proof.NewWindows(rules, places)
	add := func(f proof.Finding) { found = append(found, f) }
	p := proof.New(rules, time.Time{}, windows, add, func(check []proof.Row) {
		for _, f := range proof.JudgeCheck(check, rules.HasSeries()) {
			add(f)
		}
	})
	for i := range rows {
		p.Add(&rows[i])
	}
	p.End()
	for readings = 1; windows.Next(); readings++ {
		for i := range rows {
			if f, over := windows.Add(&rows[i]); over {
				add(f)
			}
		}
	}
	return found, readings
}

// expect fails the test unless the findings about rows are of these kinds.
func expect(t *testing.T, name string, rules *proof.Rules, rows []proof.Row, want ...proof.Kind) {
	t.Helper()
	found, _ := prove(rules, proof.DefaultPlaces, rows)
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

func TestEachKindOfBadRowIsFound(t *testing.T) { //nolint:funlen // a table of cases
	t.Parallel()
	shadow := func(z *service.Zone) { z.Mode = service.ModeShadow }
	series := func(z *service.Zone) { z.RecordBlocked = 1 }
	full := func(r *proof.Row) { r.WouldBlock, r.Counted, r.Reason = true, false, service.ReasonFull }
	for _, c := range []struct {
		name string
		zone service.Zone
		rows []proof.Row
		want proof.Kind // empty: nothing is found
	}{
		{
			"a full window, and the next", zone(),
			[]proof.Row{txn(1, 0), txn(2, time.Second), txn(3, time.Minute), txn(4, time.Minute+time.Second)},
			"",
		},
		{
			"one more a microsecond early", zone(),
			[]proof.Row{txn(1, 0), txn(2, time.Second), txn(3, time.Minute-time.Microsecond)},
			proof.KindOverRate,
		},
		{
			"a clock that was set back", zone(),
			[]proof.Row{txn(1, time.Second), txn(2, 0), txn(3, -time.Second)},
			proof.KindOverRate,
		},
		{
			"a place that was given back in time", zone(),
			[]proof.Row{txn(1, 0), txn(2, 1000, givenBack(time.Millisecond)), txn(3, time.Second)},
			"",
		},
		{
			"a place that was given back too late", zone(),
			[]proof.Row{txn(1, 0), txn(2, 1000, givenBack(time.Minute)), txn(3, time.Second)},
			proof.KindOverRate,
		},
		{"an id twice", zone(), []proof.Row{txn(1, 0), txn(1, 1000)}, proof.KindTwice},
		{
			"blocked, and counts", zone(),
			[]proof.Row{txn(1, 0, blocked, func(r *proof.Row) { r.Counted = true })},
			proof.KindCharged,
		},
		{
			"blocked, and given back", zone(),
			[]proof.Row{txn(1, 0, blocked, func(r *proof.Row) { r.UncountedAt.Time = start() })},
			proof.KindCharged,
		},
		{"blocked by nothing", zone(), []proof.Row{txn(1, 0, elsewhere)}, proof.KindCauseless},
		{"blocked by a series elsewhere", zone(series), []proof.Row{txn(1, 0, elsewhere)}, ""},
		{"passed without room", zone(), []proof.Row{txn(1, 0, full)}, proof.KindFullPassed},
		{"passed without room in a shadow", zone(shadow), []proof.Row{txn(1, 0, full)}, ""},
		{
			"passed, and does not count", zone(),
			[]proof.Row{txn(1, 0, func(r *proof.Row) { r.Counted = false })},
			proof.KindUncharged,
		},
		{
			"passed, and does not count where a repeated secret is free",
			zone(func(z *service.Zone) { z.RepeatSecret = service.RepeatFree }),
			[]proof.Row{txn(1, 0, func(r *proof.Row) { r.Counted = false })},
			"",
		},
		{
			"passed where nothing counts", zone(func(z *service.Zone) { z.Mode = service.ModeOff }),
			[]proof.Row{txn(1, 0, func(r *proof.Row) { r.Counted = false })},
			"",
		},
		{
			"passed, and stands for others", zone(),
			[]proof.Row{txn(1, 0, func(r *proof.Row) { r.Attempts = 2 })},
			proof.KindRepeats,
		},
		{
			"stands for none, and had a later one", zone(),
			[]proof.Row{txn(1, 0, blocked, func(r *proof.Row) { r.LastAt.Time = r.LastAt.Add(1000) })},
			proof.KindRepeats,
		},
		{"a whole check", zone(), []proof.Row{txn(1, 0, pair), txn(2, 0, pair, key("b"))}, ""},
		{"a blocked check", zone(), []proof.Row{txn(1, 0, pair, blocked), txn(2, 0, pair, key("b"), elsewhere)}, ""},
		{"a check that lacks a txn", zone(), []proof.Row{txn(1, 0, pair)}, proof.KindTorn},
		{
			"a check that is half blocked", zone(),
			[]proof.Row{txn(1, 0, pair, blocked), txn(2, 0, pair, key("b"))},
			proof.KindTorn,
		},
		{
			"a check with half an outcome", zone(),
			[]proof.Row{txn(1, 0, pair), txn(2, 0, pair, key("b"), givenBack(1000))},
			proof.KindTorn,
		},
		{"a check at two instants", zone(), []proof.Row{txn(1, 0, pair), txn(2, 1000, pair, key("b"))}, proof.KindInstants},
		{"a check with a bucket twice", zone(), []proof.Row{txn(1, 0, pair), txn(2, 0, pair)}, proof.KindTorn},
		{
			"a check that nothing blocks", zone(),
			[]proof.Row{txn(1, 0, pair, elsewhere), txn(2, 0, pair, key("b"), elsewhere)},
			proof.KindCauseless,
		},
	} {
		var want []proof.Kind
		if c.want != "" {
			want = []proof.Kind{c.want}
		}
		expect(t, c.name, rulesOf(c.zone), c.rows, want...)
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

	unknown := proof.NewRules()
	unknown.AddZone(narrow) // its first change is missing
	expect(t, "without its changes", unknown, four(0))
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
	whole, once := prove(rulesOf(zone()), proof.DefaultPlaces, rows)
	parts, often := prove(rulesOf(zone()), 2000, rows)
	byID := func(a, b proof.Finding) int { return int(a.TxnID) - int(b.TxnID) }
	slices.SortFunc(parts, byID)
	if once != 1 || often < 8 || len(whole) == 0 || !slices.Equal(whole, parts) {
		t.Errorf("%d findings in %d reading, %d in %d", len(whole), once, len(parts), often)
	}
}

func TestAnAnswerNeedsItsTxns(t *testing.T) {
	t.Parallel()
	const text = `[[1,"a",0,0,1,5,60,1,4,0,"",0,0],[2,"b",1,1,2,5,60,5,0,9,"full",0,0]]`
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
