package backtest

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"velocityd/service/backtest"
)

// barWidth is the length of the longest bar of a table, in characters.
const barWidth = 40

// Table writes the result for a terminal.
func (v View) Table(w io.Writer) error {
	r := v.Result
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "zone %d, %s: %s to %s UTC\n", v.Zone.ID, v.Key(v.Name()), Instant(r.First), Instant(r.Last))
	for _, sentence := range []string{v.Lead(), v.Scope(), v.Trust()} {
		if sentence != "" {
			fmt.Fprintln(table, sentence)
		}
	}
	v.proposals(table)
	for _, d := range r.Demands {
		v.demand(table, d)
	}
	v.samples(table)
	fmt.Fprintln(table, "\nassumptions")
	for _, sentence := range r.Assumptions {
		fmt.Fprintln(table, "  "+sentence)
	}
	return table.Flush()
}

func (v View) proposals(w io.Writer) {
	r := v.Result
	fmt.Fprintln(w, "\nlimit\tblocked\tof all\tfailures stopped\tsuccesses blocked\tpeople hurt\tbuckets\tlockouts\tnewly blocked\twould pass")
	row := func(name string, n backtest.Numbers, blocked, passed string) {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, number(n.Blocked), percent(n.Blocked, r.Attempts), number(n.Failures),
			number(n.Successes), number(n.People), number(n.Buckets), number(n.Lockouts), blocked, passed)
	}
	row("as it happened", r.Happened, "-", "-")
	for _, p := range r.Proposals {
		row(Limit(p.Zone), p.Numbers, number(p.NewlyBlocked), number(p.NewlyPassed))
	}
}

// demand writes the distribution of attempts, with a line for each limit in it.
func (v View) demand(w io.Writer, d backtest.Demand) {
	fmt.Fprintf(w, "\n%s: bursts by their busiest window (= without, # with a success)\n", Title(d))
	fmt.Fprintln(w, "  most\tbursts\twith a success\t")
	most := int64(1)
	for _, b := range d.Bins {
		most = max(most, b.Bursts)
	}
	lines := v.lines(d)
	below := func(least int) {
		for len(lines) > 0 && lines[0].Rate < least {
			fmt.Fprintf(w, "  ----\t----\t----\t---- %s\n", lines[0].Text)
			lines = lines[1:]
		}
	}
	for _, b := range d.Bins {
		below(b.Most)
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", size(b), number(b.Bursts), number(b.Succeeded), bar(b, most))
	}
	below(int(^uint(0) >> 1))
	fmt.Fprintln(w, "  "+Proposed(d))
}

// bar draws the bursts of a bin. Whatever is not 0 has a character.
func bar(b backtest.Bin, most int64) string {
	parts := func(n int64) int {
		if n == 0 {
			return 0
		}
		return max(1, int(n*barWidth/most))
	}
	return strings.Repeat("=", parts(b.Bursts-b.Succeeded)) + strings.Repeat("#", parts(b.Succeeded))
}

func (v View) samples(w io.Writer) {
	for _, p := range v.Result.Proposals {
		if len(p.Samples) == 0 {
			continue
		}
		fmt.Fprintf(w, "\nanswers that %s would change, some of %s\n", Limit(p.Zone), number(p.NewlyBlocked+p.NewlyPassed))
		fmt.Fprintln(w, "  at (UTC)\tkey\tanswer\treason\toutcome\twhy it was answered as it was")
		for _, s := range p.Samples {
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t%s\n", Instant(s.At), v.Key(s.Key), Change(s), orDash(string(s.Reason)), orDash(string(s.Outcome)), Why(s))
		}
	}
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
