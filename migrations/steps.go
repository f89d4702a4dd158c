package migrations

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/golang-migrate/migrate/v4/database"
)

//go:embed *.sql procedures/*.sql triggers/*.sql views/*.sql retired.txt portable/*.sql
var texts embed.FS

// none is golang-migrate's version of a schema without any step.
const none = database.NilVersion

// Programs before 0.1.0 numbered their steps otherwise. Databases of theirs have this version
// or a higher one, and their tables are not those of a step.
const firstUnreleased = 46

// ErrForeign says that a database has not the tables of this program's steps.
var ErrForeign = errors.New("another version of velocityd has made this database")

// RefuseUnreleased returns an ErrForeign for a database that a program before 0.1.0 has made.
func RefuseUnreleased(version uint) error {
	if version < firstUnreleased {
		return nil
	}
	return fmt.Errorf("%w: it is at version %d, as programs before 0.1.0 numbered their steps, and cannot "+
		"be migrated; make a new database", ErrForeign, version)
}

// markerStart begins the text of a step that stands for the procedures and
// triggers: the digest of their texts follows.
const markerStart = "-- routines sha256: "

// step is the way up of a numbered step.
type step struct {
	version int
	text    string
}

// steps returns the steps, in order. A test compares the names of all files with their form.
//
//nolint:gochecknoglobals // read once from the texts of this program, which never change
var steps = sync.OnceValue(func() (list []step) {
	for _, file := range files("*.up.sql") {
		version, _ := strconv.Atoi(file[:len("000001")])
		list = append(list, step{version, readText(file)})
	}
	return list
})

// files returns the embedded files of a pattern, by name. The pattern is a constant, so it cannot be a wrong one.
func files(pattern string) []string {
	list, _ := fs.Glob(texts, pattern)
	return list
}

// readText reads an embedded file with the line ends of Unix.
func readText(file string) string {
	content, _ := texts.ReadFile(file) // it is part of the program
	return strings.ReplaceAll(string(content), "\r\n", "\n")
}

// Latest returns the version that this program needs.
func Latest() uint {
	return uint(steps()[len(steps())-1].version)
}

// newestMarker returns the version of the step that installs the procedures and
// triggers, and the digest that it names.
func newestMarker() (version int, digest string) {
	for _, s := range slices.Backward(steps()) {
		if digest, ok := markerDigest(s.text); ok {
			return s.version, digest
		}
	}
	return none, ""
}

// isMarker says that a version is a marker's.
func isMarker(version int) bool {
	return slices.ContainsFunc(
		steps(), func(s step) bool { return s.version == version && strings.HasPrefix(s.text, markerStart) })
}

// markerDigest returns the digest that a step's text names, if it is a marker's.
func markerDigest(text string) (digest string, ok bool) {
	rest, ok := strings.CutPrefix(text, markerStart)
	first, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(first), ok
}

// before returns the version before a step; for the first step it is none.
func before(version int) int {
	earlier := none
	for _, s := range steps() {
		if s.version < version {
			earlier = s.version
		}
	}
	return earlier
}

// after returns the version that the next step leads to, if there is one.
func after(version int) (next int, ok bool) {
	at := slices.IndexFunc(steps(), func(s step) bool { return s.version > version })
	if at < 0 {
		return 0, false
	}
	return steps()[at].version, true
}
