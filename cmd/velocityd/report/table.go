package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"velocityd/service"
)

// barWidth is the length of the longest bar of a table, in characters.
const barWidth = 40

// Table writes the report for a terminal.
func (v View) Table(w io.Writer) error {
	q := v.Report.Query
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "zone %d, %s: %s to %s UTC\n%s\n%s\n", v.Zone.ID, v.Key(v.Name()), Instant(q.Since), Instant(q.Until), v.Lead(), v.Scope())
	v.hours(table)
	if v.HasPairs() {
		v.bursts(table, fmt.Sprintf("addresses that tried at least %d users in %s", q.Spray.Least, length(q.Spray.Within)),
			"address", "users", v.Report.Sprays)
		v.bursts(table, fmt.Sprintf("users tried from at least %d addresses in %s", q.Sources.Least, length(q.Sources.Within)),
			"user", "addresses", v.Report.Targets)
	}
	v.keys(table)
	return table.Flush()
}

func (v View) hours(w io.Writer) {
	columns := v.columns()
	most := highest(columns)
	fmt.Fprintf(w, "\nattempts by %s (= allowed, # blocked)\n  begins (UTC)\tattempts\tblocked\tsuccesses\tfailures\t\n", step(columns))
	for _, c := range columns {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t%s\n", c.Begins.Format("01-02 15:04"), number(c.Attempts), number(c.Blocked), number(c.Successes),
			number(c.Failures), bar(c.Allowed, c.Blocked, most))
	}
}

// bar draws a column. Whatever is not 0 has a character.
func bar(allowed, blocked, most int64) string {
	parts := func(n int64) int {
		if n == 0 {
			return 0
		}
		return max(1, int(n*barWidth/most))
	}
	return strings.Repeat("=", parts(allowed)) + strings.Repeat("#", parts(blocked))
}

// keysOf writes keys, separated by commas.
func (v View) keysOf(keys []string) string {
	shown := make([]string, len(keys))
	for i, key := range keys {
		shown[i] = v.Key(key)
	}
	return strings.Join(shown, ", ")
}

func (v View) bursts(w io.Writer, title, key, others string, bursts []service.Burst) {
	fmt.Fprintf(w, "\n%s\n", title)
	if len(bursts) == 0 {
		fmt.Fprintln(w, "  "+v.None())
		return
	}
	fmt.Fprintf(w, "  %s\t%s\tattempts\tblocked\tbegan (UTC)\tlast (UTC)\tgot in\n", key, others)
	for _, b := range bursts {
		fmt.Fprintf(w, "  %s\t%d\t%s\t%s\t%s\t%s\t%s\n", v.Key(b.Key), b.Others, number(b.Attempts), number(b.Blocked), Instant(b.BeginsAt),
			Instant(b.LastAt), v.gotIn(b))
	}
}

// gotIn says for whom a success was reported.
func (v View) gotIn(b service.Burst) string {
	if b.Successes == 0 {
		return "-"
	}
	text := fmt.Sprintf("%d: %s", b.Successes, v.keysOf(b.Succeeded))
	if b.Successes > len(b.Succeeded) {
		text += ", …"
	}
	return text
}

func (v View) keys(w io.Writer) {
	fmt.Fprintln(w, "\nkeys that were stopped most: full, locked or denied")
	if len(v.Report.Stopped) == 0 {
		fmt.Fprintln(w, "  "+v.None())
	} else {
		fmt.Fprintln(w, "  key\tstopped\tattempts\tsuccesses\tfailures\tlast (UTC)")
	}
	for _, k := range v.Report.Stopped {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t%s\n", v.Key(k.Key), number(k.WouldBlock), number(k.Attempts), number(k.Successes), number(k.Failures),
			Instant(k.LastAt))
	}
	fmt.Fprintf(w, "\nkeys near the limit of %s, never stopped\n", v.Limit())
	if len(v.Report.Near) == 0 {
		fmt.Fprintln(w, "  "+v.None())
	} else {
		fmt.Fprintln(w, "  key\tat once\tat (UTC)")
	}
	for _, k := range v.Report.Near {
		fmt.Fprintf(w, "  %s\t%d of %d\t%s\n", v.Key(k.Key), k.Most, v.Zone.Rate, Instant(k.At))
	}
}
