package migrations_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"velocityd/migrations"
	"velocityd/tools/enginetest"
)

// file is one text of this folder: of a step, in one direction, or of a routine.
type file struct {
	number           int
	title, way, text string
}

// files reads the steps of a folder, in order.
func files(t *testing.T, folder string) []file {
	t.Helper()
	form := regexp.MustCompile(`^(\d{6})_([a-z][a-z0-9_]*)\.(up|down)\.sql$`)
	var list []file
	for name, text := range sqlFiles(t, folder) {
		parts := form.FindStringSubmatch(filepath.Base(name))
		if parts == nil {
			t.Fatalf("%s is not named like 000001_title.up.sql", name)
		}
		number, err := strconv.Atoi(parts[1])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, file{number: number, title: parts[2], way: parts[3], text: text})
	}
	slices.SortFunc(list, func(a, b file) int { return cmp.Compare(a.number, b.number) })
	return list
}

// sqlFiles returns the texts of a folder by their path.
func sqlFiles(t *testing.T, folder string) map[string]string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.sql"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %d texts, %v", folder, len(names), err)
	}
	found := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found[name] = string(text)
	}
	return found
}

func isMarker(text string) bool { return strings.HasPrefix(text, "-- routines sha256: ") }

// ways returns the titles of the steps of a folder, by number and direction, and
// the lowest and highest number.
func ways(t *testing.T, folder string) (titles map[int]map[string]string, first, last int) {
	t.Helper()
	titles = map[int]map[string]string{}
	for _, f := range files(t, folder) {
		if titles[f.number] == nil {
			titles[f.number] = map[string]string{}
		}
		if other, taken := titles[f.number][f.way]; taken {
			t.Errorf("step %d goes %s by both %s and %s", f.number, f.way, other, f.title)
		}
		titles[f.number][f.way] = f.title
		if isMarker(f.text) {
			titles[f.number]["down"] = f.title // a marker has none: routines are not taken back by number
		}
	}
	numbers := slices.Sorted(maps.Keys(titles))
	return titles, numbers[0], numbers[len(numbers)-1]
}

func TestNumbersAreGaplessWithOneFileEachWay(t *testing.T) {
	t.Parallel()
	titles, first, last := ways(t, ".")
	for number := first; number <= last; number++ {
		if up, down := titles[number]["up"], titles[number]["down"]; up == "" || up != down {
			t.Errorf("step %d goes up by %q and down by %q, want one title both ways", number, up, down)
		}
	}
	if migrations.Latest() != uint(last) {
		t.Errorf("Latest() is %d, and the last step is %d", migrations.Latest(), last)
	}
	if first != 1 {
		t.Errorf("the first step is %d, want 1", first)
	}
}

func TestTheNewestMarkerNamesTheCurrentTexts(t *testing.T) {
	t.Parallel()
	want := migrations.Digest()
	version, got := migrations.NewestMarker()
	if got != want {
		t.Errorf("a procedure, a trigger or retired.txt was edited: step %06d installs %.8s…, and the texts are %.8s…. "+
			"Databases take the new texts only with a new step: run `make migrate-routines` and commit what it writes",
			version, got, want)
	}
}

// releases are the versions of released.txt, each with the steps that it added and their checksums.
func releases(t *testing.T) (versions []string, steps map[string]map[string]string) {
	t.Helper()
	text, err := os.ReadFile("released.txt")
	if err != nil {
		t.Fatal(err)
	}
	steps = map[string]map[string]string{}
	for line := range strings.Lines(string(text)) {
		if version, is := strings.CutPrefix(strings.TrimSpace(line), "# "); is {
			versions, steps[version] = append(versions, version), map[string]string{}
			continue
		}
		sum, file, _ := strings.Cut(strings.TrimSpace(line), "  ")
		steps[versions[len(versions)-1]][file] = sum
	}
	if len(versions) == 0 || versions[0] != "0.1.0" || len(steps["0.1.0"]) != 49 {
		t.Fatalf("released.txt has the versions %q, and %d steps of 0.1.0", versions, len(steps["0.1.0"]))
	}
	return versions, steps
}

func TestReleasedStepsStayByteForByte(t *testing.T) {
	t.Parallel()
	_, released := releases(t)
	for version, steps := range released {
		for name, want := range steps {
			text, err := os.ReadFile(name)
			if got := fmt.Sprintf("%x", sha256.Sum256(text)); err != nil || got != want {
				t.Errorf("%s is a step of %s, which databases have carried out, and it was changed (%v): take that back, and "+
					"write a new step by `make migrate-new NAME=…`, or by `make migrate-routines` for routines", name, version, err)
			}
		}
	}
}

