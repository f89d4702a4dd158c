package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// publish writes the report, or prints it if no file was named.
func (m *pastMeasured) publish() error {
	text := m.report(time.Now())
	if m.options.report == "" {
		fmt.Print(text)
		return nil
	}
	if err := os.WriteFile(m.options.report, []byte(text), 0o644); err != nil { //nolint:gosec // a document for everybody
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func (m *pastMeasured) report(now time.Time) string {
	var b strings.Builder
	m.writeHead(&b, now)
	m.writeQuestions(&b)
	m.writePartitions(&b)
	m.writeClaims(&b)
	return b.String()
}

func (m *pastMeasured) writeHead(b *strings.Builder, now time.Time) {
	h := m.machine
	fmt.Fprintf(b, "# Long histories\n\n")
	fmt.Fprintf(b, "Written by `%s` on %s, at commit %s, in %s.\n\n", m.command(), now.UTC().Format(time.DateOnly), h.commit,
		m.took.Round(time.Second))
	fmt.Fprintf(b, "**Hardware:** %d cores of %s, %s; %s, Linux %s. A write of 512 bytes and its fsync take %s. "+
		"Load average before the run: %s. Engine, service and callers share these cores.\n\n",
		h.cores, h.cpu, h.memory, h.system, h.kernel, duration(h.sync), h.load)
	fmt.Fprintf(b, "**Versions:** %s.\n\n", strings.Join(m.versions, ", "))
	fmt.Fprintf(b, "**How:** a history has the attempts of 60 days, made up from a seed by `bench/history`: logins with a check of user and "+
		"address, lone checks of a device, and an address that guesses and has a tenth of all rows. Keys are drawn by Zipf's law. "+
		"`zone_txn` has 64 partitions, one a day, and `zone_txn_mark` a mark an hour. A buffer pool has %s, so a longer history is read "+
		"from the disk. One caller asks `velocityd serve` over HTTP, %d %s for each kind of request in each of %d turns (a tenth of that "+
		"for pages that read 20,000 rows, and for those of the console), and draws other rows each time. A figure is the median of the turns' medians, and in brackets "+
		"the median of their slowest requests. Ratios are made within a turn.\n\n",
		m.options.pool, m.options.times, plural(m.options.times, "time", "times"), m.options.turns)
}

// command returns the command that repeats the run, without the folder and the file of this machine.
func (m *pastMeasured) command() string { return "make bench-history ARGS='" + m.options.fills() + "'" }

// fills returns the options that name the histories.
func (o pastOptions) fills() string {
	var fills []string
	for _, one := range o.sizes {
		fills = append(fills, fmt.Sprintf("-fill %s:%d", one.engine, one.rows))
	}
	return strings.Join(fills, " ")
}

// of returns what a question took on a history, by turn.
func (m *pastMeasured) of(question string, l *lentPast) (list []asked) {
	for _, a := range m.asked {
		if a.question == question && a.history == l {
			list = append(list, a)
		}
	}
	return list
}

// refused returns how many requests of a question the service refused, in words, or nothing.
func (m *pastMeasured) refused(question string, l *lentPast) string {
	var busy int64
	for _, a := range m.of(question, l) {
		busy += a.Busy
	}
	if busy == 0 {
		return ""
	}
	return fmt.Sprintf(", %d refused", busy)
}

// timesOf returns the median of a question's medians, and that of its slowest requests.
func (m *pastMeasured) timesOf(question string, l *lentPast) (median, slowest time.Duration) {
	var medians, most []float64
	for _, a := range m.of(question, l) {
		medians, most = append(medians, float64(a.P50)), append(most, float64(a.Max))
	}
	return time.Duration(spreadOf(medians).median), time.Duration(spreadOf(most).median)
}

func (m *pastMeasured) writeQuestions(b *strings.Builder) {
	fmt.Fprintf(b, "## Time of a request\n\n|")
	var list []*lentPast
	for _, l := range m.histories {
		if l.isOrdinary() {
			list = append(list, l)
			fmt.Fprintf(b, " | %s", l.title())
		}
	}
	fmt.Fprintf(b, " |\n|---|%s\n", strings.Repeat("---|", len(list)))
	for _, q := range questions() {
		fmt.Fprintf(b, "| %s", q.title)
		for _, l := range list {
			median, slowest := m.timesOf(q.id, l)
			fmt.Fprintf(b, " | %s (%s)%s", duration(median), duration(slowest), m.refused(q.id, l))
		}
		b.WriteString(" |\n")
	}
	b.WriteString("\n")
}

// ratioOf divides the medians of a question on one history by those on another, turn by turn.
func (m *pastMeasured) ratioOf(question string, one, other *lentPast) spread {
	results := func(l *lentPast) (list []result) {
		for _, a := range m.of(question, l) {
			list = append(list, result{turn: a.turn, Summary: a.Summary})
		}
		return list
	}
	return ratio(results(one), results(other), medianTime)
}

// writePartitions compares 64 partitions with one.
func (m *pastMeasured) writePartitions(b *strings.Builder) {
	fmt.Fprintf(b, "## 64 partitions against one\n\nMedians on 64 partitions as a multiple of those on one partition with the same txns. "+
		"At most 1.3 is asked of a look-up, a report and a release.\n\n|")
	var pairs [][2]*lentPast
	for _, whole := range m.histories {
		if whole.isWhole {
			l := m.ordinary(whole)
			pairs = append(pairs, [2]*lentPast{l, whole})
			fmt.Fprintf(b, " | %s", l.title())
		}
	}
	fmt.Fprintf(b, " |\n|---|%s\n", strings.Repeat("---|", len(pairs)))
	for _, q := range questions() {
		if q.id == qFloor {
			continue
		}
		fmt.Fprintf(b, "| %s", q.title)
		for _, pair := range pairs {
			fmt.Fprintf(b, " | %s", m.ratioOf(q.id, pair[0], pair[1]).text(decimal))
		}
		b.WriteString(" |\n")
	}
	b.WriteString("\n")
}

// ordinary returns the ordinary history that is as long as another one, on the same engine.
func (m *pastMeasured) ordinary(as *lentPast) *lentPast {
	return m.histories[slices.IndexFunc(m.histories, func(l *lentPast) bool {
		return l.isOrdinary() && l.engine == as.engine && l.plan.Rows == as.plan.Rows
	})]
}

// writeClaims writes the claims that a long history must hold, with what was found.
func (m *pastMeasured) writeClaims(b *strings.Builder) {
	fmt.Fprintf(b, "## Claims\n\n| | asked | found |\n|---|---|---|\n")
	for _, l := range m.histories {
		if l.isOrdinary() {
			median, slowest := m.timesOf(qNobody, l)
			fmt.Fprintf(b, "| a key without rows: %s | at most 5 ms | %s, the slowest %s |\n", l.title(), duration(median), duration(slowest))
		}
	}
	for _, r := range m.leavings {
		fmt.Fprintf(b, "| p99 of 64 callers while %s txns leave by retention in %s: %s | at most 1.5 × of without, no error ",
			grouped(r.removed), r.retention.Round(time.Second/10), r.history.title())
		fmt.Fprintf(b, "| %s ×, the slowest %s, %s |\n", ratio(r.busy, r.quiet, longTime).text(decimal), duration(r.slowest()),
			cmp.Or(r.fault(), "no error"))
	}
	for _, l := range m.histories {
		if l.flood > 0 {
			fmt.Fprintf(b, "| the newest 50 of a user beside a flood of one address: %s | as before the flood | %s × the time |\n",
				l.title(), m.ratioOf(qNewest, l, m.ordinary(l)).text(decimal))
		}
	}
	for _, r := range m.replays {
		b.WriteString(r.row())
	}
	b.WriteString("\n")
}
