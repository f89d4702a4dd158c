package main

import (
	"strings"
	"testing"
	"time"

	"velocityd/bench/round"
	"velocityd/db/localdb"
)

// sample is a run with the textbook, the service, Echo and one absent contender.
func sample() *measured {
	e := &engine{binary: localdb.Binary{Engine: localdb.MySQL}}
	service := &contender{
		kind: kindService, engine: e, name: "velocityd <HTTP>", about: "as it comes", protocol: round.Service, server: 1, service: 1,
		logBytes: func() (int64, error) { return 0, nil },
	}
	s := &stage{
		engines: []*engine{e},
		contenders: []*contender{
			{kind: kindTextbook, engine: e, name: "textbook", about: "by the book", protocol: round.Procedure, server: 1},
			service,
			{kind: kindEcho, name: "Echo", about: "a floor", service: 1},
			{kind: kindRecording, engine: e, name: "recording", about: "a floor", database: &database{}, records: true},
		},
		absent:   []absence{{name: "pigeons", reason: "none in the loft"}},
		versions: []string{"MySQL 9.7"},
	}
	m := &measured{
		stage: s, scenarios: scenarios(1_000_000), took: 14 * time.Minute,
		options: options{
			engines: []localdb.Engine{localdb.MySQL, localdb.MariaDB}, turns: 2, seconds: 3, history: 20_000_000,
			overrides: 1_000_000,
		},
		memory: []memory{{engine: localdb.MySQL, connections: 2000, resident: 90 << 20}},
		kept:   []kept{{contender: service, bytes: 20_000_000, txns: 200_000, lockBytes: 18_000_000, locks: 200_000}},
	}
	on := func(r result) result {
		r.engine = localdb.MySQL
		return r
	}
	for turn := range 2 {
		m.results = append(m.results, on(ran(turn, inHot, kindTextbook, 400)), on(ran(turn, inHot, kindService, 10_000)),
			on(ran(turn, in512, kindService, 30_000)), ran(turn, in512, kindEcho, 40_000), on(ran(turn, in64, kindService, 24_000)),
			on(ran(turn, inRecording, kindRecording, 50_000)), on(ran(turn, inPair512, kindService, 24_000)),
			on(ran(turn, in512, kindDoor, 20_000)), ran(turn, in512, kindRPC, 40_000), on(ran(turn, in512, kindCoalesced, 30_000)),
			on(ran(turn, in512, kindClient, 20_000)))
	}
	m.results[0].faults = []string{"admitted 101, not 100"}
	for i := range m.results {
		if r := &m.results[i]; r.scenario == in512 && r.contender == kindService {
			r.txns, r.commits, r.lanes, r.service = 60_000, 300, 2, 6*time.Second
		} else if r.scenario == in512 && r.contender == kindCoalesced {
			r.service = 3 * time.Second / 2
		} else if r.scenario == in512 && r.contender == kindClient {
			r.service = 2 * time.Second
		} else if r.scenario == in512 {
			r.service = 4 * time.Second
		} else if r.scenario == in64 {
			r.logBytes = 48_000 * 70
		}
	}
	return m
}

func TestTheReportSaysWhatWasFound(t *testing.T) {
	t.Parallel()
	text := sample().report(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	for _, want := range []string{
		"Written by `make bench` on 2026-03-04",
		"**Absent:** pigeons could not be had here (none in the loft)",
		"| the service's CPU for a check at 512, against Echo alone | 2 | – |",
		"| one hot bucket, throughput against the textbook's | 25 | – |",
		"| 512 callers over gRPC, throughput against envoyproxy/ratelimit over gRPC, Redis without persistence | 0.5 | – |",
		"| the service's CPU for a check at 512, by a client that coalesces, against one that does not | 0.5 | – |",
		"| the same, 512 connections | 0.8 | – |",
		"| textbook | 400 | 1.00 ms | 3.00 ms | 0.000 | – | 0.000 |",
		"| Echo | 40,000 | 1.00 ms | 3.00 ms | – | 0.050 | 0.000 |",
		"velocityd <HTTP>: 200 txns a COMMIT, over 2 connections.",
		"| textbook | 2 | 1,600 | 0 | 1 | 0 | hot: admitted 101, not 100 |",
		"12 rounds with 712,000 checks were right, without a repeated call.",
		"| velocityd <HTTP> | 70 | 100 | 200,000 | 90 | 200,000 |",
		"| MySQL | 2,000 | 90 | 0 | 0.00 ms | 0 | 0 |",
		"- **textbook**: by the book.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestTheCommandRepeatsTheRun(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]options{
		"make bench":                         {},
		"make bench ARGS='-quick'":           {args: []string{"-quick"}},
		"make bench ARGS='-history 5000000'": {args: []string{"-history", "5000000"}},
	} {
		if got := (&measured{options: o}).command(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestNumbersAreWrittenAsPeopleReadThem(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		grouped(0): "0", grouped(999): "999", grouped(1000): "1,000", grouped(20_000_000): "20,000,000", grouped(-1234): "-1,234",
		grouped(-123): "-123",
		whole(1234.5): "1,235", decimal(5.5): "5.5", decimal(9): "9", decimal(0.126): "0.13", decimal(12.999): "13",
		duration(85 * time.Microsecond): "0.09 ms", duration(12345 * time.Microsecond): "12.3 ms", duration(1500 * time.Millisecond): "1500 ms",
		spread{}.text(whole): "–", spread{2, 2, 2, 1}.text(whole): "2", spread{2, 1, 3, 3}.text(whole): "2 (1–3)",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
