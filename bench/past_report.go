package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

func (m *pastMeasured) report(now time.Time) string {
	var b strings.Builder
	m.stage.writeHead(&b, "Long histories", "make bench-history", m.options.args, now)
	fmt.Fprintf(&b, "**How:** a history has the attempts of 60 days, made up from a seed by `bench/history`: logins "+
		"with a check of user and address, lone checks of a device, and an address that guesses and has a tenth of all "+
		"rows. Keys are drawn by Zipf's law. `zone_txn` has 64 partitions, one a day, and `zone_txn_mark` a mark an hour. "+
		"A buffer pool has %s, so a longer history is read from the disk. One caller asks `velocityd serve` over HTTP, %d "+
		"%s for each kind of request in each of %d turns (a tenth of that for pages that read 20,000 rows, and for those "+
		"of the console), and draws other rows each time. A figure is the median of the turns' medians, and in brackets "+
		"the median of their slowest requests. Ratios are made within a turn. An audit has limits that the rows keep: "+
		"users have a window of a day, addresses a day of the calendar and devices an hour, and those that were refused "+
		"lower limits. Of more than %s txns it proves the newest, and reads a day before them, too.\n\n",
		m.options.pool, m.options.times, plural(m.options.times, "time", "times"), m.options.turns, grouped(mostProven))
	if len(m.asked) > 0 {
		m.writeQuestions(&b)
		m.writePartitions(&b)
	}
	m.writeClaims(&b)
	return b.String()
}

// of returns the results of a question on a history, by turn.
func (m *pastMeasured) of(question string, p *past) (list []result) {
	for _, a := range m.asked {
		if a.question == question && a.history == p {
			list = append(list, a.result)
		}
	}
	return list
}

// timesOf returns the median of a question's medians, and that of its slowest requests.
func (m *pastMeasured) timesOf(question string, p *past) (median, slowest string) {
	of := func(f func(result) float64) string {
		return duration(time.Duration(spreadOf(values(m.of(question, p), f)).median))
	}
	return of(medianTime), of(func(r result) float64 { return float64(r.Max) })
}

// writeTable writes a table with a line for each question and a column for each of some histories.
func writeTable(b *strings.Builder, columns []*past, cell func(question string, p *past) string) {
	b.WriteString("|")
	for _, p := range columns {
		fmt.Fprintf(b, " | %s", p.title())
	}
	fmt.Fprintf(b, " |\n|---|%s\n", strings.Repeat("---|", len(columns)))
	for _, q := range questions() {
		fmt.Fprintf(b, "| %s", q.title)
		for _, p := range columns {
			b.WriteString(" | " + cell(q.title, p))
		}
		b.WriteString(" |\n")
	}
	b.WriteString("\n")
}

func (m *pastMeasured) writeQuestions(b *strings.Builder) {
	b.WriteString("## Time of a request\n\n")
	ordinary := slices.DeleteFunc(slices.Clone(m.histories), func(p *past) bool { return !p.isOrdinary() })
	writeTable(b, ordinary, func(question string, p *past) string {
		var busy int64
		for _, r := range m.of(question, p) {
			busy += r.Busy
		}
		median, slowest := m.timesOf(question, p)
		if busy > 0 {
			slowest += fmt.Sprintf(", %d refused", busy)
		}
		return fmt.Sprintf("%s (%s)", median, slowest)
	})
}

// writePartitions compares 64 partitions with one.
func (m *pastMeasured) writePartitions(b *strings.Builder) {
	b.WriteString("## 64 partitions against one\n\nMedians on 64 partitions as a multiple of those on one partition " +
		"with the same txns. At most 1.3 is asked of a look-up, a report and a release.\n\n")
	wholes := slices.DeleteFunc(slices.Clone(m.histories), func(p *past) bool { return !p.isWhole })
	writeTable(b, wholes, func(question string, p *past) string {
		return ratio(m.of(question, m.ordinary(p)), m.of(question, p), medianTime).text(decimal)
	})
}

// ordinary returns the ordinary history that is as long as another one, on the same engine.
func (m *pastMeasured) ordinary(as *past) *past {
	return m.histories[slices.IndexFunc(m.histories, func(p *past) bool {
		return p.isOrdinary() && p.engine == as.engine && p.plan.Rows == as.plan.Rows
	})]
}

// writeClaims writes the claims that a long history must hold, with the findings.
func (m *pastMeasured) writeClaims(b *strings.Builder) {
	b.WriteString("## Claims\n\n| | asked | found |\n|---|---|---|\n")
	var claims []claim
	for _, p := range m.histories {
		switch median, slowest := m.timesOf(qNobody, p); {
		case len(m.asked) == 0 || p.isWhole:
		case p.plan.Flood > 0:
			times := ratio(m.of(qNewest, p), m.of(qNewest, m.ordinary(p)), medianTime).text(decimal)
			claims = append(claims,
				claim{qNewest + " beside a flood of one address: " + p.title(), "as before the flood", times + " × the time"})
		default:
			claims = append(claims, claim{qNobody + ": " + p.title(), "at most 5 ms", median + ", the slowest " + slowest})
		}
	}
	for _, c := range slices.Concat(claims, m.claims) {
		fmt.Fprintf(b, "| %s | %s | %s |\n", c.what, c.asked, c.found)
	}
	b.WriteString("\n")
}
