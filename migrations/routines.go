package migrations

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
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
func current() ([]text, error) {
	var list []text
	for _, folder := range folders() {
		files, err := fs.Glob(texts, folder+"/*.sql")
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", folder, err)
		}
		for _, file := range files {
			content, err := readText(file)
			if err != nil {
				return nil, err
			}
			t, err := parseText(file, content)
			if err != nil {
				return nil, err
			}
			list = append(list, t)
		}
	}
	return list, nil
}

// Expected returns the routines that this program installs.
func Expected() ([]Routine, error) {
	list, err := current()
	if err != nil {
		return nil, err
	}
	routines := make([]Routine, len(list))
	for i, t := range list {
		routines[i] = Routine{Kind: t.kind, Name: t.name, State: Current}
	}
	return routines, nil
}

// PublicProcedures returns the procedures whose COMMENT says that they are for callers.
func PublicProcedures() []string {
	list, err := current()
	if err != nil {
		return nil // the texts are part of the program, and a test reads them all
	}
	var names []string
	for _, t := range list {
		if t.isPublic {
			names = append(names, t.name)
		}
	}
	return names
}

var calls = regexp.MustCompile(`\b([a-z0-9_]+)\s*\(`)

// Through returns the procedures and functions that are called by some routines, and by the triggers of some tables. Routines that
// are named are among them.
func Through(names ...string) []Routine {
	list, err := current()
	if err != nil {
		return nil // the texts are part of the program, and a test reads them all
	}
	found := map[string]bool{}
	var follow func(name string)
	follow = func(name string) {
		for _, t := range list {
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
	var through []Routine
	for _, t := range list {
		if r := (Routine{Kind: t.kind, Name: t.name, State: Current}); found[t.name] && r.IsCallable() {
			through = append(through, r)
		}
	}
	return through
}

// readText reads an embedded text with the line ends of Unix.
func readText(file string) ([]byte, error) {
	content, err := fs.ReadFile(texts, file)
	if err != nil {
		return nil, fmt.Errorf("read text: %w", err)
	}
	return bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n")), nil
}

func parseText(file string, content []byte) (text, error) {
	t := text{statement: string(content)}
	head := creation.FindSubmatch(content)
	if head == nil || string(head[3])+".sql" != path.Base(file) {
		return text{}, fmt.Errorf("%s does not create what it is named after", file)
	}
	t.kind, t.name = string(head[1])+string(head[2]), string(head[3])
	t.isPublic = bytes.Contains(content, []byte("\nCOMMENT 'public: "))
	if t.kind == "TRIGGER" {
		on := triggerTable.FindSubmatch(content)
		if on == nil {
			return text{}, fmt.Errorf("%s does not say which table its trigger is on", file)
		}
		t.table = string(on[1])
	}
	return t, nil
}

// retired returns the kinds and names of retiredFile.
func retired() ([]Routine, error) {
	content, err := readText(retiredFile)
	if err != nil {
		return nil, err
	}
	var list []Routine
	lines := bufio.NewScanner(bytes.NewReader(content))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 0 || strings.HasPrefix(words[0], "#"):
		case len(words) != 2:
			return nil, fmt.Errorf("%s: %q is not a kind and a name", retiredFile, lines.Text())
		default:
			list = append(list, Routine{Kind: words[0], Name: words[1]})
		}
	}
	return list, lines.Err()
}

// is says that both are the same routine, whatever their texts.
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
func compare(have Schema) ([]Routine, error) {
	want, err := current()
	if err != nil {
		return nil, err
	}
	gone, err := retired()
	if err != nil {
		return nil, err
	}
	list := make([]Routine, 0, len(want))
	for _, t := range want {
		r := Routine{Kind: t.kind, Name: t.name, State: Missing}
		if found, is := have.find(t.kind, "", t.name); is {
			r.Owner, r.State = found.Definer, Differs
			if have.keeps(found, t) && (r.Owner == have.account || !have.isShared()) {
				r.State = Current
			}
		}
		list = append(list, r)
	}
	for _, r := range gone {
		if found, is := have.find(r.Kind, "", r.Name); is {
			list = append(list, Routine{Kind: r.Kind, Name: r.Name, Owner: found.Definer, State: Retired})
		}
	}
	return list, nil
}
