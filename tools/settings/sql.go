package main

import (
	"fmt"
	"strings"

	"velocityd/service"
)

// column is the name of a setting in SQL.
func column(s service.Setting) string {
	if s.Name == "window" {
		return "`window`" // a word of MySQL's
	}
	return s.Name
}

func sqlType(s service.Setting) string {
	switch s.Kind() {
	case service.KindText:
		return fmt.Sprintf("VARCHAR(%d) CHARACTER SET utf8mb4 /*T! COLLATE utf8mb4_0900_ai_ci */", s.Most)
	case service.KindChoice:
		return "ENUM('" + strings.Join(s.Words(), "', '") + "') CHARACTER SET ascii"
	case service.KindFactor:
		return "DECIMAL(5,2)"
	case service.KindFlag:
		return "BOOLEAN"
	case service.KindNumber, service.KindLength:
	}
	return "INT"
}

func sqlDefault(s service.Setting) string {
	if s.Required {
		return "" // a CHECK refuses NULL
	}
	if s.Otherwise != "" {
		return "NULL DEFAULT NULL"
	}
	return "NOT NULL DEFAULT " + sqlValue(s)
}

// sqlValue is the default in SQL.
func sqlValue(s service.Setting) string {
	zone := service.Zone{}.WithDefaults()
	switch at := s.At(&zone).(type) {
	case *string:
		return "'" + *at + "'"
	case *bool:
		return strings.ToUpper(fmt.Sprint(*at))
	case *float64:
		return fmt.Sprintf("%.2f", *at)
	}
	return s.Text(&zone)
}

// constraint is the rule of a setting, or nothing. Its name is the rule in words, of which engines take 64 characters.
func constraint(s service.Setting) string {
	name, rule := check(s)
	if rule == "" {
		return ""
	}
	return "CONSTRAINT `" + s.Name + " must be " + name + "`\n    CHECK (" + rule + ")"
}

func check(s service.Setting) (name, rule string) {
	between := fmt.Sprintf("%s BETWEEN %d AND %d", column(s), s.Least, s.Most)
	if s.Required {
		between = column(s) + " IS NOT NULL AND " + between
	}
	switch s.Kind() {
	case service.KindChoice:
		if s.Name == "key_kind" {
			return "opaque, ip or a kind of username", s.Name + " <> ''"
		}
		return service.Either(s.Words()), s.Name + " <> ''"
	case service.KindFlag:
		return "TRUE or FALSE", s.Name + " IN (0, 1)"
	case service.KindLength:
		if s.Name == "reserve_ttl" {
			return "1 second to the window, or NULL", "reserve_ttl IS NULL OR reserve_ttl BETWEEN 1 AND `window`"
		}
		return s.Bounds() + " seconds", between
	case service.KindNumber, service.KindFactor:
		return s.Bounds(), between
	case service.KindText:
	}
	return "", ""
}

// state is a row of zone_master in JSON, as zone_audit has it.
func state(row string, indent int, end string) []string {
	members := append([]string{"'id', " + row + ".id"}, each(func(s service.Setting) string {
		return "'" + s.Name + "', " + row + "." + column(s)
	})...)
	lines := list(strings.Repeat(" ", indent), append(members, "'revision', "+row+".revision)"+end))
	lines[0] = strings.Replace(lines[0], "'id'", "JSON_OBJECT('id'", 1)
	return lines
}

// same compares the settings before and after an edit. HEX, because a comparison of text ignores case.
func same() []string {
	row := func(row, indent, end string) []string {
		lines := list(indent, each(func(s service.Setting) string {
			if s.Kind() == service.KindText {
				return "HEX(" + row + "." + column(s) + ")"
			}
			return row + "." + column(s)
		}))
		lines[len(lines)-1] += end
		return lines
	}
	return append(row("NEW", "         ", ")"), append([]string{"         <=> ("}, row("OLD", "         ", ")));")...)...)
}

// viewed are the columns of read_zone. key_rule stands behind the settings that it is made of. The view has no comment
// inside, since engines keep none.
func viewed() []string {
	lines := list("               ", append(append([]string{"id"}, each(func(s service.Setting) string {
		if s.Name == "ipv6_prefix" {
			return column(s) + ", key_rule"
		}
		return column(s)
	})...), "revision"))
	lines[0] = "  FROM (SELECT " + strings.TrimSpace(lines[0])
	return append(lines, "          FROM zone_master) AS zone")
}