func TestReleasedRoutinesAreThoseOfTheirStep(t *testing.T) {
	t.Parallel()
	versions, released := releases(t)
	texts, marker := sqlFiles(t, "."), ""
	for _, version := range versions {
		for _, name := range slices.Sorted(maps.Keys(released[version])) {
			if isMarker(texts[name]) {
				marker = name
			}
		}
		sum := sha256.New()
		for _, f := range routinesOf(t, version) {
			fmt.Fprintf(sum, "%x  %s\n", sha256.Sum256([]byte(f.text)), f.title)
		}
		if got := fmt.Sprintf("-- routines sha256: %x\n", sum.Sum(nil)); got != texts[marker] {
			t.Errorf("testdata/%s.tar.gz has %q, and %s says %q", version, got, marker, texts[marker])
		}
	}
}

// routinesOf returns the texts of the procedures, triggers and views of a released version, in the order of its digest:
// retired.txt comes last.
func routinesOf(t *testing.T, version string) (list []file) {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join("testdata", version+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(unzipped); ; {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		text, readErr := io.ReadAll(archive)
		if err := errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		list = append(list, file{title: head.Name, text: string(text)})
	}
	slices.SortStableFunc(list, func(a, b file) int {
		return cmp.Compare(strings.Count(b.title, "/"), strings.Count(a.title, "/"))
	})
	return list
}

// TestEachFileIsOneStatement looks at the texts; that the engines take no more
// than one is TestSeveralStatementsAtOnceAreRefused.
func TestEachFileIsOneStatement(t *testing.T) {
	t.Parallel()
	comment := regexp.MustCompile(`(?m)^[ \t]*--( .*)?(\n|$)`)
	literal := regexp.MustCompile(`'[^']*'`)
	routine := regexp.MustCompile(`^CREATE /\*M! OR REPLACE \*/ (PROCEDURE|FUNCTION|TRIGGER) `)
	// See read_txn: nothing but the derived table keeps a view from locking.
	view := regexp.MustCompile(
		`^CREATE OR REPLACE SQL SECURITY DEFINER VIEW [a-z_]+ AS\nSELECT \*\n  FROM \(SELECT [^;]*\) AS [a-z]+$`)
	for _, folder := range []string{".", "procedures", "triggers", "views"} {
		for name, text := range sqlFiles(t, folder) {
			statement := strings.TrimSpace(comment.ReplaceAllString(text, ""))
			if folder == "views" {
				if !view.MatchString(statement) {
					t.Errorf("%s is not one view of a derived table", name)
				}
			} else if folder == "procedures" || folder == "triggers" {
				if !routine.MatchString(statement) || !strings.HasSuffix(statement, "\nEND") ||
					strings.Count(statement, "\nEND") != 1 {
					t.Errorf("%s is not one procedure, function or trigger that MariaDB would replace", name)
				}
			} else if strings.Contains(literal.ReplaceAllString(statement, ""), ";") || (statement == "") != isMarker(text) {
				t.Errorf("%s is not one statement", name)
			}
			// An owner or a client's command would tie the schema to one place.
			if found := regexp.MustCompile(`(?i)\bDEFINER\s*=|\bDELIMITER\b|^\s*USE\s`).FindString(text); found != "" {
				t.Errorf("%s says %q", name, found)
			}
		}
	}
}

func TestSeveralStatementsAtOnceAreRefused(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		d := engine.Empty(t)
		sep := "?"
		if strings.Contains(d.DSN, "?") {
			sep = "&"
		}
		for _, dsn := range []string{d.DSN, d.DSN + sep + "multiStatements=true"} {
			pool, _, err := migrations.Open(dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			if _, err := pool.Exec("CREATE TABLE one (id INT); CREATE TABLE two (id INT)"); err == nil {
				t.Error("two statements at once were carried out")
			}
		}
		if got := objects(t, d); len(got) != 0 {
			t.Errorf("made %q", got)
		}
	})
}

// TestMigrationsRunUnderASQLModeOfTheirOwn matters because procedures and
// triggers keep the mode that they were created under.
func TestMigrationsRunUnderASQLModeOfTheirOwn(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, d *enginetest.Database) {
		for _, line := range rows(t, d, "SELECT routine_name, sql_mode, security_type FROM information_schema.routines "+
			"WHERE routine_schema = DATABASE() UNION ALL SELECT trigger_name, sql_mode, 'DEFINER' FROM "+
			"information_schema.triggers WHERE trigger_schema = DATABASE()") {
			if !strings.Contains(line, "STRICT_ALL_TABLES") || strings.Contains(line, "ANSI_QUOTES") {
				t.Errorf("created under another mode: %s", line)
			}
		}
	})
}

// TestEachProcedureNamesItsUsersAndPurpose reads what SHOW CREATE PROCEDURE shows.
func TestEachProcedureNamesItsUsersAndPurpose(t *testing.T) {
	t.Parallel()
	const mostLines = 130
	form := regexp.MustCompile(`\nCOMMENT '(public|internal): .+'\n(?s:.*?)\nBEGIN\n  -- `)
	for name, text := range sqlFiles(t, "procedures") {
		if !form.MatchString(text) {
			t.Errorf("%s has no COMMENT 'public: …' or 'internal: …', or its body does not begin with what it does", name)
		}
		if n := strings.Count(text, "\n"); n > mostLines {
			t.Errorf("%s has %d lines, more than %d", name, n, mostLines)
		}
	}
}
