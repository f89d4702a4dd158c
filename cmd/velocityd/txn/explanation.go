package txn

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"velocityd/cmd/velocityd/shell"
	"velocityd/service"
	"velocityd/service/explain"
)

// WriteExplanation writes an explanation for people: the sentence, what was in force, and the rows that counted.
func WriteExplanation(to io.Writer, x explain.Explanation) error {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%s\n\n", x.Summary)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	own := x.Txn
	line("txn", "%d at %s, zone %d, %s: %s", own.ID, own.CreatedAt, own.Bucket.ZoneID, shell.Printable(own.Bucket.Key),
		Describe(own)+shell.Printable(originOf(own)))
	if z := x.Zone; z != nil {
		line("zone", "%d in %s, %s, counts %s, revision %d", z.Rate, spanOf(*z), z.Mode, z.Counts, z.Revision)
	}
	if o := x.Override; o != nil {
		line("override", "%d: %s%s, by %s: %s", o.ID, o.Action, limitOf(*o), shell.Printable(o.CreatedBy),
			shell.Printable(o.Reason))
	}
	if l := x.Lockout; l != nil {
		line("lockout", "from %s to %s", l.BeganAt, l.Until)
	}
	if !x.OpensAt.IsZero() {
		line("next place", "%s", x.OpensAt)
	}
	for _, named := range []struct {
		name string
		txn  *service.Txn
	}{{"previous", x.Previous}, {"next", x.Next}} {
		if t := named.txn; t != nil {
			line(named.name, "%d at %s: %s", t.ID, t.CreatedAt, Describe(*t))
		}
	}
	for _, t := range x.Others {
		line("other bucket", "%d, zone %d, %s: %s", t.ID, t.Bucket.ZoneID, shell.Printable(t.Bucket.Key),
			Describe(t)+shell.Printable(originOf(t)))
	}
	for _, g := range x.Unknown {
		line("not known", "%s: %s", g.Part, g.Why)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return writeCounted(to, x)
}

// writeCounted writes the rows that counted before the attempt, the newest first.
func writeCounted(to io.Writer, x explain.Explanation) error {
	if len(x.Counted) == 0 {
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\ncounted before it, after %s:\n", x.Since)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  id\ttime (UTC)\toutcome\tgiven back")
	for _, t := range x.Counted {
		given := "-"
		if !t.UncountedAt.IsZero() {
			given = t.UncountedAt.String()
		}
		fmt.Fprintf(table, "  %d\t%s\t%s\t%s\n", t.ID, t.CreatedAt, cmp.Or(string(t.Outcome), "-"), given)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(to, text.String())
	return err
}

// spanOf says for how long attempts count in a zone.
func spanOf(zone service.Zone) string {
	if !zone.Calendar.IsNone() {
		return "a " + string(zone.Calendar.Period)
	}
	return fmt.Sprintf("%d s", service.WholeSeconds(zone.Window))
}

// limitOf says the limit of an override that has one, and its end.
func limitOf(o service.Override) (text string) {
	if o.Action == service.OverrideLimit {
		text = fmt.Sprintf(" %d", o.Rate)
		if o.Window.Duration > 0 {
			text += fmt.Sprintf(" in %d s", service.WholeSeconds(o.Window.Duration))
		}
	}
	if !o.ExpiresAt.IsZero() {
		text += " until " + o.ExpiresAt.UTC().Format(time.RFC3339)
	}
	return text
}
