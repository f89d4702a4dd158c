package migrations

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Described is a row of describe_schema: something that a database has, as the engine keeps it.
type Described struct {
	Kind    string // PROCEDURE, FUNCTION, PARAMETER, TRIGGER, VIEW, COLUMN, KEY, CHECK or FOREIGN KEY
	Name    string
	Table   string // of a trigger, key or constraint
	Definer string // of a routine, as user@host
	Text    string
}

// Schema is all that describe_schema has found.
type Schema struct {
	Rows      []Described
	IsMariaDB bool
	account   string // that has asked, if it may own routines
}

// isShared says that several accounts own routines, and that one has asked that may own them all.
func (s Schema) isShared() bool {
	first := slices.IndexFunc(s.Rows, func(d Described) bool { return d.Definer != "" })
	return s.account != "" && slices.ContainsFunc(s.Rows, func(d Described) bool {
		return d.Definer != "" && d.Definer != s.Rows[first].Definer
	})
}

// SchemaOf reads the rows of describe_schema.
func SchemaOf(rows [][]string, isMariaDB bool) Schema {
	s := Schema{IsMariaDB: isMariaDB}
	for _, row := range rows {
		s.Rows = append(s.Rows, Described{Kind: row[0], Name: row[1], Table: row[2], Definer: row[3], Text: row[4]})
	}
	return s
}

// Fault is something in a database that is not as this program makes it.
type Fault struct {
	Is string // the finding
	Do string // its cure
}

// find returns the object with a name. An empty table matches every table.
func (s Schema) find(kind, table, name string) (found Described, is bool) {
	at := slices.IndexFunc(s.Rows, func(d Described) bool {
		return d.Kind == kind && d.Name == name && (table == "" || d.Table == table)
	})
	if at < 0 {
		return Described{}, false
	}
	return s.Rows[at], true
}

var (
	comments    = regexp.MustCompile(`(?m) *-- .*$`)
	othersWords = regexp.MustCompile(`(?s)/\*.*?\*/`) // the parts for other engines in the text of one
	forMariaDB  = regexp.MustCompile(`(?s)/\*M! (.*?) \*/`)
	forMySQL    = regexp.MustCompile(`(?s)/\*!\d{5} (.*?) \*/`)
	routineHead = regexp.MustCompile(
		`(?s)\nCOMMENT '(.*?)'\n(?:DETERMINISTIC\n)?SQL SECURITY (\w+)\n([A-Z ]+)\n(BEGIN\n.*)`)
	parameters   = regexp.MustCompile(`(?s)^[^(]*\((.*?)\)\n(?:(RETURNS [^\n]*)\n)?COMMENT `)
	triggerHead  = regexp.MustCompile(`(?s)\n((?:BEFORE|AFTER) [^\n]*)\nFOR EACH ROW\n(BEGIN\n.*)`)
	viewForm     = regexp.MustCompile(`(?s)SQL SECURITY (\w+) VIEW .*\(SELECT (.*?)\s+FROM (.*)\) AS (\w+)`)
	literals     = regexp.MustCompile(`'[^']*'|\b[0-9]+\b`)
	viewAddition = regexp.MustCompile("`[^`]*`\\.| as `[^`]*`|`")
)

// words is a text whose blanks and line ends do not matter.
func words(s string) string { return strings.Join(strings.Fields(s), " ") }

