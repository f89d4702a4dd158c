package settings

import (
	"html/template"

	"velocityd/console/format"
	"velocityd/service/audit"
)

// ChangesOf returns the members of the states of an entry that differ. They have no Old if there was nothing before,
// and no New if there is nothing after.
func ChangesOf(e audit.Entry) (list []Difference) {
	before := map[string]string{}
	for _, m := range audit.MembersOf(e.Before) {
		before[m.Name] = m.Text
	}
	after := map[string]string{}
	names := audit.MembersOf(e.After)
	for _, m := range names {
		after[m.Name] = m.Text
	}
	if len(names) == 0 {
		names = audit.MembersOf(e.Before)
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
