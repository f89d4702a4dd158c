package migrations

import (
	"crypto/sha256"
	"database/sql"
	"fmt"
	"io/fs"

	"velocityd/db/engine"
)

// Open gives the tests, which have to stand outside of the package for the sake
// of dbtest, the pool that migrations run on.
func Open(dsn string) (db *sql.DB, name string, err error) { return open(dsn) }

// Digest returns the SHA-256 of what
//
//	cd migrations && sha256sum procedures/*.sql triggers/*.sql views/*.sql retired.txt
//
// prints: all that a marker stands for.
func Digest() (string, error) {
	sum := sha256.New()
	var patterns []string
	for _, folder := range folders() {
		patterns = append(patterns, folder+"/*.sql")
	}
	for _, pattern := range append(patterns, retiredFile) {
		files, err := fs.Glob(texts, pattern)
		if err != nil {
			return "", fmt.Errorf("list %s: %w", pattern, err)
		}
		for _, file := range files {
			content, err := readText(file)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(sum, "%x  %s\n", sha256.Sum256(content), file)
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}

// NewestMarker is the step that installs them.
func NewestMarker() (version int, digest string) { return newestMarker() }

// PortableFits is the answer of the plan for portable tables, or those of MySQL, at a version, if
// these are the steps.
func PortableFits(version uint, isPortable bool, steps ...int) error {
	return found{version: version, isPortable: isPortable}.fits(steps)
}

// PortableText creates a table on an engine.
func PortableText(e engine.Engine, table string) (string, error) {
	tables, err := portableTables(e)
	for _, t := range tables {
		if t.name == table {
			return t.statement, err
		}
	}
	return "", err
}

// PartNames are the kind, table and name of each key and constraint that the steps make.
func PartNames() ([]string, error) {
	list, err := parts()
	names := make([]string, len(list))
	for i, p := range list {
		names[i] = p.kind + " " + p.table + " " + p.name
	}
	return names, err
}
