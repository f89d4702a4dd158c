package migrations

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"velocityd/internal/engine"
)

// group is the tables that belong into one keyspace of Vitess. Elsewhere all are in one database.
type group string

// The groups. Behind vtgate, limits are in the unsharded keyspace that the DSN names, and buckets in
// the sharded one beside it.
const (
	limits  group = "limits"
	buckets group = "buckets"
)

func groupOf(table string) group {
	if slices.Contains([]string{"zone_bucket_lock", "zone_txn", "zone_attempt", "zone_event", "zone_lockout"}, table) {
		return buckets
	}
	return limits
}

// portableTable is one of the tables for engines without procedures.
type portableTable struct {
	name  string
	group group
	// statement creates the table if it is not there. It begins with the text's comment.
	statement string
}

// portableTables returns the tables that an engine needs, in an order in which they can be
// created: those of the steps, and the further ones of the folder portable.
func portableTables(e engine.Engine) (list []portableTable) {
	for _, file := range append(files("portable/*.sql"), files("*.up.sql")...) {
		content := readText(file)
		name := tableName.FindStringSubmatch(content)
		if name == nil || name[1] == sequence && e != Vitess {
			continue
		}
		statement := strings.Replace(own(e, content), "CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ", 1)
		list = append(list, portableTable{name[1], groupOf(name[1]), strings.TrimSpace(statement)})
	}
	slices.SortStableFunc(list, func(a, b portableTable) int { return cmp.Compare(b.group, a.group) }) // limits first
	return list
}

var (
	tableName = regexp.MustCompile(`(?m)^CREATE TABLE (\w+)`)
	onlyOn    = regexp.MustCompile(`^ *-- on ([\w ]+): (.*)$`)
	notOn     = regexp.MustCompile(` -- not on ([\w ]+)`)
)

// own returns the text of a table as Vitess or TiDB gets it. A line with "-- not on" and the engine's
// name behind it is left out. Of a line that begins with "-- on", the name and a colon, the rest is
// SQL. MySQL and MariaDB get the text as it is, because they read such words as comments.
func own(e engine.Engine, text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		isNamed := func(in []string) bool { return in != nil && strings.Contains(strings.ToLower(in[1]), string(e)) }
		only := onlyOn.FindStringSubmatch(line)
		switch {
		case isNamed(only):
			lines = append(lines, only[2])
		case !isNamed(notOn.FindStringSubmatch(line)):
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// Action is one statement of a migration where there are no numbered steps.
type Action struct {
	// Keyspace is the place of the statement: a keyspace of Vitess, or the database.
	Keyspace string
	What     string // "create table zone_txn"
	// Statement is SQL or, if IsVSchema, an ALTER VSCHEMA.
	Statement string
	IsVSchema bool
	// GoesOn says that the statement is carried out again until it changes no more row.
	GoesOn bool
}

// fits returns an error if the plan cannot carry out a step that the database has not seen: it can make tables, rows,
// columns and indexes. In a database that was migrated as MySQL it makes none, because triggers and views come with the
// steps.
func (f found) fits(steps []step) error {
	for _, step := range steps {
		switch {
		case uint(step.version) <= f.version || strings.HasPrefix(step.text, markerStart):
		case !f.isPortable:
			return fmt.Errorf("schema is at version %d: migrate it as MySQL first, by 'velocityd migrate up --engine-mode "+
				"mysql' on the MySQL server itself", f.version)
		case !tableName.MatchString(step.text) && !strings.HasPrefix(step.text, rowForm) && len(step.additions()) == 0:
			return fmt.Errorf("schema is at version %d: step %d changes tables, and this program can carry it out on MySQL "+
				"alone; nothing was changed: go on with the program that has migrated the database", f.version, step.version)
		}
	}
	return nil
}

// additions returns the columns and indexes that a step adds to a table, or none if it does anything else.
func (s step) additions() []part {
	table := alterForm.FindStringSubmatch(comments.ReplaceAllString(s.text, ""))
	added := s.parts()
	isOther := func(p part) bool { return p.kind != "COLUMN" && p.kind != "KEY" }
	if table == nil || len(added) != len(items(table[2])) || slices.ContainsFunc(added, isOther) {
		return nil
	}
	return added
}

// rowForm is the beginning of a step that inserts a row.
const rowForm = "INSERT INTO "
