package migrations

import (
	"fmt"
	"regexp"
	"strings"
)

// part is a column, key or constraint of a table, by the table's text.
type part struct {
	step              int // that makes it
	kind, table, name string
	definition        string // for ALTER TABLE … ADD
	want              []string
}

var (
	tableForm = regexp.MustCompile(`(?s)CREATE TABLE (\w+) \((.*)\) ENGINE`)
	alterForm = regexp.MustCompile(`(?s)^\s*ALTER TABLE (\w+)\s(.*)$`)
	keyForm   = regexp.MustCompile(`^(PRIMARY |UNIQUE |)KEY (\w*) ?\((.*)\)$`)
	checkForm = regexp.MustCompile("^CONSTRAINT `?([^`]*?)`?\\s+(CHECK|FOREIGN KEY) (.*)$")
)

// parts returns the columns, keys and constraints of all tables, by their steps.
func parts() (list []part) {
	for _, s := range steps() {
		list = append(list, s.parts()...)
	}
	return list
}

// parts returns the columns, keys and constraints that a step makes or adds.
func (s step) parts() (list []part) {
	text := comments.ReplaceAllString(s.text, "")
	if table := tableForm.FindStringSubmatch(text); table != nil {
		for _, item := range items(table[2]) {
			list = append(list, partOf(s.version, table[1], words(item)))
		}
	}
	if table := alterForm.FindStringSubmatch(text); table != nil {
		for _, item := range items(table[2]) {
			definition, isAdded := strings.CutPrefix(words(item), "ADD ")
			if definition = strings.TrimPrefix(definition, "COLUMN "); isAdded {
				list = append(list, partOf(s.version, table[1], definition))
			}
		}
	}
	return list
}

// partOf reads the definition of a part.
func partOf(step int, table, definition string) part {
	p := part{step: step, table: table, definition: definition}
	if key := keyForm.FindStringSubmatch(definition); key != nil {
		p.kind, p.name = "KEY", key[2]
		if key[1] == "PRIMARY " {
			p.name = "PRIMARY"
		}
		for column := range strings.SplitSeq(key[3], ", ") {
			if key[1] != "" {
				column = "UNIQUE " + column
			}
			p.want = append(p.want, column)
		}
	} else if rule := checkForm.FindStringSubmatch(definition); rule != nil {
		p.kind, p.name = rule[2], rule[1]
		p.want = []string{""}
		if p.kind == "CHECK" {
			p.want[0] = literalsOf(rule[3])
		}
	} else {
		name, _, _ := strings.Cut(definition, " ")
		p.kind, p.name = "COLUMN", strings.Trim(name, "`")
	}
	return p
}

// items cuts the inside of CREATE TABLE at the commas that are in no parenthesis and no quotes.
func items(inside string) []string {
	var list []string
	depth, begin, quote := 0, 0, byte(0)
	for i := range len(inside) {
		switch c := inside[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '`':
			quote = c
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			list = append(list, inside[begin:i])
			begin = i + 1
		}
	}
	return append(list, inside[begin:])
}

// refuseForeign returns an ErrForeign if a step up to a version makes a column that the database
// lacks: before 0.1.0 steps changed in their place.
func refuseForeign(version int, lacks func(table, column string) bool) error {
	for _, p := range parts() {
		if p.kind == "COLUMN" && p.step <= version && lacks(p.table, p.name) {
			return fmt.Errorf("%w: it is at version %d, and has no column %s in a table %s; make a new database, or see what "+
				"else differs by 'velocityd doctor'", ErrForeign, version, p.name, p.table)
		}
	}
	return nil
}
