package main

import (
	"strings"
	"testing"
	"time"

	"velocityd/bench/workload"
	"velocityd/db/localdb"
)

// sample is a run with the textbook, the service, Echo and one absent contender.
func sample() *measured {
	e := &engine{binary: localdb.Binary{Engine: localdb.MySQL}}
	service := &contender{
		kind: kindService, engine: e, name: "velocityd <HTTP>", about: "as it comes", protocol: workload.Service, server: 1,
		service: 1, logBytes: func() (int64, error) { return 0, nil },
	}
	textbook := &contender{
		kind: kindTextbook, engine: e, name: "textbook", about: "by the book",
		protocol: workload.Procedure, server: 1,
	}
	echo := &contender{kind: kindEcho, name: "Echo", about: "a floor", service: 1}
	recording := &contender{kind: kindRecording, engine: e, name: "recording", about: "a floor", database: &database{}}
	before := &contender{kind: kindService, engine: e, name: "velocityd before", isBefore: true, service: 1}
	m := &measured{
		stage: &stage{
			engines:    []*engine{e, {binary: localdb.Binary{Engine: localdb.MariaDB}}},
			contenders: []*contender{textbook, service, echo, recording, before},
			absent:     []absence{{name: "pigeons", reason: "none in the loft"}},
			versions:   []string{"MySQL 9.7"},
		},
		scenarios: scenarios(1_000_000),
		options:   options{turns: 2, seconds: 3, history: 20_000_000, overrides: 1_000_000},
		memory:    []memory{{contender: service, connections: 2000, resident: 90 << 20}},
		gaps:      []gap{{service, 100, workload.Summary{Admitted: 180, Seconds: 2}}},
		kept:      []kept{{contender: service, bytes: 20_000_000, txns: 200_000, lockBytes: 18_000_000, locks: 200_000}},
	}
	for turn := range 2 {
		served, echoed, lone := ran(turn, in512, service, 30_000), ran(turn, in512, echo, 40_000),
			ran(turn, in64, service, 24_000)
		served.txns, served.commits, served.lanes, served.service = 60_000, 300, 2, 6*time.Second
		echoed.service, lone.logBytes = 4*time.Second, 48_000*70
		m.results = append(m.results, ran(turn, inHot, textbook, 400), ran(turn, inHot, service, 10_000), served, echoed,
			lone,
			ran(turn, inRecording, recording, 50_000), ran(turn, inPair512, service, 24_000), ran(turn, in512, before, 40_000))
	}
	m.results[0].faults = []string{"admitted 101, not 100"}
	return m
}

func TestTheReportSaysWhatWasFound(t *testing.T) {
	t.Parallel()
	text := sample().report(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	mustHold(t, text,
		"Written by `make bench` on 2026-03-04",
		"**Absent:** pigeons could not be had here (none in the loft)",
		"| the service's CPU for a check at 512, against Echo alone | 2 | – |",
		"| one hot bucket, throughput against the textbook's | 25 | – |",
		"| the same, 512 connections | 0.8 | – |",
		"| textbook | 400 | 1.00 ms | 3.00 ms | 0.000 | – | 0.000 |",
		"| Echo | 40,000 | 1.00 ms | 3.00 ms | – | 0.050 | 0.000 |",
		"velocityd <HTTP>: 200 txns a COMMIT, over 2 connections.",
		"| textbook | 2 | 1,600 | 0 | 1 | 0 | hot: admitted 101, not 100 |",
		"14 rounds with 872,000 checks were right, without a repeated call.",
		"| velocityd <HTTP> | 70 | 100 | 200,000 | 90 | 200,000 |",
		"| velocityd <HTTP> | 2,000 | 90 | 0 | 0.00 ms | 0 | 0 |", "| velocityd <HTTP> | 90 | 100 | 0.9 |",
		"- **textbook**: by the book.",
	)
}

// mustHold holds that a report has some texts.
func mustHold(t *testing.T, report string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(report, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(report)
	}
}

func TestTheReportComparesTwoCheckouts(t *testing.T) {
	t.Parallel()
	m := sample()
	m.options.beside, m.options.args = "../before", []string{"-beside", "../before"}
	text := m.report(time.Now())
	mustHold(t, text,
		"Written by `make bench ARGS='-beside ../before'`", "| 512 | service, MySQL | 0.75 | 1 | 1 |",
	)
	if strings.Contains(text, "## Ratios") {
		t.Error("it has ratios to contenders that were not asked")
	}
}

func TestNumbersAreWrittenAsPeopleReadThem(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		grouped(0): "0", grouped(999): "999", grouped(1000): "1,000", grouped(20_000_000): "20,000,000",
		grouped(-1234): "-1,234",
		grouped(-123):  "-123",
		whole(1234.5):  "1,235", decimal(5.5): "5.5", decimal(9): "9", decimal(0.126): "0.13", decimal(12.999): "13",
		duration(85 * time.Microsecond): "0.09 ms", duration(12345 * time.Microsecond): "12.3 ms",
		duration(1500 * time.Millisecond): "1500 ms",
		spread{}.text(whole):              "–", spread{2, 2, 2, 1}.text(whole): "2",
		spread{2, 1, 3, 3}.text(whole): "2 (1–3)",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
