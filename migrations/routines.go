package migrations

import (
	"context"
	"database/sql"
	"regexp"
	"strings"
	"sync"
)

// retiredFile lists the routines that are to be dropped.
const retiredFile = "retired.txt"

// Routine is one procedure, function, trigger or view: of this program, of the
// database, or of both.
type Routine struct {
	Kind, Name string // PROCEDURE, FUNCTION, TRIGGER or VIEW
	Owner      string // the account with whose rights it runs; empty if it is not in the database
	State      RoutineState
}

// RoutineState is how a routine of the database stands to this program.
type RoutineState string

// The states of a routine.
const (
	Current RoutineState = "current" // the text of this program
	Differs RoutineState = "differs" // another text, or a text hidden from the account
	Missing RoutineState = "missing" // not in the database, or hidden from the account
	Retired RoutineState = "retired" // in the database, and no longer of use
)

// String names the routine: "procedure check_velocity".
func (r Routine) String() string { return strings.ToLower(r.Kind) + " " + r.Name }

// IsCallable says that the routine is a procedure or a function.
func (r Routine) IsCallable() bool { return r.Kind == "PROCEDURE" || r.Kind == "FUNCTION" }

// text is the current text of one routine.
type text struct {
	kind, name string
	isPublic   bool   // a procedure that is for callers, by its COMMENT
	table      string // a trigger's
	statement  string
}

var (
	creation = regexp.MustCompile(`(?m)^CREATE (?:/\*M! OR REPLACE \*/ (PROCEDURE|FUNCTION|TRIGGER)|` +
		`OR REPLACE SQL SECURITY DEFINER (VIEW)) ([a-z0-9_]+)`)
	triggerTable = regexp.MustCompile(`(?m)^(?:BEFORE|AFTER) (?:INSERT|UPDATE|DELETE) ON ([a-z0-9_]+)$`)
)

// folders hold the current texts, in the order of their installation: procedures come before the triggers
// that call them.
func folders() []string { return []string{"procedures", "triggers", "views"} }

// current returns the current texts.
//
//nolint:gochecknoglobals // read once from the texts of this program, which never change
var current = sync.OnceValue(func() (list []text) {
	for _, folder := range folders() {
		for _, file := range files(folder + "/*.sql") {
			list = append(list, parseText(readText(file)))
		}
	}
	return list
})

// Expected returns the routines that this program installs.
func Expected() (routines []Routine) {
	for _, t := range current() {
		routines = append(routines, t.routine())
	}
	return routines
}

func (t text) routine() Routine { return Routine{Kind: t.kind, Name: t.name, State: Current} }

// PublicProcedures returns the procedures whose COMMENT says that they are for callers.
func PublicProcedures() (names []string) {
	for _, t := range current() {
		if t.isPublic {
			names = append(names, t.name)
		}
	}
	return names
}

var calls = regexp.MustCompile(`\b([a-z0-9_]+)\s*\(`)

// Through returns the procedures and functions that are called by some routines, and by the triggers of some tables.
// Routines that are named are among them.
func Through(names ...string) (through []Routine) {
	found := map[string]bool{}
	var follow func(name string)
	follow = func(name string) {
		for _, t := range current() {
			if found[t.name] || t.name != name && t.table != name {
				continue
			}
			found[t.name] = true
			for _, call := range calls.FindAllStringSubmatch(comments.ReplaceAllString(t.statement, ""), -1) {
				follow(call[1])
			}
		}
	}
	for _, name := range names {
		follow(name)
	}
	for _, t := range current() {
		if r := t.routine(); found[t.name] && r.IsCallable() {
			through = append(through, r)
		}
	}
	return through
}

// parseText reads the text of a routine, whose form a test holds.
func parseText(content string) text {
	t := text{statement: content, isPublic: strings.Contains(content, "\nCOMMENT 'public: ")}
	head := creation.FindStringSubmatch(content)
	t.kind, t.name = head[1]+head[2], head[3]
	if on := triggerTable.FindStringSubmatch(content); t.kind == "TRIGGER" {
		t.table = on[1]
	}
	return t
}

// retired returns the kinds and names of retiredFile.
func retired() (list []Routine) {
	for line := range strings.Lines(readText(retiredFile)) {
		if words := strings.Fields(line); len(words) == 2 && !strings.HasPrefix(line, "#") {
			list = append(list, Routine{Kind: words[0], Name: words[1]})
		}
	}
	return list
}

// is says that both are the same routine, even with different texts.
func (r Routine) is(other Routine) bool { return r.Kind == other.Kind && r.Name == other.Name }

// query hands each row of a result to scan.
func query(ctx context.Context, conn *sql.Conn, scan func(*sql.Rows) error, statement string) error {
	rows, err := conn.QueryContext(ctx, statement)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// compare returns the routines of this program, in the order of their installation, and then the retired
// ones that the database still has. If several accounts own routines, only those of the asking account are
// current.
func compare(have Schema) (list []Routine) {
	for _, t := range current() {
		r := Routine{Kind: t.kind, Name: t.name, State: Missing}
		if found, is := have.find(t.kind, "", t.name); is {
			r.Owner, r.State = found.Definer, Differs
			if have.keeps(found, t) && (r.Owner == have.account || !have.isShared()) {
				r.State = Current
			}
		}
		list = append(list, r)
	}
	for _, r := range retired() {
		if found, is := have.find(r.Kind, "", r.Name); is {
			list = append(list, Routine{Kind: r.Kind, Name: r.Name, Owner: found.Definer, State: Retired})
		}
	}
	return list
}
