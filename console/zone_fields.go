package console

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
	"velocityd/service"
)

// kind is how a setting is written in a form and read by people.
type kind string

const (
	kindNumber  kind = "number"
	kindSeconds kind = "seconds"
	kindFactor  kind = "factor"
	kindText    kind = "text"
	kindChoice  kind = "choice"
)

// field is one setting of a zone as people see it.
type field struct {
	Name  string // in JSON and SQL
	Label string
	Kind  kind
	Unit  string
	Help  string
	// Choices are the values of a kindChoice, as they stand in JSON, and their words.
	Choices []choice
	// Empty says what an empty field stands for; "" if it must not be empty. Zero says what 0 stands for, if not for itself.
	Empty, Zero string
}

// choice is a value that a setting can have.
type choice struct{ Value, Label string }

// group is some settings that belong together.
type group struct {
	Name   string
	Fields []field
}

// zoneGroups returns all settings of zones in the order in which people think of them.
func zoneGroups() []group {
	return []group{
		{"Limit", []field{
			{Name: "description", Label: "What the zone is for", Kind: kindText},
			{Name: "rate", Label: "Rate", Kind: kindNumber, Help: "How many pass in a window."},
			{Name: "window", Label: "Window", Kind: kindSeconds, Unit: "s", Empty: "that of the period"},
			{Name: "period", Label: "Period", Kind: kindChoice, Help: "A period of the calendar begins anew.", Choices: periods()},
			{Name: "period_offset", Label: "Clock of the period", Kind: kindNumber, Unit: "min ahead of UTC", Zero: "UTC"},
			{Name: "period_anchor", Label: "Day on which a month begins", Kind: kindNumber},
			{Name: "mode", Label: "Mode", Kind: kindChoice, Choices: []choice{
				{"enforce", "enforce: blocks"}, {"shadow", "shadow: only watches"}, {"off", "off: lets all pass"},
			}},
		}},
		{"What takes a place", []field{
			{Name: "counts", Label: "Counted", Kind: kindChoice, Choices: []choice{
				{"attempts", "all attempts"}, {"failures", "failures alone"},
			}},
			{Name: "reset_on_success", Label: "A success empties the bucket", Kind: kindChoice, Choices: yesOrNo()},
			{Name: "reserve_ttl", Label: "Time to report the outcome", Kind: kindSeconds, Unit: "s", Empty: "the window"},
			{Name: "concurrent", Label: "Attempts under way at once", Kind: kindNumber, Zero: "any number"},
			{Name: "repeat_secret", Label: "The same secret again", Kind: kindChoice, Choices: []choice{
				{"count", "takes a place again"}, {"free", "takes no place"},
			}},
		}},
		{"Lockout", []field{
			{Name: "lockout", Label: "First lockout", Kind: kindSeconds, Unit: "s", Zero: "none"},
			{Name: "lockout_factor", Label: "The next one is longer", Kind: kindFactor, Unit: "times"},
			{Name: "lockout_max", Label: "Longest lockout", Kind: kindSeconds, Unit: "s"},
			{Name: "lockout_decay", Label: "Forgotten after", Kind: kindSeconds, Unit: "s without lockout"},
		}},
		{"Keys", []field{
			{Name: "key_kind", Label: "Kind", Kind: kindChoice, Choices: []choice{
				{"opaque", "opaque: as they are"},
				{"username", "user names"},
				{"username_ai_ci", "user names without accents"},
				{"username_general_ci", "user names by utf8mb4_general_ci"},
				{"ip", "addresses"},
			}},
			{Name: "key_form", Label: "Kept", Kind: kindChoice, Help: "A change begins all windows anew.", Choices: []choice{
				{"clear", "as they are"}, {"hmac", "as pseudonyms"},
			}},
			{Name: "ipv4_prefix", Label: "IPv4 network", Kind: kindNumber, Unit: "bits"},
			{Name: "ipv6_prefix", Label: "IPv6 network", Kind: kindNumber, Unit: "bits"},
		}},
		{"Failure and records", []field{
			{Name: "on_failure", Label: "Database is away", Kind: kindChoice, Choices: []choice{
				{"error", "error: the caller decides"}, {"allow", "allow"}, {"block", "block"},
			}},
			{Name: "record_blocked", Label: "Blocked attempts with a row", Kind: kindNumber, Zero: "all"},
			{Name: "keep_days", Label: "Attempts are kept", Kind: kindNumber, Unit: "days", Zero: "as the policy says"},
			{Name: "totals", Label: "Totals of each key", Kind: kindChoice, Choices: yesOrNo()},
			{Name: "full_events", Label: "An event when a key is full", Kind: kindChoice, Choices: yesOrNo()},
		}},
	}
}

