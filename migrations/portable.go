package migrations

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// The folders of the portable tables. Behind vtgate, limitsFolder is the unsharded keyspace that the DSN
// names, and bucketsFolder the sharded one beside it. Elsewhere all tables are in one database.
const (
	limitsFolder  = "limits"
	bucketsFolder = "buckets"
	vitessFolder  = "vitess" // behind vtgate alone; in the unsharded keyspace
)

// portableTable is one of the tables for engines without procedures.
type portableTable struct {
	name, folder string
	// statement creates the table if it is not there. It begins with the file's comment.
	statement string
}

// unsharded finds the parts of a portable text for engines without shards. For vtgate they are comments.
var unsharded = regexp.MustCompile(`/\*U! (.*?) \*/`)

// portableTables returns the tables that an engine needs, in the order in which they can be
// created: zone_override refers to zone_master, which comes before it by its name.
func portableTables(e Engine) ([]portableTable, error) {
	folders := []string{limitsFolder, bucketsFolder}
	if e == Vitess {
		folders = []string{limitsFolder, vitessFolder, bucketsFolder}
	}
	var list []portableTable
	for _, folder := range folders {
		files, err := fs.Glob(texts, path.Join("portable", folder, "*.sql"))
		if err != nil {
			return nil, fmt.Errorf("list portable tables: %w", err)
		}
		for _, file := range files {
			content, err := readText(file)
			if err != nil {
				return nil, err
			}
			statement := strings.TrimSpace(string(content))
			if e != Vitess {
				statement = unsharded.ReplaceAllString(statement, "$1")
			}
			list = append(list, portableTable{strings.TrimSuffix(path.Base(file), ".sql"), folder, statement})
		}
	}
	return list, nil
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

// The plan for Vitess and TiDB can upgrade existing tables up to this step. When you add a step that
// changes a table, teach the plan first, then raise this number.
const plannedStep = 10

// tableSteps returns the numbered steps that change tables, in order: all but those that install
// procedures.
func tableSteps() []int { return slices.DeleteFunc(steps(), isMarker) }

// fits returns an error if one of the steps that change tables must be carried out on the
// database and cannot be: a step is for MySQL alone.
func (f found) fits(steps []int) error {
	for _, step := range steps {
		switch {
		case uint(step) <= f.version:
		case !f.isPortable:
			return fmt.Errorf("schema is at version %d: migrate it as MySQL first, by 'velocityd migrate up --engine-mode mysql' "+
				"on the MySQL server itself", f.version)
		case step > plannedStep:
			return fmt.Errorf("schema is at version %d: step %d changes tables, and this program can carry it out on MySQL alone; "+
				"nothing was changed: go on with the program that has migrated the database", f.version, step)
		}
	}
	return nil
}
