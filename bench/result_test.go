package main

import (
	"math"
	"slices"
	"testing"
	"time"

	"velocityd/bench/round"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestSpreadIsMedianAndExtremes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   spread
	}{
		{nil, spread{}},
		{[]float64{4}, spread{4, 4, 4}},
		{[]float64{9, 1, 4}, spread{4, 1, 9}},
		{[]float64{9, 1, 4, 6}, spread{5, 1, 9}},
	} {
		given := slices.Clone(c.values)
		if got := spreadOf(c.values); got != c.want {
			t.Errorf("of %v: got %v, want %v", c.values, got, c.want)
		}
		if !slices.Equal(given, c.values) {
			t.Errorf("%v was sorted in place", given)
		}
	}
}

// ran is a result with so many answers in a second.
func ran(turn int, scenario, contender string, perSecond float64) result {
	return result{turn: turn, scenario: scenario, contender: contender, Summary: round.Summary{
		Admitted: int64(perSecond * 2), Seconds: 2, P50: time.Millisecond, P99: 3 * time.Millisecond,
	}}
}

func TestRatiosAreMadeWithinATurn(t *testing.T) {
	t.Parallel()
	// The machine halves its pace in the second turn; only the first one has no
	// partner, and nothing answered in the last.
	one := []result{ran(0, "", "", 999), ran(1, "", "", 300), ran(2, "", "", 100), ran(3, "", "", 200), ran(4, "", "", 10)}
	other := []result{ran(3, "", "", 100), ran(2, "", "", 100), ran(1, "", "", 100), ran(4, "", "", 0)}
	if got := ratio(one, other, perSecond); !near(got.median, 2) || !near(got.least, 1) || !near(got.most, 3) {
		t.Errorf("got %v, want 2 from 1 to 3", got)
	}
	if got := ratio(one, nil, perSecond); got != (spread{}) {
		t.Errorf("against nothing: %v", got)
	}
}

func TestCostIsForAThousandAnswers(t *testing.T) {
	t.Parallel()
	if got := ran(0, "", "", 2_000).cost(time.Second); !near(got, 0.25) {
		t.Errorf("got %v, want 0.25", got)
	}
	if got := ran(0, "", "", 0).cost(time.Second); got != 0 {
		t.Errorf("without answers: %v", got)
	}
}

func TestTargetsSayByHowMuchTheyAreMissed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		target target
		met    bool
		says   string
		wanted string
	}{
		{target{limit: 9, atLeast: true, unit: " ×", found: spread{9, 8, 10}}, true, "met", "≥ 9 ×"},
		{target{limit: 9, atLeast: true, unit: " ×", found: spread{7.2, 7, 10}}, false, "**missed** by 20 %", "≥ 9 ×"},
		{target{limit: 1.1, found: spread{1.1, 1, 2}}, true, "met", "≤ 1.1"},
		{target{limit: 0.75, found: spread{0.9, 0.9, 0.9}}, false, "**missed** by 20 %", "≤ 0.75"},
		{target{limit: 0.75}, false, "not measured", "≤ 0.75"},
	} {
		if c.target.met() != c.met || c.target.verdict() != c.says || c.target.wanted() != c.wanted {
			t.Errorf("%+v: %v, %q, %q", c.target, c.target.met(), c.target.verdict(), c.target.wanted())
		}
	}
}

