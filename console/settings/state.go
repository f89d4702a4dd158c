package settings

import (
	"bytes"
	"encoding/json"
	"html/template"

	"velocityd/console/format"
	"velocityd/service/audit"
)

// Member is one member of a state in the audit, as text.
type Member struct{ Name, Text string }

// MembersOf returns the members of a state in their order. A member that is null has no text.
func MembersOf(state json.RawMessage) (list []Member) {
	members := json.NewDecoder(bytes.NewReader(state))
	if opening, err := members.Token(); err != nil || opening != json.Delim('{') {
		return nil
	}
	for members.More() {
		name, err := members.Token()
		var value json.RawMessage
		if err != nil || members.Decode(&value) != nil {
			return list
		}
		text := string(value)
		switch {
		case text == "null":
			text = ""
		case value[0] == '"':
			_ = json.Unmarshal(value, &text) // it is JSON
		}
		list = append(list, Member{name.(string), text}) //nolint:errcheck // a name is a string
	}
	return list
}

// ChangesOf returns the members of the states of an entry that differ. They have no Old if there was nothing before,
// and no New if there is nothing after.
func ChangesOf(e audit.Entry) (list []Difference) {
	before := map[string]string{}
	for _, m := range MembersOf(e.Before) {
		before[m.Name] = m.Text
	}
	after := map[string]string{}
	names := MembersOf(e.After)
	for _, m := range names {
		after[m.Name] = m.Text
	}
	if len(names) == 0 {
		names = MembersOf(e.Before)
	}
	for _, m := range names {
		was, is := before[m.Name], after[m.Name]
		if was == is || m.Name == "revision" {
			continue
		}
		d := Difference{Name: m.Name}
		if len(before) > 0 {
			d.Old = shown(was)
		}
		if len(after) > 0 {
			d.New = shown(is)
		}
		list = append(list, d)
	}
	return list
}

// shown returns a value of the audit for people.
func shown(text string) template.HTML {
	if text == "" {
		return "none"
	}
	return format.Visible(text)
}