// keeps says that the database has the routine of a text.
func (s Schema) keeps(d Described, t text) bool {
	statement := s.own(t.statement)
	form := routineHead
	switch t.kind {
	case "TRIGGER":
		form = triggerHead
	case "VIEW":
		return viewText(statement) == keptView(d.Text)
	}
	if t.kind != "TRIGGER" && !s.keepsParameters(t.name, statement) {
		return false
	}
	parts := form.FindStringSubmatch(statement)
	unescaped := strings.NewReplacer(`\\`, `\`, "''", "'") // engines show a literal as it is or as it was written
	return parts != nil && words(unescaped.Replace(strings.Join(parts[1:], " "))) == words(unescaped.Replace(d.Text))
}

// own returns a statement as the engine reads it: parts for another kind of engine become comments.
func (s Schema) own(statement string) string {
	if s.IsMariaDB {
		return forMariaDB.ReplaceAllString(forMySQL.ReplaceAllString(statement, " "), " $1 ")
	}
	return forMySQL.ReplaceAllString(statement, " $1 ")
}

// keepsParameters says that a routine of the database has the parameters of its statement.
func (s Schema) keepsParameters(name, statement string) bool {
	parts := parameters.FindStringSubmatch(statement)
	if parts == nil {
		return false
	}
	want := append([]string{parts[2]}, items(comments.ReplaceAllString(parts[1], ""))...) // the engine's order
	want = slices.DeleteFunc(want, func(definition string) bool { return definition == "" })
	var have []string
	for _, d := range s.Rows {
		if d.Kind == "PARAMETER" && d.Name == name {
			have = append(have, d.Text)
		}
	}
	return slices.EqualFunc(have, want, s.defines)
}

var (
	definition = regexp.MustCompile(`^(?:in )?((?:(?:in)?out )?\w+) (\w+(?:\([^)]*\))?(?: unsigned)?)` +
		`(?: character set (\w+))?(?: collate (\w+))?(.*)$`)
	intWidth = regexp.MustCompile(`int\(\d+\)`)
)

// defines says that a column or parameter of the database has a definition. A character set or collation
// that the definition does not name is the server's choice.
func (s Schema) defines(have, want string) bool {
	is, wanted := definition.FindStringSubmatch(canonical(have)), definition.FindStringSubmatch(canonical(s.own(want)))
	if is == nil || wanted == nil {
		return false
	}
	for i, part := range wanted[1:] {
		if part != is[i+1] && (part != "" || i != 2 && i != 3) {
			return false
		}
	}
	return true
}

// canonical returns a definition in words that are the same for all engines, with the literals of
// expressions.
func canonical(definition string) string {
	text, _, _ := strings.Cut(strings.ToLower(words(othersWords.ReplaceAllString(definition, ""))), " comment '")
	if before, expression, isGenerated := strings.Cut(text, " as ("); isGenerated {
		text = before + " as " + literalsOf(expression)
	}
	dialects := strings.NewReplacer("boolean", "tinyint", "json", "longtext", "false", "0", "(utc_timestamp(6))",
		"utc_timestamp(6)",
		" null default null", "", " default null", "", " 00:00:00.000000", "", ", ", ",", "'", "", "`", "")
	text = intWidth.ReplaceAllString(dialects.Replace(text), "int")
	if !strings.HasSuffix(text, " not null") {
		text = strings.TrimSuffix(text, " null")
	}
	return strings.TrimSpace(text)
}

// viewText is a view's text as keptView has it. CONTRIBUTING has the one form of views.
func viewText(statement string) string {
	parts := viewForm.FindStringSubmatch(statement)
	if parts == nil {
		return ""
	}
	var names, values []string
	for _, column := range items(words(strings.ReplaceAll(parts[2], "`", ""))) {
		value, name, isNamed := strings.Cut(column, " AS ")
		if !isNamed {
			name = value
		}
		names, values = append(names, name), append(values, value)
	}
	return plainly(fmt.Sprintf("%s select %s from (select %s from %s) %s",
		parts[1], strings.Join(names, ","), strings.Join(values, ","), parts[3], parts[4]))
}

// keptView returns a view's text without the additions of engines: quotes, the names of the database and of
// the table before each column, and the name of each column behind it.
func keptView(text string) string {
	return plainly(viewAddition.ReplaceAllString(strings.ToLower(words(text)), ""))
}

// plainly is a view's text in small letters, without blanks and parentheses, which engines set as they like.
func plainly(text string) string {
	return strings.NewReplacer(" ", "", "\n", "", "(", "", ")", "").Replace(strings.ToLower(text))
}

func describe(ctx context.Context, conn *sql.Conn) (s Schema, err error) {
	var version string
	if err := conn.QueryRowContext(ctx, "SELECT VERSION(), CURRENT_USER()").Scan(&version, &s.account); err != nil {
		return s, fmt.Errorf("read engine version and account: %w", err)
	}
	s.IsMariaDB = strings.Contains(version, "MariaDB")
	_, body, _ := strings.Cut(readText("procedures/describe_schema.sql"), "\n  SELECT ")
	statement, _, _ := strings.Cut(body, ";")
	err = query(ctx, conn, func(rows *sql.Rows) error {
		var d Described
		var place int
		if err := rows.Scan(&d.Kind, &d.Name, &d.Table, &d.Definer, &d.Text, &place); err != nil {
			return err
		}
		s.Rows = append(s.Rows, d)
		return nil
	}, "SELECT "+statement)
	if err != nil {
		return s, fmt.Errorf("look at the schema: %w", err)
	}
	return s, nil
}

