package settings

import (
	"html/template"

	"velocityd/console/format"
	"velocityd/service/audit"
)

// ChangesOf returns the members of the states of an entry that differ. They have no Old if there was nothing before,
// and no New if there is nothing after.
func ChangesOf(e audit.Entry) (list []Difference) {
	for _, c := range e.Changes() {
		d := Difference{Name: c.Name}
		if len(e.Before) > 0 {
			d.Old = shown(c.Old)
		}
		if len(e.After) > 0 {
			d.New = shown(c.New)
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
