// Package settings owns the settings of a zone as people read and write them: the fields of forms, values in words, and
// the rows that the audit has of zones and overrides. It must not know requests, readers or pages.
package settings

import (
	"cmp"
	"encoding/json"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"velocityd/console/format"
	"velocityd/service"
)

// Field is one setting of a zone as people see it, with its value as it stands in a form.
type Field struct {
	service.Setting
	Value string
}

// Measure is the unit of a number, in short.
func (f Field) Measure() string {
	if f.Kind() == service.KindLength {
		return "s"
	}
	return f.Unit
}

// Options are the values of a setting that people choose from, with the words for each. Other settings have none.
func (f Field) Options() []service.Choice {
	if f.Kind() == service.KindFlag {
		return []service.Choice{{Value: "false", Meaning: "no"}, {Value: "true", Meaning: "yes"}}
	}
	options := slices.Clone(f.Choices)
	for i, c := range options {
		options[i].Meaning = c.Value
		if c.Meaning != "" {
			options[i].Meaning += ": " + c.Meaning
		}
	}
	return options
}

// Group is some settings that belong together.
type Group struct {
	Name   string
	Fields []Field
}

// Groups returns all settings of a zone in their order, in groups that begin with settings of these names.
func (v Values) Groups() (list []Group) {
	begins := map[string]string{
		"description": "Limit", "counts": "What takes a place", "lockout": "Lockout", "key_kind": "Keys",
		"on_failure": "Failure and records",
	}
	for _, s := range service.Settings {
		if name, begins := begins[s.Name]; begins {
			list = append(list, Group{Name: name})
		}
		group := &list[len(list)-1]
		group.Fields = append(group.Fields, Field{s, v[s.Name]})
	}
	return list
}

// Values are the settings of a zone by name, as they stand in a form.
type Values map[string]string

// ValuesOf returns the settings of a zone for a form.
func ValuesOf(zone service.Zone) Values {
	zone = zone.WithDefaults()
	all := Values{}
	for _, s := range service.Settings {
		text := s.Text(&zone)
		if word, isText := s.At(&zone).(*string); isText {
			text = *word
		}
		all[s.Name] = text
	}
	if zone.ReserveTTL == zone.Window {
		all["reserve_ttl"] = ""
	}
	return all
}

// Read returns a zone with the settings that a form or an address has. Those that it lacks are those of base. The error
// is a service.ErrInvalid that names the field.
func Read(form url.Values, base service.Zone) (service.Zone, error) {
	written, zone := ValuesOf(base), base.WithDefaults()
	for _, s := range service.Settings {
		if form.Has(s.Name) {
			written[s.Name] = strings.TrimSpace(form.Get(s.Name))
		}
		if err := (Field{s, written[s.Name]}).read(&zone); err != nil {
			return base.WithDefaults(), err
		}
	}
	if !zone.Calendar.IsNone() {
		zone.Window = 0 // it is the length of the period
	}
	return zone.WithDefaults(), nil
}

// read writes the value of a form into a zone: all but text is JSON, as the settings of a zone are.
func (f Field) read(zone *service.Zone) error {
	at, text := f.At(zone), f.Value
	if word, isText := at.(*string); isText {
		*word = text
		return nil
	}
	if text == "" && f.Otherwise != "" {
		text = "0"
	}
	if text != "null" && json.Unmarshal([]byte(text), at) == nil {
		return nil
	}
	rule := map[service.Kind]string{service.KindFactor: "a number such as 2 or 1.5", service.KindFlag: "true or false"}
	return service.NewFieldError(f.Name, "must be %s, is %.20q", cmp.Or(rule[f.Kind()], "a whole number"), f.Value)
}

// Words returns the value for people.
func (f Field) Words() template.HTML {
	shown := f.Value
	if f.Value == "0" && f.Zero != "" {
		return template.HTML(f.Zero) //nolint:gosec // it is a word of ours
	}
	switch f.Kind() {
	case service.KindText:
		return format.Visible(f.Value)
	case service.KindLength:
		if n, err := strconv.ParseInt(f.Value, 10, 64); err == nil {
			shown = format.Length(time.Duration(n) * time.Second)
		} else {
			shown = f.Otherwise
		}
	case service.KindNumber, service.KindFactor:
		shown = strings.TrimSpace(format.Num(f.Value) + " " + f.Measure())
	case service.KindChoice, service.KindFlag:
		for _, o := range f.Options() {
			if o.Value == f.Value {
				shown = o.Meaning
			}
		}
	}
	return template.HTML(template.HTMLEscapeString(shown)) //nolint:gosec // it is escaped
}

// Difference is a setting that has another value than before.
type Difference struct {
	Name, Label string
	Old, New    template.HTML // in words
}

// Differences returns the settings that changed, in their order.
func Differences(old, changed service.Zone) (list []Difference) {
	before, after := ValuesOf(old), ValuesOf(changed)
	for _, s := range service.Settings {
		if was, is := before[s.Name], after[s.Name]; was != is {
			list = append(list, Difference{s.Name, s.Label, Field{s, was}.Words(), Field{s, is}.Words()})
		}
	}
	return list
}

// ChangedValues returns the settings that changed, as they stand in an address.
func ChangedValues(old, changed service.Zone) url.Values {
	before, query := ValuesOf(old), url.Values{}
	for name, text := range ValuesOf(changed) {
		if before[name] != text {
			query.Set(name, text)
		}
	}
	return query
}