// Faults returns the parts of this program's schema that a database lacks, that differ there, or that run
// with the rights of another account than the rest.
func (s Schema) Faults() (list []Fault) {
	routines := compare(s)
	const up = "run 'velocityd migrate up' as the owner of the schema"
	for _, r := range routines {
		switch r.State {
		case Missing:
			list = append(list, Fault{r.String() + " is missing", up})
		case Differs:
			list = append(list, Fault{r.String() + " has another text than this program's", up})
		case Retired:
			list = append(list, Fault{r.String() + " is of no use any more", up})
		}
	}
	for _, d := range s.Rows {
		is := func(r Routine) bool { return r.Kind == d.Kind && r.Name == d.Name }
		if d.Kind == "TRIGGER" && !slices.ContainsFunc(routines, is) {
			list = append(list, Fault{
				"trigger " + d.Name + " on " + d.Table + " is not this program's, and can change what is recorded",
				"run DROP TRIGGER `" + d.Name + "`",
			})
		}
	}
	if owners := owners(routines); len(owners) > 1 {
		list = append(list, Fault{
			"procedures, triggers and views run with the rights of several accounts: " + strings.Join(owners, ", "),
			"run 'velocityd migrate up' as the one of them that is to own all, which makes the others' anew",
		})
	}
	for _, p := range parts() {
		if f, is := s.faultOf(p); is {
			list = append(list, f)
		}
	}
	return list
}

// owners returns the accounts with whose rights routines run; the account with the fewest routines comes
// first.
func owners(routines []Routine) []string {
	number := map[string]int{}
	for _, r := range routines {
		if r.Owner != "" {
			number[r.Owner]++
		}
	}
	return slices.SortedFunc(maps.Keys(number), func(a, b string) int {
		return cmp.Or(cmp.Compare(number[a], number[b]), cmp.Compare(a, b))
	})
}

// faultOf says how a column, key or constraint of the database differs from this program's.
func (s Schema) faultOf(p part) (f Fault, is bool) {
	var have []string
	for _, d := range s.Rows {
		if d.Kind != p.kind || d.Table != p.table || d.Name != p.name {
			continue
		}
		switch p.kind {
		case "CHECK":
			d.Text = literalsOf(d.Text)
		case "COLUMN":
			if s.defines(d.Name+" "+d.Text, p.definition) {
				return Fault{}, false
			}
		}
		have = append(have, d.Text)
	}
	if p.kind != "COLUMN" && slices.Equal(have, p.want) {
		return Fault{}, false
	}
	drop, name := "DROP CONSTRAINT `"+p.name+"`", "constraint `"+p.name+"`"
	change := "run ALTER TABLE " + p.table + " "
	switch p.kind {
	case "COLUMN":
		if have == nil {
			return Fault{p.table + " has no column " + p.name, change + "ADD " + p.definition}, true
		}
		return Fault{
			p.table + " has another column " + p.name + " than this program makes",
			change + "MODIFY " + p.definition,
		}, true
	case "KEY":
		drop, name = "DROP INDEX "+p.name, "index "+p.name
		if p.name == "PRIMARY" {
			drop, name = "DROP PRIMARY KEY", "primary key"
		}
	}
	f = Fault{p.table + " has another " + name + " than this program makes", change + drop + ", ADD " + p.definition}
	switch {
	case strings.HasSuffix(strings.Join(have, ""), " INVISIBLE"):
		f.Do = change + "ALTER INDEX " + p.name + " VISIBLE"
	case strings.HasSuffix(strings.Join(have, ""), " IGNORED"):
		f.Do = change + "ALTER INDEX " + p.name + " NOT IGNORED"
	case have == nil:
		f = Fault{p.table + " has no " + name, change + "ADD " + p.definition}
	}
	return f, true
}

// literalsOf returns the literals of a CHECK, in order. Engines rewrite a CHECK, but not its literals.
func literalsOf(check string) string {
	text := strings.Join(literals.FindAllString(strings.ReplaceAll(check, `\'`, "'"), -1), " ")
	if strings.HasPrefix(check, "not enforced ") {
		return "not enforced " + text
	}
	return text
}

// lacks says that a column is not there.
func (s Schema) lacks(table, column string) bool {
	_, is := s.find("COLUMN", table, column)
	return !is
}
