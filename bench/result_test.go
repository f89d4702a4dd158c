package main

import (
	"math"
	"slices"
	"testing"
	"time"

	"velocityd/bench/workload"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestSpreadIsMedianAndExtremes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   spread
	}{
		{nil, spread{}},
		{[]float64{4}, spread{4, 4, 4, 1}},
		{[]float64{9, 1, 4}, spread{4, 1, 9, 3}},
		{[]float64{9, 1, 4, 6}, spread{5, 1, 9, 4}},
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
func ran(turn int, scenario string, c *contender, perSecond float64) result {
	return result{turn: turn, scenario: scenario, contender: c, Summary: workload.Summary{
		Admitted: int64(perSecond * 2), Seconds: 2, P50: time.Millisecond, P99: 3 * time.Millisecond,
	}}
}

func TestRatiosAreMadeWithinATurn(t *testing.T) {
	t.Parallel()
	// The machine halves its pace in the second turn; only the first one has no
	// partner, and nothing answered in the last.
	one := []result{
		ran(0, "", nil, 999), ran(1, "", nil, 300), ran(2, "", nil, 100), ran(3, "", nil, 200),
		ran(4, "", nil, 10),
	}
	other := []result{ran(3, "", nil, 100), ran(2, "", nil, 100), ran(1, "", nil, 100), ran(4, "", nil, 0)}
	if got := ratio(one, other, perSecond); !near(got.median, 2) || !near(got.least, 1) || !near(got.most, 3) {
		t.Errorf("got %v, want 2 from 1 to 3", got)
	}
	if got := ratio(one, nil, perSecond); got != (spread{}) {
		t.Errorf("against nothing: %v", got)
	}
}

func TestCostIsForAThousandAnswers(t *testing.T) {
	t.Parallel()
	if got := ran(0, "", nil, 2_000).cost(time.Second); !near(got, 0.25) {
		t.Errorf("got %v, want 0.25", got)
	}
	if got := ran(0, "", nil, 0).cost(time.Second); got != 0 {
		t.Errorf("without answers: %v", got)
	}
}

func TestWrongAnswersAreFaults(t *testing.T) {
	t.Parallel()
	one := scenario{draws: func(uint64) []workload.Draw { return make([]workload.Draw, 1) }}
	two := scenario{draws: func(uint64) []workload.Draw { return make([]workload.Draw, 2) }}
	hot := one
	hot.admits = 100
	kept, forgotten := &contender{database: &database{}}, &contender{}
	for name, c := range map[string]struct {
		contender *contender
		scenario  scenario
		sum       workload.Summary
		txns      int64
		passed    int64
		faults    int
	}{
		"right":                       {kept, one, workload.Summary{Admitted: 7, Blocked: 3}, 10, 7, 0},
		"a row too few":               {kept, one, workload.Summary{Admitted: 7, Blocked: 3}, 9, 7, 1},
		"rows that say otherwise":     {kept, one, workload.Summary{Admitted: 7, Blocked: 3}, 10, 8, 1},
		"pairs":                       {kept, two, workload.Summary{Admitted: 7, Blocked: 3}, 20, 14, 0},
		"pairs with one row":          {kept, two, workload.Summary{Admitted: 7, Blocked: 3}, 10, 7, 2},
		"exactly the rate":            {forgotten, hot, workload.Summary{Admitted: 100, Blocked: 3}, 0, 0, 0},
		"one too many":                {forgotten, hot, workload.Summary{Admitted: 101, Blocked: 3}, 0, 0, 1},
		"one too few":                 {kept, hot, workload.Summary{Admitted: 99, Blocked: 3}, 102, 99, 1},
		"no answers":                  {forgotten, one, workload.Summary{Errors: 1, FirstError: "reset"}, 0, 0, 1},
		"busy":                        {kept, one, workload.Summary{Admitted: 1, Busy: 5}, 1, 1, 1},
		"a row of an unknown outcome": {kept, one, workload.Summary{Admitted: 7, Errors: 1}, 8, 8, 1},
	} {
		got := faultsOf(result{Summary: c.sum, txns: c.txns}, c.contender, c.scenario, c.passed)
		if len(got) != c.faults {
			t.Errorf("%s: %d faults, want %d: %q", name, len(got), c.faults, got)
		}
	}
}

func TestAGeneratorAtItsLimitIsAFault(t *testing.T) {
	t.Parallel()
	sc := scenario{draws: func(uint64) []workload.Draw { return make([]workload.Draw, 1) }}
	r := result{Summary: workload.Summary{Admitted: 1, Seconds: 2}, load: 1700 * time.Millisecond}
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
	known := []string{
		kindTextbook, kindProcedure, kindService, kindLone, kindHistory, kindRecording, kindEcho, kindClient, kindCoalesced,
		kindEnvoy, kindEnvoyAOF, kindDoor, kindRPC, kindRPCAOF, kindRate, kindRateAOF, kindFlexible,
	}
	ids := map[string]bool{}
	for _, sc := range scenarios(1_000_000) {
		if ids[sc.id] {
			t.Errorf("%s is there twice", sc.id)
		}
		ids[sc.id] = true
		for _, id := range sc.contenders {
			if !slices.Contains(known, id) {
				t.Errorf("%s asks %s, which is not set up", sc.id, id)
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
	s := &stage{contenders: []*contender{{kind: "c"}, {kind: "a", name: "one"}, {kind: "a", name: "two"}, {kind: "d"}}}
	sc := scenario{contenders: []string{"a", "b", "c"}} // b is absent
	var got []string
	for turn := range 3 {
		line := ""
		for _, c := range s.turnOf(sc, turn) {
			line += c.kind + c.name + " "
		}
		got = append(got, line)
	}
	if want := []string{"aone atwo c ", "atwo c aone ", "c aone atwo "}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRecordingGoesOnAsTheServiceDid(t *testing.T) {
	t.Parallel()
	e := &engine{}
	service := &contender{kind: kindService, engine: e}
	last := result{
		scenario: in512, contender: service, txns: 4000, commits: 20, lanes: 2,
		Summary: workload.Summary{Admitted: 4000, Seconds: 2},
	}
	m := &measured{results: []result{{scenario: in512, contender: service}, last}}
	var order workload.Order
	recording := &contender{kind: kindRecording, engine: e}
	if !m.pace(recording, &order) || order.Checks != 200 || order.Callers != 2 || !near(order.Every, 0.2) {
		t.Errorf("200 txns a COMMIT over 2 connections at 2,000 a second: %+v", order)
	}
	recording.engine = &engine{}
	if m.pace(recording, &order) {
		t.Error("on an engine where the service was not asked")
	}
}

func TestEngineResultsIncludeRivalsWithoutEngine(t *testing.T) {
	t.Parallel()
	one, other := &engine{}, &engine{}
	m := &measured{results: []result{
		{scenario: in64, contender: &contender{kind: kindService, engine: one}},
		{scenario: in64, contender: &contender{kind: kindService, engine: other}},
		{scenario: in64, contender: &contender{kind: kindService, engine: one, isBefore: true}},
		{scenario: in64, contender: &contender{kind: kindEnvoy}},
	}}
	for _, e := range []*engine{one, other} {
		if ours, rivals := len(m.of(in64, kindService, e)), len(m.of(in64, kindEnvoy, e)); ours != 1 || rivals != 1 {
			t.Errorf("%d results of the service and %d of Envoy", ours, rivals)
		}
	}
}

func TestOnlyAWholeRunWritesTheReport(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args  []string
		whole bool
	}{
		{nil, true},
		{[]string{"-history", "50000"}, true},
		{[]string{"-smoke"}, false},
		{[]string{"-only", in64}, false},
		{[]string{"-beside", "../before"}, false},
	} {
		o, err := parse(c.args)
		if err != nil || (o.report != "") != c.whole {
			t.Errorf("%q: %q, %v", c.args, o.report, err)
		}
	}
	o, err := parse([]string{"-only", inLone + "," + in512})
	if err != nil || !o.wants(in512) || o.wants(in64) {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestTheOtherCheckoutHasTheSameContenders(t *testing.T) {
	t.Parallel()
	s := &stage{programs: programs{velocityd: "now", before: "before"}}
	for _, c := range s.kinds(options{only: in64}) {
		if (c.program == "") != (c.kind == kindTextbook) || len(c.known) == 0 {
			t.Errorf("%s runs %q", c.name, c.program)
		}
	}
	served := contender{kind: kindService, engine: &engine{}, database: &database{}, isBefore: true, door: "here"}
	list := besides(served, options{beside: ".."})
	if len(list) != 1 || list[0].address != "here" || !list[0].isBefore || !list[0].shares {
		t.Errorf("%+v", list)
	}
}
