package format

import (
	"cmp"
	"fmt"
	"strings"

	"velocityd/service"
)

// ZoneName returns the description of a zone, as it was typed, or else its number.
func ZoneName(zone service.Zone) string {
	return cmp.Or(zone.Description, fmt.Sprintf("Zone %d", zone.ID))
}

// limitInWords returns how much a zone lets pass: "5 failures in 1 min".
func limitInWords(z service.Zone) string {
	z = z.WithDefaults()
	thing := string(z.Counts)
	if z.Rate == 1 {
		thing = strings.TrimSuffix(thing, "s")
	}
	return fmt.Sprintf("%s %s %s", Num(z.Rate), thing, Span(z))
}

// Span returns for how long attempts count in a zone: "in 1 min", or "a month".
func Span(z service.Zone) string {
	if z.Calendar.IsNone() {
		return "in " + Length(z.Window)
	}
	return "a " + string(z.Calendar.Period)
}

// subjectInWords returns the subjects of a zone's limit.
func subjectInWords(z service.Zone) string {
	switch keys := z.WithDefaults().Keys; keys.Kind {
	case service.KeyIP:
		if keys.IPv4Prefix == 32 {
			return "an address"
		}
		return fmt.Sprintf("a network (/%d, or /%d of IPv6)", keys.IPv4Prefix, keys.IPv6Prefix)
	case service.KeyUsername, service.KeyUsernameAI, service.KeyUsernameGeneral:
		return "a user"
	case service.KeyOpaque:
	}
	return "a key"
}

// Sentence describes a zone for people.
func Sentence(z service.Zone) string {
	z = z.WithDefaults()
	var b strings.Builder
	switch z.Mode {
	case service.ModeOff:
		return "This zone is off: it lets everybody pass, and counts nothing."
	case service.ModeShadow:
		b.WriteString("This zone only watches, and blocks nobody. If it were enforced: ")
	case service.ModeEnforce:
	}
	fmt.Fprintf(&b, "%s may %s %s times %s.", UpperFirst(subjectInWords(z)), verbInWords(z), Num(z.Rate), Span(z))
	if z.Counts == service.CountsFailures {
		fmt.Fprintf(&b, " A success that is reported within %s gives its place back.", Length(z.ReserveTTL))
	}
	if z.Lockout > 0 {
		fmt.Fprintf(&b, " The first attempt too many begins a lockout of %s%s.", Length(z.Lockout), growth(z))
	}
	if z.Concurrent > 0 {
		fmt.Fprintf(&b, " Of the attempts, %d may be under way at once.", z.Concurrent)
	}
	return b.String()
}

// verbInWords returns the verb of the attempts that a zone limits.
func verbInWords(z service.Zone) string {
	if z.Counts == service.CountsFailures {
		return "fail"
	}
	return "try"
}

func growth(z service.Zone) string {
	if z.LockoutFactor == 1 || z.LockoutMax <= z.Lockout {
		return ""
	}
	return fmt.Sprintf("; the next one is %v times as long, up to %s", z.LockoutFactor, Length(z.LockoutMax))
}

// UpperFirst returns text with its first letter, if that is one of ASCII, in upper case.
func UpperFirst(text string) string {
	if text != "" && 'a' <= text[0] && text[0] <= 'z' {
		return strings.ToUpper(text[:1]) + text[1:]
	}
	return text
}