func TestWrongAnswersAreFaults(t *testing.T) {
	t.Parallel()
	one := scenario{draws: func(uint64) []round.Draw { return make([]round.Draw, 1) }}
	two := scenario{draws: func(uint64) []round.Draw { return make([]round.Draw, 2) }}
	hot := one
	hot.admits = 100
	flooded := one
	flooded.flood = one.draws
	kept, forgotten := &contender{protocol: round.Service, database: &database{}}, &contender{protocol: round.Envoy}
	textbook := &contender{protocol: round.Textbook, database: &database{}}
	for name, c := range map[string]struct {
		contender *contender
		scenario  scenario
		sum       round.Summary
		txns      int64
		passed    int64
		flood     int64
		faults    int
	}{
		"right":                       {kept, one, round.Summary{Admitted: 7, Blocked: 3}, 10, 7, 0, 0},
		"a row too few":               {kept, one, round.Summary{Admitted: 7, Blocked: 3}, 9, 7, 0, 1},
		"rows that say otherwise":     {kept, one, round.Summary{Admitted: 7, Blocked: 3}, 10, 8, 0, 1},
		"pairs":                       {kept, two, round.Summary{Admitted: 7, Blocked: 3}, 20, 14, 0, 0},
		"pairs with one row":          {kept, two, round.Summary{Admitted: 7, Blocked: 3}, 10, 7, 0, 2},
		"the textbook's pairs":        {textbook, two, round.Summary{Admitted: 7, Blocked: 3}, 20, 15, 0, 0},
		"exactly the rate":            {forgotten, hot, round.Summary{Admitted: 100, Blocked: 3}, 0, 0, 0, 0},
		"one too many":                {forgotten, hot, round.Summary{Admitted: 101, Blocked: 3}, 0, 0, 0, 1},
		"one too few":                 {kept, hot, round.Summary{Admitted: 99, Blocked: 3}, 102, 99, 0, 1},
		"no answers":                  {forgotten, one, round.Summary{Errors: 1, FirstError: "reset"}, 0, 0, 0, 1},
		"a flood":                     {kept, flooded, round.Summary{Admitted: 7}, 107, 107, 100, 0},
		"a flood that gets through":   {kept, flooded, round.Summary{Admitted: 7}, 108, 108, 101, 1},
		"a flood without its rows":    {kept, flooded, round.Summary{Admitted: 7}, 7, 7, 100, 2},
		"busy":                        {kept, one, round.Summary{Admitted: 1, Busy: 5}, 1, 1, 0, 1},
		"a row of an unknown outcome": {kept, one, round.Summary{Admitted: 7, Errors: 1}, 8, 8, 0, 1},
	} {
		got := faultsOf(result{Summary: c.sum, txns: c.txns, flood: round.Summary{Admitted: c.flood}}, c.contender, c.scenario, c.passed)
		if len(got) != c.faults {
			t.Errorf("%s: %d faults, want %d: %q", name, len(got), c.faults, got)
		}
	}
}

func TestAGeneratorAtItsLimitIsAFault(t *testing.T) {
	t.Parallel()
	sc := scenario{draws: func(uint64) []round.Draw { return make([]round.Draw, 1) }}
	r := result{Summary: round.Summary{Admitted: 1, Seconds: 2}, load: 1700 * time.Millisecond}
	if got := faultsOf(r, &contender{}, sc, 0); len(got) != 0 {
		t.Errorf("at 85 %% of a core: %q", got)
	}
	r.load = 1900 * time.Millisecond
	if got := faultsOf(r, &contender{}, sc, 0); len(got) != 1 {
		t.Errorf("at 95 %% of a core: %q", got)
	}
}

func TestEveryScenarioIsAskedOfKnownContenders(t *testing.T) {
	t.Parallel()
	known := []string{idTextbook, idProcedure, idService, idHistory, idEnvoy, idEnvoyAOF, idRate, idRateAOF, idFlexible}
	ids := map[string]bool{}
	for _, sc := range scenarios(1_000_000) {
		if ids[sc.id] {
			t.Errorf("%s is there twice", sc.id)
		}
		ids[sc.id] = true
		for _, id := range sc.who {
			if !slices.Contains(known, id) {
				t.Errorf("%s asks %s, which nobody sets up", sc.id, id)
			}
		}
		one, again := sc.draws(1), sc.draws(2)
		if sc.admits > 0 && one[0].Prefix == again[0].Prefix {
			t.Errorf("%s asks for a hot bucket that is not at its first use", sc.id)
		}
		for _, d := range one {
			if z := zoneOf(d.Zone); z.id != d.Zone || d.Rate != z.rate || d.Window != z.window {
				t.Errorf("%s draws with another limit than its zone's: %+v", sc.id, d)
			}
		}
	}
}

func TestTurnsBeginWithAnotherContender(t *testing.T) {
	t.Parallel()
	s := &stage{contenders: map[string]*contender{"a": {id: "a"}, "c": {id: "c"}}}
	sc := scenario{who: []string{"a", "b", "c"}} // b is absent
	var got []string
	for turn := range 3 {
		line := ""
		for _, c := range s.turnOf(sc, turn) {
			line += c.id
		}
		got = append(got, line)
	}
	if want := []string{"ac", "ca", "ca"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestChosenScenariosKeepTheirOrder(t *testing.T) {
	t.Parallel()
	got := chosen(scenarios(1), inLone+","+in64)
	if len(got) != 2 || got[0].id != in64 || got[1].id != inLone {
		t.Errorf("got %d scenarios", len(got))
	}
	if got := chosen(scenarios(1), ""); len(got) != len(scenarios(1)) {
		t.Errorf("without a choice: %d scenarios", len(got))
	}
}
