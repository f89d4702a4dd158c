package migrations_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"velocityd/db/dbtest"
	"velocityd/migrations"
)

// file is one migration of this folder, in one direction.
type file struct {
	number           int
	title, way, text string
}

func files(t *testing.T) []file {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile(`^(\d{6})_([a-z][a-z0-9_]*)\.(up|down)\.sql$`)
	var list []file
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".sql") {
			continue
		}
		parts := form.FindStringSubmatch(entry.Name())
		if parts == nil {
			t.Fatalf("%s is not named like 000001_title.up.sql", entry.Name())
		}
		number, err := strconv.Atoi(parts[1])
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, file{number: number, title: parts[2], way: parts[3], text: string(text)})
	}
	return list
}

func TestNumbersHaveNoGapsAndOneFileEachWay(t *testing.T) {
	t.Parallel()
	titles := map[int]map[string]string{}
	for _, f := range files(t) {
		if titles[f.number] == nil {
			titles[f.number] = map[string]string{}
		}
		if other, taken := titles[f.number][f.way]; taken {
			t.Errorf("migration %d goes %s by both %s and %s", f.number, f.way, other, f.title)
		}
		titles[f.number][f.way] = f.title
	}
	for number := 1; number <= len(titles); number++ {
		ways := titles[number]
		if ways["up"] == "" || ways["up"] != ways["down"] {
			t.Errorf("migration %d goes up by %q and down by %q, want one title both ways", number, ways["up"], ways["down"])
		}
	}
	if migrations.Latest() != uint(len(titles)) || len(titles) == 0 {
		t.Errorf("Latest() is %d, and there are %d migrations", migrations.Latest(), len(titles))
	}
}

// TestEachFileIsOneStatement looks at the texts; that the engines take no more
// than one is TestSeveralStatementsAtOnceAreRefused.
func TestEachFileIsOneStatement(t *testing.T) {
	t.Parallel()
	comment := regexp.MustCompile(`(?m)^[ \t]*--( .*)?$`)
	for _, f := range files(t) {
		statement := strings.TrimSpace(comment.ReplaceAllString(f.text, ""))
		if regexp.MustCompile(`^CREATE (PROCEDURE|TRIGGER) `).MatchString(statement) {
			if !strings.HasSuffix(statement, "\nEND") || strings.Count(statement, "\nEND") != 1 {
				t.Errorf("migration %d %s goes on after its procedure or trigger", f.number, f.way)
			}
		} else if strings.Contains(statement, ";") {
			t.Errorf("migration %d %s has a semicolon: one statement a file", f.number, f.way)
		}
		// An owner or a client's command would tie the schema to one place.
		if found := regexp.MustCompile(`(?i)\bDEFINER\s*=|\bDELIMITER\b|^\s*USE\s`).FindString(f.text); found != "" {
			t.Errorf("migration %d %s says %q", f.number, f.way, found)
		}
	}
}

func TestSeveralStatementsAtOnceAreRefused(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
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
	dbtest.Each(t, func(t *testing.T, engine *dbtest.Engine) {
		d := engine.Database(t)
		for _, line := range rows(t, d, "SELECT routine_name, sql_mode, security_type FROM information_schema.routines "+
			"WHERE routine_schema = DATABASE() "+
			"UNION ALL SELECT trigger_name, sql_mode, 'DEFINER' FROM information_schema.triggers WHERE trigger_schema = DATABASE()") {
			if !strings.Contains(line, "STRICT_ALL_TABLES") || strings.Contains(line, "ANSI_QUOTES") {
				t.Errorf("created under another mode: %s", line)
			}
		}
	})
}
