// Package settings owns the settings of a zone as people read and write them: the fields of forms, values in words, and the rows
// that the audit has of zones and overrides. It must not know requests, readers or pages.
package settings

import (
	"encoding/json"
	"html/template"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"velocityd/api"
	"velocityd/console/words"
	"velocityd/service"
)

// Kind is how a setting is written in a form and read by people.
type Kind string

// The kinds of settings.
const (
	KindNumber  Kind = "number"
	KindSeconds Kind = "seconds"
	KindFactor  Kind = "factor"
	KindText    Kind = "text"
	KindChoice  Kind = "choice"
)

// Field is one setting of a zone as people see it.
type Field struct {
	Name  string // in JSON and SQL
	Label string
	Kind  Kind
	Unit  string
	Help  string
	// Choices are the values of a KindChoice, as they stand in JSON, and their words.
	Choices []Choice
	// Empty says what an empty field stands for; "" if it must not be empty. Zero says what 0 stands for, if not for itself.
	Empty, Zero string
}

// Choice is a value that a setting can have.
type Choice struct{ Value, Label string }

// Group is some settings that belong together.
type Group struct {
	Name   string
	Fields []Field
}

// Groups returns all settings of zones in the order in which people think of them.
func Groups() []Group {
	return []Group{
		{"Limit", []Field{
			{Name: "description", Label: "What the zone is for", Kind: KindText},
			{Name: "rate", Label: "Rate", Kind: KindNumber, Help: "How many pass in a window."},
			{Name: "window", Label: "Window", Kind: KindSeconds, Unit: "s", Empty: "that of the period"},
			{Name: "period", Label: "Period", Kind: KindChoice, Help: "A period of the calendar begins anew.", Choices: periods()},
			{Name: "period_offset", Label: "Clock of the period", Kind: KindNumber, Unit: "min ahead of UTC", Zero: "UTC"},
			{Name: "period_anchor", Label: "Day on which a month begins", Kind: KindNumber},
			{Name: "mode", Label: "Mode", Kind: KindChoice, Choices: []Choice{
				{"enforce", "enforce: blocks"}, {"shadow", "shadow: only watches"}, {"off", "off: lets all pass"},
			}},
		}},
		{"What takes a place", []Field{
			{Name: "counts", Label: "Counted", Kind: KindChoice, Choices: []Choice{
				{"attempts", "all attempts"}, {"failures", "failures alone"},
			}},
			{Name: "reset_on_success", Label: "A success empties the bucket", Kind: KindChoice, Choices: yesOrNo()},
			{Name: "reserve_ttl", Label: "Time to report the outcome", Kind: KindSeconds, Unit: "s", Empty: "the window"},
			{Name: "concurrent", Label: "Attempts under way at once", Kind: KindNumber, Zero: "any number"},
			{Name: "repeat_secret", Label: "The same secret again", Kind: KindChoice, Choices: []Choice{
				{"count", "takes a place again"}, {"free", "takes no place"},
			}},
		}},
		{"Lockout", []Field{
			{Name: "lockout", Label: "First lockout", Kind: KindSeconds, Unit: "s", Zero: "none"},
			{Name: "lockout_factor", Label: "The next one is longer", Kind: KindFactor, Unit: "times"},
			{Name: "lockout_max", Label: "Longest lockout", Kind: KindSeconds, Unit: "s"},
			{Name: "lockout_decay", Label: "Forgotten after", Kind: KindSeconds, Unit: "s without lockout"},
		}},
		{"Keys", []Field{
			{Name: "key_kind", Label: "Kind", Kind: KindChoice, Choices: []Choice{
				{"opaque", "opaque: as they are"},
				{"username", "user names"},
				{"username_ai_ci", "user names without accents"},
				{"username_general_ci", "user names by utf8mb4_general_ci"},
				{"ip", "addresses"},
			}},
			{Name: "key_form", Label: "Kept", Kind: KindChoice, Help: "A change begins all windows anew.", Choices: []Choice{
				{"clear", "as they are"}, {"hmac", "as pseudonyms"},
			}},
			{Name: "ipv4_prefix", Label: "IPv4 network", Kind: KindNumber, Unit: "bits"},
			{Name: "ipv6_prefix", Label: "IPv6 network", Kind: KindNumber, Unit: "bits"},
		}},
		{"Failure and records", []Field{
			{Name: "on_failure", Label: "Database is away", Kind: KindChoice, Choices: []Choice{
				{"error", "error: the caller decides"}, {"allow", "allow"}, {"block", "block"},
			}},
			{Name: "record_blocked", Label: "Blocked attempts with a row", Kind: KindNumber, Zero: "all"},
			{Name: "keep_days", Label: "Attempts are kept", Kind: KindNumber, Unit: "days", Zero: "as the policy says"},
			{Name: "totals", Label: "Totals of each key", Kind: KindChoice, Choices: yesOrNo()},
		}},
	}
}