func periods() []choice {
	return []choice{
		{"none", "none: a sliding window"},
		{"second", "second"},
		{"minute", "minute"},
		{"hour", "hour"},
		{"day", "day"},
		{"week", "week"},
		{"month", "month"},
	}
}

func yesOrNo() []choice { return []choice{{"false", "no"}, {"true", "yes"}} }

// values are the settings of a zone by name, as they stand in a form.
type values map[string]string

// valuesOf returns the settings of a zone for a form.
func valuesOf(settings api.ZoneSettings) values {
	all := values{}
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

// settingsOf returns the settings that a form or an address has. Those that it lacks are those of base. The error is a
// service.ErrInvalid that names the field.
func settingsOf(form url.Values, base api.ZoneSettings) (api.ZoneSettings, error) {
	written := valuesOf(base)
	text := map[string]json.RawMessage{}
	for _, g := range zoneGroups() {
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
func (f field) json(text string) (json.RawMessage, error) {
	switch f.Kind {
	case kindNumber, kindSeconds:
		if text == "" && f.Empty != "" {
			text = "0"
		}
		if _, err := strconv.ParseInt(text, 10, 32); err != nil {
			return nil, service.NewFieldError(f.Name, "must be a whole number, is %.20q", text)
		}
	case kindFactor:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return nil, service.NewFieldError(f.Name, "must be a number such as 2 or 1.5, is %.20q", text)
		}
		return json.Marshal(n)
	case kindChoice:
		if text == "true" || text == "false" {
			return json.RawMessage(text), nil
		}
		return json.Marshal(text)
	case kindText:
		return json.Marshal(text)
	}
	return json.RawMessage(text), nil
}

// words returns a value of the setting for people.
func (f field) words(text string) template.HTML {
	shown := text
	if text == "0" && f.Zero != "" {
		return template.HTML(f.Zero) //nolint:gosec // it is a word of ours
	}
	switch f.Kind {
	case kindText:
		return visible(text)
	case kindSeconds:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			shown = length(time.Duration(n) * time.Second)
		} else {
			shown = f.Empty
		}
	case kindNumber, kindFactor:
		shown = strings.TrimSpace(num(text) + " " + f.Unit)
	case kindChoice:
		if i := slices.IndexFunc(f.Choices, func(c choice) bool { return c.Value == text }); i >= 0 {
			shown = f.Choices[i].Label
		}
	}
	return template.HTML(template.HTMLEscapeString(shown)) //nolint:gosec // it is escaped
}

// difference is a setting that has another value than before.
type difference struct {
	Name, Label string
	Old, New    template.HTML // in words
}

// differences returns the settings that changed, in the order of the groups.
func differences(old, changed api.ZoneSettings) (list []difference) {
	before, after := valuesOf(old), valuesOf(changed)
	for _, g := range zoneGroups() {
		for _, f := range g.Fields {
			if before[f.Name] != after[f.Name] {
				list = append(list, difference{f.Name, f.Label, f.words(before[f.Name]), f.words(after[f.Name])})
			}
		}
	}
	return list
}

// changedValues returns the settings that changed, as they stand in an address.
func changedValues(old, changed api.ZoneSettings) url.Values {
	before, query := valuesOf(old), url.Values{}
	for name, text := range valuesOf(changed) {
		if before[name] != text {
			query.Set(name, text)
		}
	}
	return query
}
