package migrations

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"

	"github.com/golang-migrate/migrate/v4/database"
)

//go:embed *.sql earlier/*.sql procedures/*.sql triggers/*.sql views/*.sql retired.txt portable/*/*.sql
var texts embed.FS

// none is golang-migrate's version of a schema without any step.
const none = database.NilVersion

// The steps were squashed into their present form twice, before the first release. Databases of
// earlier versions are brought up by the steps in adoptionFolder, after which their tables are
// those of version adoptedAs. Versions 1 to 46 are of the first form, and of them only the last can
// be brought up. Those from 101 on are of the second: 107 was the first with all tables but
// access_token, which came with version 115 and is the last table now.
const (
	beforeSquash   = 46
	adoptionFolder = "earlier"
	firstWhole     = 107
	withTokens     = 115
	adoptedAs      = 207
)

// markerStart begins the text of a step that stands for the procedures and
// triggers: the digest of their texts follows.
const markerStart = "-- routines sha256: "

// files returns the way up of each step in a folder, by name.
func files(folder, number string) []string {
	list, err := fs.Glob(texts, path.Join(folder, number+"_*.up.sql"))
	if err != nil {
		return nil // the patterns are constants, so never
	}
	return list
}

// steps returns the versions of the steps in a folder, in order. They need not
// begin at 1.
func steps(folder string) []int {
	var versions []int
	for _, file := range files(folder, "*") {
		if version, err := strconv.Atoi(path.Base(file)[:len("000201")]); err == nil {
			versions = append(versions, version)
		}
	}
	return versions
}

// stepText returns the text of one step's way up.
func stepText(folder string, version int) ([]byte, error) {
	found := files(folder, fmt.Sprintf("%06d", version))
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
	versions := steps(".")
	return uint(versions[len(versions)-1])
}

// newestMarker returns the version of the step that installs the procedures and
// triggers, and the digest that it names.
func newestMarker() (version int, digest string) {
	for _, version := range slices.Backward(steps(".")) {
		if digest, ok := markerAt(version); ok {
			return version, digest
		}
	}
	return none, ""
}

// isMarker says that a version is that of a marker, or was one before the steps were squashed.
func isMarker(version int) bool {
	_, ok := markerAt(version)
	return ok || version > firstWhole && version != withTokens && isUnsquashed(version) && !isAdoption(version)
}

// markerAt returns the digest that a step names, if it is a marker.
func markerAt(version int) (digest string, ok bool) {
	text, err := stepText(".", version)
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

// before returns the version from which a step leads on; for the first step it is none.
func before(version int) int {
	if version > beforeSquash && isUnsquashed(version) {
		return version - 1 // one of the steps that adopt, or an earlier marker
	}
	versions := steps(".")
	at, _ := slices.BinarySearch(versions, version)
	if at == 0 {
		return none
	}
	return versions[at-1]
}

// after returns the version that the next step leads to, if there is one.
func after(version int) (next int, ok bool) {
	versions := steps(".")
	if isUnsquashed(version) {
		return 0, false // the steps that adopt have no way down
	}
	at, found := slices.BinarySearch(versions, version)
	if found {
		at++
	}
	if at == len(versions) {
		return 0, false
	}
	return versions[at], true
}
