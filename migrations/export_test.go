package migrations

import (
	"crypto/sha256"
	"database/sql"
	"fmt"
	"slices"

	"velocityd/internal/engine"
)

// Open gives the tests, which have to stand outside of the package for the sake
// of dbtest, the pool that migrations run on.
func Open(dsn string) (db *sql.DB, name string, err error) { return open(dsn) }

// Digest returns the SHA-256 of what
//
//	cd migrations && sha256sum procedures/*.sql triggers/*.sql views/*.sql retired.txt
//
// prints: all that a marker stands for.
func Digest() string {
	sum := sha256.New()
	for _, folder := range append(folders(), "") {
		pattern := folder + "/*.sql"
		if folder == "" {
			pattern = retiredFile
		}
		for _, file := range files(pattern) {
			fmt.Fprintf(sum, "%x  %s\n", sha256.Sum256([]byte(readText(file))), file)
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// NewestMarker is the step that installs them.
func NewestMarker() (version int, digest string) { return newestMarker() }

// PortableFits is the answer of the plan for portable tables, or those of MySQL, at a version, if
// these are the steps.
func PortableFits(version uint, isPortable bool, versions ...int) error {
	var some []step
	for _, version := range versions {
		s := step{version: version}
		if at := slices.IndexFunc(steps(), func(s step) bool { return s.version == version }); at >= 0 {
			s = steps()[at]
		}
		some = append(some, s)
	}
	return found{version: version, isPortable: isPortable}.fits(some)
}

// PortableText creates a table on an engine.
func PortableText(e engine.Engine, table string) string {
	for _, t := range portableTables(e) {
		if t.name == table {
			return t.statement
		}
	}
	return ""
}

// PartNames are the kind, table and name of each key and constraint that the steps make.
func PartNames() (names []string) {
	for _, p := range parts() {
		names = append(names, p.kind+" "+p.table+" "+p.name)
	}
	return names
}

// Own is the text of a table as an engine gets it.
func Own(e engine.Engine, text string) string { return own(e, text) }
