package migrations

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"github.com/golang-migrate/migrate/v4/database"
)

//go:embed *.sql procedures/*.sql triggers/*.sql views/*.sql retired.txt portable/*.sql
var texts embed.FS

// none is golang-migrate's version of a schema without any step.
const none = database.NilVersion

// Programs before the first release numbered their steps otherwise. Databases of theirs have this version
// or a higher one, and their tables are not those of a step.
const firstUnreleased = 46

// ErrForeign says that a database has not the tables of this program's steps.
var ErrForeign = errors.New("another version of velocityd has made this database")

// RefuseUnreleased returns an ErrForeign for a database that a program before the first release has made.
func RefuseUnreleased(version uint) error {
	if version < firstUnreleased {
		return nil
	}
	return fmt.Errorf("%w: it is at version %d, as programs before the first release numbered their steps, and cannot be migrated; "+
		"make a new database", ErrForeign, version)
}

// markerStart begins the text of a step that stands for the procedures and
// triggers: the digest of their texts follows.
const markerStart = "-- routines sha256: "

// files returns the way up of each step, by name.
func files(number string) []string {
	list, err := fs.Glob(texts, number+"_*.up.sql")
	if err != nil {
		return nil // the patterns are constants, so never
	}
	return list
}

// steps returns the versions of the steps, in order.
func steps() []int {
	var versions []int
	for _, file := range files("*") {
		versions = append(versions, stepOf(file))
	}
	return versions
}

// stepOf returns the version that a file's name begins with. A test holds all names against their form.
func stepOf(file string) int {
	version, _ := strconv.Atoi(file[:len("000001")])
	return version
}

// stepText returns the text of one step's way up.
func stepText(version int) ([]byte, error) {
	found := files(fmt.Sprintf("%06d", version))
	if len(found) != 1 {
		return nil, fmt.Errorf("find migration %d: %w", version, fs.ErrNotExist)
	}
	text, err := fs.ReadFile(texts, found[0])
	if err != nil {
		return nil, fmt.Errorf("read migration %d: %w", version, err)
	}
	return text, nil
}

// Latest returns the version that this program needs.
func Latest() uint {
	versions := steps()
	return uint(versions[len(versions)-1])
}

// newestMarker returns the version of the step that installs the procedures and
// triggers, and the digest that it names.
func newestMarker() (version int, digest string) {
	for _, version := range slices.Backward(steps()) {
		if digest, ok := markerAt(version); ok {
			return version, digest
		}
	}
	return none, ""
}

// isMarker says that a version is a marker's.
func isMarker(version int) bool {
	_, ok := markerAt(version)
	return ok
}

// markerAt returns the digest that a step names, if it is a marker.
func markerAt(version int) (digest string, ok bool) {
	text, err := stepText(version)
	if err != nil {
		return "", false
	}
	return markerDigest(text)
}

// markerDigest returns the digest that a step's text names, if it is a marker's.
func markerDigest(text []byte) (digest string, ok bool) {
	rest, ok := bytes.CutPrefix(text, []byte(markerStart))
	if !ok {
		return "", false
	}
	first, _, _ := bytes.Cut(rest, []byte("\n"))
	return string(bytes.TrimSpace(first)), true
}

// before returns the version before a step; for the first step it is none.
func before(version int) int {
	versions := steps()
	at, _ := slices.BinarySearch(versions, version)
	if at == 0 {
		return none
	}
	return versions[at-1]
}

// after returns the version that the next step leads to, if there is one.
func after(version int) (next int, ok bool) {
	versions := steps()
	at, found := slices.BinarySearch(versions, version)
	if found {
		at++
	}
	if at == len(versions) {
		return 0, false
	}
	return versions[at], true
}
