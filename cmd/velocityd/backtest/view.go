// Package backtest shows the result of a back-test to people, as tables for a terminal. It must not know where the result comes from.
package backtest

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"velocityd/service"
	"velocityd/service/backtest"
)

// View is a result and what is needed to show it.
type View struct {
	Zone   service.Zone
	Result backtest.Result
	// Key returns a key as it can be shown: attackers choose keys, and some hold characters that cannot be seen or change
	// the direction of text.
	Key func(key string) string
}

// Name returns the name of the zone.
func (v View) Name() string { return cmp.Or(v.Zone.Description, "without a description") }

// Lead is the result in a few sentences.
func (v View) Lead() string {
	r := v.Result
	switch {
	case r.Attempts == 0 && r.IsCut:
		return "No attempt of this time was replayed, because the reading ended among those before it, which fill the buckets."
	case r.Attempts == 0:
		return "Nobody has attempted anything in this time."
	}
	text := fmt.Sprintf("%s, of which %s a success and %s a failure.", counted(r.Attempts, "attempt"), has(r.Successes), has(r.Failures))
	gentlest := r.Proposals[0]
	for _, p := range r.Proposals {
		if p.People < gentlest.People || p.People == gentlest.People && p.Failures > gentlest.Failures {
			gentlest = p
		}
	}
	return text + fmt.Sprintf(" Of the proposals, %s hurts the fewest people: %s. It stops %s of the failures.", Limit(gentlest.Zone),
		number(gentlest.People), percent(gentlest.Failures, r.Failures))
}

func has(n int64) string {
	if n == 1 {
		return "1 has"
	}
	return number(n) + " have"
}

// Scope says which txns were read.
func (v View) Scope() string {
	r := v.Result
	text := ""
	if r.Rows > 0 { // a log has none
		text = counted(r.Rows, "txn") + " of all zones were read."
	}
	if r.IsCut && !r.Last.IsZero() {
		text += fmt.Sprintf(" The time has more: nothing after %s was replayed.", Instant(r.Last))
	}
	return strings.TrimSpace(text)
}

// Trust says how well a replay of the settings as they were agrees with the record.
func (v View) Trust() string {
	r := v.Result
	if r.Agreed+r.Differed == 0 || r.Rows == 0 { // a log says nothing of settings
		return ""
	}
	if r.Differed == 0 {
		return "Replayed with the settings as they were, all attempts get the answers that were recorded."
	}
	return fmt.Sprintf("Replayed with the settings as they were, %s (%s) get another answer than was recorded.", counted(r.Differed, "attempt"),
		percent(r.Differed, r.Agreed+r.Differed))
}

// Limit writes the settings of a proposal.
func Limit(z service.Zone) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s", number(int64(z.Rate)), term(z.Window, z.Calendar.Period))
	if z.Counts == service.CountsFailures {
		text.WriteString(", failures")
	}
	if z.Lockout > 0 {
		text.WriteString(", lockout " + length(z.Lockout))
	}
	return text.String()
}

func term(window time.Duration, period service.Period) string {
	if period != "" && period != service.PeriodNone {
		return "a " + string(period)
	}
	return "in " + length(window)
}

// Title says how a demand counts.
func Title(d backtest.Demand) string {
	things := "attempts"
	if d.Counts == service.CountsFailures {
		things = "attempts without a success"
	}
	return fmt.Sprintf("%s of a bucket %s", things, term(d.Window, d.Period))
}

// Proposed says which rate follows from a demand.
func Proposed(d backtest.Demand) string {
	if d.Proposed == 0 {
		return "No burst has a success, so no rate is proposed."
	}
	return fmt.Sprintf("A rate of %s lets %v %% of the %s with a success pass as they were.", number(int64(d.Proposed)), backtest.Share,
		counted(d.Succeeded, "burst"))
}

// line is the limit of a proposal in a demand, and what is above it.
type line struct {
	Rate             int
	Above, Succeeded int64 // bursts
	Text             string
}

// lines returns the limits of the proposals that count as a demand does, each once, the lowest first. Bursts in the bin of
// a rate that is not its end are counted as above.
func (v View) lines(d backtest.Demand) (lines []line) {
	seen := map[int]bool{}
	for _, p := range v.Result.Proposals {
		same := p.Zone.Window == d.Window && period(p.Zone.Calendar.Period) == period(d.Period) && p.Zone.Counts == d.Counts
		if !same || seen[p.Zone.Rate] {
			continue
		}
		seen[p.Zone.Rate] = true
		l := line{Rate: p.Zone.Rate}
		for _, b := range d.Bins {
			if b.Most > p.Zone.Rate {
				l.Above, l.Succeeded = l.Above+b.Bursts, l.Succeeded+b.Succeeded
			}
		}
		l.Text = fmt.Sprintf("rate %s: %s above (%s), %s with a success", number(int64(l.Rate)), counted(l.Above, "burst"), percent(l.Above, d.Bursts),
			number(l.Succeeded))
		at := len(lines)
		for at > 0 && lines[at-1].Rate > l.Rate {
			at--
		}
		lines = append(lines[:at], append([]line{l}, lines[at:]...)...)
	}
	return lines
}

func period(p service.Period) service.Period { return cmp.Or(p, service.PeriodNone) }

// size writes the numbers of attempts of a bin.
func size(b backtest.Bin) string {
	if b.Least == b.Most {
		return number(int64(b.Most))
	}
	return number(int64(b.Least)) + "–" + number(int64(b.Most))
}

// Instant writes a time to the second.
func Instant(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.UTC().Format("2006-01-02 15:04:05")
}

// Why is the command that explains a sample, or a dash for one of a log.
func Why(s backtest.Sample) string {
	if s.TxnID == 0 {
		return "-"
	}
	return fmt.Sprintf("velocityd txn explain %d", s.TxnID)
}

// Change says how a proposal answers a sample.
func Change(s backtest.Sample) string {
	if s.Blocked {
		return "passed, would be blocked"
	}
	return "was blocked, would pass"
}

// number writes a number with commas between thousands.
func number(n int64) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// counted writes a number of things.
func counted(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return number(n) + " " + thing + "s"
}

// percent writes a part in per cent.
func percent(part, whole int64) string {
	if whole == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(whole))
}

// length writes a length of time by its largest unit.
func length(d time.Duration) string {
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		if d >= unit.of && d%unit.of == 0 {
			return counted(int64(d/unit.of), unit.name)
		}
	}
	return counted(int64(d/time.Second), "second")
}