func periods() []Choice {
	return []Choice{
		{"none", "none: a sliding window"},
		{"second", "second"},
		{"minute", "minute"},
		{"hour", "hour"},
		{"day", "day"},
		{"week", "week"},
		{"month", "month"},
	}
}

func yesOrNo() []Choice { return []Choice{{"false", "no"}, {"true", "yes"}} }

// Values are the settings of a zone by name, as they stand in a form.
type Values map[string]string

// ValuesOf returns the settings of a zone for a form.
func ValuesOf(settings api.ZoneSettings) Values {
	all := Values{}
	for _, s := range settings.List() {
		text := s.Value
		if strings.HasPrefix(text, `"`) {
			_ = json.Unmarshal([]byte(s.Value), &text) // it is JSON
		}
		all[s.Name] = text
	}
	if settings.ReserveTTL == settings.Window {
		all["reserve_ttl"] = ""
	}
	return all
}

// Read returns the settings that a form or an address has. Those that it lacks are those of base. The error is a
// service.ErrInvalid that names the field.
func Read(form url.Values, base api.ZoneSettings) (api.ZoneSettings, error) {
	written := ValuesOf(base)
	text := map[string]json.RawMessage{}
	for _, g := range Groups() {
		for _, f := range g.Fields {
			if form.Has(f.Name) {
				written[f.Name] = strings.TrimSpace(form.Get(f.Name))
			}
			raw, err := f.json(written[f.Name])
			if err != nil {
				return base, err
			}
			text[f.Name] = raw
		}
	}
	whole, err := json.Marshal(text)
	if err != nil {
		return base, err
	}
	settings := base
	if err := json.Unmarshal(whole, &settings); err != nil {
		return base, service.NewFieldError("settings", "cannot be read: %v", err)
	}
	if settings.Period != service.PeriodNone {
		settings.Window = 0 // it is the length of the period
	}
	filled := api.NewZoneSettings(settings.Zone(1))
	return filled, nil
}

// json returns the text of a form as the setting stands in JSON.
func (f Field) json(text string) (json.RawMessage, error) {
	switch f.Kind {
	case KindNumber, KindSeconds:
		if text == "" && f.Empty != "" {
			text = "0"
		}
		if _, err := strconv.ParseInt(text, 10, 32); err != nil {
			return nil, service.NewFieldError(f.Name, "must be a whole number, is %.20q", text)
		}
	case KindFactor:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return nil, service.NewFieldError(f.Name, "must be a number such as 2 or 1.5, is %.20q", text)
		}
		return json.Marshal(n)
	case KindChoice:
		if text == "true" || text == "false" {
			return json.RawMessage(text), nil
		}
		return json.Marshal(text)
	case KindText:
		return json.Marshal(text)
	}
	return json.RawMessage(text), nil
}

// Words returns a value of the setting for people.
func (f Field) Words(text string) template.HTML {
	shown := text
	if text == "0" && f.Zero != "" {
		return template.HTML(f.Zero) //nolint:gosec // it is a word of ours
	}
	switch f.Kind {
	case KindText:
		return words.Visible(text)
	case KindSeconds:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			shown = words.Length(time.Duration(n) * time.Second)
		} else {
			shown = f.Empty
		}
	case KindNumber, KindFactor:
		shown = strings.TrimSpace(words.Num(text) + " " + f.Unit)
	case KindChoice:
		if i := slices.IndexFunc(f.Choices, func(c Choice) bool { return c.Value == text }); i >= 0 {
			shown = f.Choices[i].Label
		}
	}
	return template.HTML(template.HTMLEscapeString(shown)) //nolint:gosec // it is escaped
}

// Difference is a setting that has another value than before.
type Difference struct {
	Name, Label string
	Old, New    template.HTML // in words
}

// Differences returns the settings that changed, in the order of the groups.
func Differences(old, changed api.ZoneSettings) (list []Difference) {
	before, after := ValuesOf(old), ValuesOf(changed)
	for _, g := range Groups() {
		for _, f := range g.Fields {
			if before[f.Name] != after[f.Name] {
				list = append(list, Difference{f.Name, f.Label, f.Words(before[f.Name]), f.Words(after[f.Name])})
			}
		}
	}
	return list
}

// ChangedValues returns the settings that changed, as they stand in an address.
func ChangedValues(old, changed api.ZoneSettings) url.Values {
	before, query := ValuesOf(old), url.Values{}
	for name, text := range ValuesOf(changed) {
		if before[name] != text {
			query.Set(name, text)
		}
	}
	return query
}
