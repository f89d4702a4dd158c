package shell

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	form "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// JSON writes a value as one line of JSON, in the form of the HTTP interface. Signs of HTML are escaped.
func JSON(w io.Writer, value any) error {
	out := jsontext.NewEncoder(w, jsontext.EscapeForHTML(true), jsontext.EscapeForJS(true))
	return form.MarshalEncode(out, value, form.Deterministic(true))
}

// Print writes an answer of the HTTP interface: as one JSON object for programs, or as tables for people. The tables
// have all of the object, under the names that it has there. Values that are text are made harmless for a terminal.
func Print(w io.Writer, asJSON bool, answer any) error {
	if asJSON {
		return JSON(w, answer)
	}
	var text bytes.Buffer
	if err := JSON(&text, answer); err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	in := json.NewDecoder(&text)
	in.UseNumber()
	whole, _ := decode(in).(object)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	whole.print(table)
	return table.Flush()
}

// object is a JSON object whose members have their order. A value is text as it is shown, an object, or a list of
// values.
type object []member

type member struct {
	name  string
	value any
}

// decode reads the next value of a text that was encoded just now, so that it has no faults.
func decode(in *json.Decoder) any {
	switch token, _ := in.Token(); token {
	case json.Delim('{'):
		members := object{}
		for in.More() {
			name, _ := in.Token()
			members = append(members, member{strings.ReplaceAll(shown(name), "_", " "), decode(in)})
		}
		_, _ = in.Token() // the end
		return members
	case json.Delim('['):
		list := []any{}
		for in.More() {
			list = append(list, decode(in))
		}
		_, _ = in.Token()
		return list
	default:
		return shown(token)
	}
}

// shown writes a value that is no object and no list.
func shown(token json.Token) string {
	if token == nil || token == "" {
		return "-"
	}
	return Printable(fmt.Sprint(token))
}

// print writes the members that are one value each, and then a table for each of the others.
func (o object) print(w io.Writer) {
	for _, m := range o {
		if text, ok := m.value.(string); ok {
			fmt.Fprintf(w, "%s\t%s\n", m.name, text)
		}
	}
	for _, m := range o {
		switch value := m.value.(type) {
		case object:
			printRows(w, m.name, value.rows())
		case []any:
			printRows(w, m.name, value)
		}
	}
}

// rows returns the one row that an object is, or those of an object of objects, with their names.
func (o object) rows() (rows []any) {
	for _, m := range o {
		inner, ok := m.value.(object)
		if !ok {
			return []any{o}
		}
		rows = append(rows, append(object{{"", m.name}}, inner...))
	}
	return rows
}

// printRows writes a table, and one for each list of objects in a row.
func printRows(w io.Writer, title string, rows []any) {
	fmt.Fprintf(w, "\n%s\n", title)
	if len(rows) == 0 {
		fmt.Fprintln(w, "  none")
	}
	columns, lines, below := []string{}, []map[string]string{}, object{}
	for i, row := range rows {
		lines = append(lines, map[string]string{})
		for _, m := range members(row) {
			text, isShown := cell(m.value)
			switch {
			case !isShown:
				below = append(below, member{fmt.Sprintf("%s %d: %s", title, i+1, m.name), m.value})
			case text != "" && !slices.Contains(columns, m.name): // a list without elements needs no column
				columns = append(columns, m.name)
				fallthrough
			default:
				lines[i][m.name] = text
			}
		}
	}
	if len(columns) > 1 {
		fmt.Fprintln(w, "  "+strings.Join(columns, "\t"))
	}
	for _, line := range lines {
		texts := make([]string, len(columns))
		for i, name := range columns {
			texts[i] = cmp.Or(line[name], "-")
		}
		fmt.Fprintln(w, "  "+strings.Join(texts, "\t"))
	}
	below.print(w)
}

// members returns the members of a row, and those of objects in it in their place.
func members(row any) (list object) {
	whole, ok := row.(object)
	if !ok {
		return object{{"", row}}
	}
	for _, m := range whole {
		if _, ok := m.value.(object); ok {
			list = append(list, members(m.value)...)
			continue
		}
		list = append(list, m)
	}
	return list
}

// cell writes a value of a row, or says that it needs a table: a list of objects does.
func cell(value any) (text string, isShown bool) {
	list, ok := value.([]any)
	if !ok {
		return fmt.Sprint(value), true
	}
	texts := make([]string, len(list))
	for i, element := range list {
		if texts[i], ok = element.(string); !ok {
			return "", false
		}
	}
	return strings.Join(texts, ", "), true
}
