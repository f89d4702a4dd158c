// Package format owns the forms in which the console shows things: text that attackers have typed, numbers, times, and
// zones, as HTML or as text. It must not know requests, readers or addresses of pages.
package format

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"velocityd/service"
)

// Funcs returns the functions of templates that say things. Those that return HTML escape all text that they are given.
func Funcs() template.FuncMap {
	return template.FuncMap{
		"visible": Visible, "key": key, "plain": Plain, "option": option, "zoneName": ZoneName,
		"list": func(all ...any) []any { return all },
		"when": when, "clock": clock, "until": until, "date": date,
		"num": Num, "percent": percent, "length": lengthOf, "roughly": roughly, "seconds": service.WholeSeconds,
		"isAddress": func(key string) bool { _, is := service.NetworkOf(key); return is },
		"reason":    reasonInWords, "limit": limitInWords, "span": Span, "subject": subjectInWords,
	}
}

// key returns a key as Visible does, and says of a pseudonym that it is one.
func key(text string) template.HTML {
	if service.IsPseudonym(text) {
		return Visible(text) + ` <span class="chip note">pseudonym</span>`
	}
	return Visible(text)
}

// Plain is Visible for the places where a browser takes text alone, such as the choices of a field.
func Plain(text string) string {
	return withMarks(text, func(r rune) string { return fmt.Sprintf("[U+%04X]", r) })
}

// Escaped returns JSON with an escape in the place of each character that Visible would mark, so that it reads as it
// is.
func Escaped(json string) string {
	return withMarks(json, func(r rune) (escape string) {
		if r == '\n' {
			return "\n"
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			escape += fmt.Sprintf(`\u%04x`, unit)
		}
		return escape
	})
}

// withMarks returns text with a mark in the place of each character that is not seen.
func withMarks(text string, mark func(rune) string) string {
	var b strings.Builder
	for _, r := range text {
		if isHidden(r) {
			b.WriteString(mark(r))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// option returns one of the choices of a field, which is chosen if the field has its value.
func option(value, name, chosen string) template.HTML {
	mark := ""
	if value == chosen {
		mark = " selected"
	}
	return template.HTML(fmt.Sprintf(`<option value="%s"%s>%s</option>`, //nolint:gosec // its text is escaped
		template.HTMLEscapeString(value), mark, template.HTMLEscapeString(name)))
}

// moment is a time.Time or a service.Instant.
type moment interface {
	UTC() time.Time
	IsZero() bool
}

// when returns an instant to the second, with all digits as its title. The zero time is a dash.
func when(at moment) template.HTML { return timeAs(at, "2006-01-02 15:04:05") }

// clock returns the time of the day of an instant, to the millisecond.
func clock(at moment) template.HTML { return timeAs(at, "15:04:05.000") }

func timeAs(moment moment, layout string) template.HTML {
	if moment.IsZero() {
		return `<span class="dim">–</span>`
	}
	at := moment.UTC()
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s UTC">%s</time>`, //nolint:gosec // digits alone
		at.Format(time.RFC3339Nano), at.Format("2006-01-02 15:04:05.000000"), at.Format(layout)))
}

// until returns an instant that is to come: pages with the script count down to it.
func until(moment moment) template.HTML {
	at := moment.UTC()
	return template.HTML(fmt.Sprintf(`<time data-until datetime="%s" title="%s UTC">%[2]s</time>`, //nolint:gosec // digits alone
		at.Format(time.RFC3339Nano), at.Format(time.DateTime)))
}

func date(at moment) template.HTML { return timeAs(at, "2 Jan 2006") }

// Num returns a whole number with a thin space between thousands.
func Num(n any) string {
	text := fmt.Sprint(n)
	digits := strings.TrimPrefix(text, "-")
	sign := strings.TrimSuffix(text, digits)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return sign + digits
}

// percent returns a part of a whole, with one digit below ten per cent.
func percent(part, whole int64) string {
	if whole == 0 {
		return "–"
	}
	share := 100 * float64(part) / float64(whole)
	if share < 10 {
		return strconv.FormatFloat(share, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(share, 'f', 0, 64) + " %"
}

// lengthOf is Length of a time.Duration or a service.Duration.
func lengthOf(d interface{ Nanoseconds() int64 }) string {
	return Length(time.Duration(d.Nanoseconds()))
}

// Length returns a duration in the largest unit that it is whole in.
func Length(d time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if d >= unit.length && d%unit.length == 0 {
			return fmt.Sprintf("%d %s", d/unit.length, unit.name)
		}
	}
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
}

// roughly returns a duration as people say it.
func roughly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f h", d.Hours())
}

// reasonInWords returns the reason of a decision as it stands in a chip.
func reasonInWords(reason service.Reason) string {
	switch reason {
	case service.ReasonFull:
		return "full"
	case service.ReasonLocked:
		return "locked"
	case service.ReasonLockout:
		return "lock begins"
	case service.ReasonDenied:
		return "denied"
	case service.ReasonConcurrent:
		return "too many open"
	case service.ReasonElsewhere:
		return "by another limit"
	}
	return string(reason)
}
