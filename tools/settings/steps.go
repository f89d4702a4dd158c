package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"velocityd/service"
)

// steps are the texts of the steps of zone_master, and the number of the newest step of all.
type steps struct {
	text   string
	newest int
}

func readSteps() (s steps, err error) {
	files, err := filepath.Glob("migrations/[0-9]*.up.sql") // sorted
	if err != nil {
		return s, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return s, err
		}
		if strings.Contains(string(text), " TABLE zone_master") {
			s.text += string(text) + "\n"
		}
		if _, err := fmt.Sscanf(filepath.Base(file), "%06d", &s.newest); err != nil {
			return s, fmt.Errorf("%s: %w", file, err)
		}
	}
	return s, nil
}

// column returns the definition of a column by the newest step that says it, without its comment, or nothing.
func (s steps) column(name string) string {
	form := regexp.MustCompile(`(?m)^  (?:(?:ADD|MODIFY) COLUMN )?` + regexp.QuoteMeta(name) + ` +(.*)$`)
	found := form.FindAllStringSubmatch(s.text, -1)
	if found == nil {
		return ""
	}
	return words(found[len(found)-1][1])
}

func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// write makes the two files of the next step.
func (s *steps) write(title, up, down string) error {
	s.newest++
	file := fmt.Sprintf("migrations/%06d_zone_master_%s", s.newest, title)
	fmt.Println(file + ".up.sql")
	for way, text := range map[string]string{"up": up, "down": down} {
		text = "ALTER TABLE zone_master\n  " + text + "\n"
		err := os.WriteFile(file+"."+way+".sql", []byte(text), 0o644) //nolint:gosec // files of the repository
		if err != nil {
			return err
		}
	}
	return nil
}

// putSteps writes a step for the column, and one for the rule, of each setting that no step makes. A released step
// never changes, so a setting that differs from its column needs a step that is written by hand.
func putSteps(isCheck bool, differs *bool) error {
	s, err := readSteps()
	if err != nil {
		return err
	}
	for _, setting := range service.Settings {
		want := words(sqlType(setting) + " " + sqlDefault(setting))
		rule, have := constraint(setting), s.column(column(setting))
		switch {
		case have == want && strings.Contains(s.text, rule):
		case have != "":
			*differs = true
			fmt.Fprintf(os.Stderr, "settings: by the steps zone_master.%s is %q, and the setting wants %q with %q: write a "+
				"step by make migrate-new\n", setting.Name, have, want, rule)
		case isCheck:
			*differs = true
			fmt.Fprintf(os.Stderr, "settings: no step makes the column of %s\n", setting.Name)
		default:
			if err := s.writeSetting(setting, want, rule); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *steps) writeSetting(setting service.Setting, definition, rule string) error {
	comment := strings.ReplaceAll(sentence(setting), "'", "''")
	err := s.write(setting.Name, "ADD COLUMN "+column(setting)+" "+definition+"\n    COMMENT '"+comment+"'",
		"DROP COLUMN "+column(setting))
	if name, _ := check(setting); err == nil && rule != "" {
		err = s.write(setting.Name+"_rule", "ADD "+rule, "DROP CONSTRAINT `"+setting.Name+" must be "+name+"`")
	}
	return err
}
