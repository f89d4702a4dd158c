package main

import (
	"fmt"
	"strconv"
	"strings"

	"velocityd/service"
)

// schema is the name of a setting's schema: those of names, with the letters of initials.
func schema(s service.Setting) string {
	if s.Name == "totals" {
		return "KeepTotals" // Totals are numbers
	}
	var name strings.Builder
	for word := range strings.SplitSeq(s.Name, "_") {
		switch word {
		case "ttl":
			name.WriteString("TTL")
		case "ipv4", "ipv6":
			name.WriteString("IP" + word[2:])
		default:
			name.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return name.String()
}

// schemas describes each setting, a zone as it is answered, and a zone as it is written.
func schemas() (lines []string) {
	for _, s := range service.Settings {
		lines = append(lines, "    "+schema(s)+":", "      type: "+jsonType(s))
		lines = append(lines, bounds(s)...)
		lines = append(lines, "      description: "+strconv.Quote(sentence(s)))
	}
	reference := func(s service.Setting) string { return "{$ref: '#/components/schemas/" + schema(s) + "'}" }
	lines = append(lines, strings.Split(`    ZoneRequest:
      type: object
      description: A whole zone. A missing member has its default.
      additionalProperties: false
      required: [rate]
      anyOf:
        - required: [window]
        - required: [period]
          properties:
            period: {not: {const: none}}
      properties:`, "\n")...)
	for _, s := range service.Settings {
		if s.Required || s.Otherwise != "" {
			lines = append(lines, "        "+s.Name+": "+reference(s))
			continue
		}
		lines = append(lines, "        "+s.Name+":", "          $ref: '#/components/schemas/"+schema(s)+"'",
			"          default: "+value(s))
	}
	lines = append(lines, "    Zone:", "      type: object", "      additionalProperties: false", "      required:",
		"        - id")
	lines = append(lines, each(func(s service.Setting) string { return "        - " + s.Name })...)
	lines = append(lines, "        - revision", "      properties:", "        id: {$ref: '#/components/schemas/ZoneID'}")
	for _, s := range service.Settings {
		if s.Kind() == service.KindText { // plain SQL may have written any
			lines = append(lines, fmt.Sprintf("        %s: {type: string, maxLength: %d}", s.Name, s.Most))
			continue
		}
		lines = append(lines, "        "+s.Name+": "+reference(s))
	}
	return append(lines, strings.Split(`        revision:
          type: integer
          minimum: 1
          maximum: 18446744073709551615
          description: Counts the zone's changes from 1.`, "\n")...)
}

func jsonType(s service.Setting) string {
	switch s.Kind() {
	case service.KindText, service.KindChoice:
		return "string"
	case service.KindFactor:
		return "number"
	case service.KindFlag:
		return "boolean"
	case service.KindNumber, service.KindLength:
	}
	return "integer"
}

// bounds are those of the values of a setting, as JSON Schema has them.
func bounds(s service.Setting) []string {
	switch s.Kind() {
	case service.KindText:
		return []string{fmt.Sprintf("      maxLength: %d", s.Most), `      pattern: '^[^\x00-\x1f\x7f-\x9f]*$'`}
	case service.KindChoice:
		return []string{"      enum: ['" + strings.Join(s.Words(), "', '") + "']"}
	case service.KindFlag:
		return nil
	case service.KindFactor:
		return []string{
			fmt.Sprintf("      minimum: %d", s.Least), fmt.Sprintf("      maximum: %d", s.Most),
			"      multipleOf: 0.01",
		}
	case service.KindNumber, service.KindLength:
	}
	return []string{fmt.Sprintf("      minimum: %d", s.Least), fmt.Sprintf("      maximum: %d", s.Most)}
}

// sentence is the description of a setting, with its unit.
func sentence(s service.Setting) string {
	text := s.Sentence()
	if unit := unit(s); unit != "" {
		text += " In " + unit + "."
	}
	if s.Otherwise != "" {
		text += " Left out: " + s.Otherwise + "."
	}
	return text
}

func unit(s service.Setting) string {
	if s.Kind() == service.KindLength {
		return "seconds"
	}
	return s.Unit
}

// value is the default of a setting in YAML.
func value(s service.Setting) string {
	zone := service.Zone{}.WithDefaults()
	return s.Text(&zone)
}

// examples is a zone as it is answered, alone and in a list.
func examples() (lines []string) {
	zone := service.Zone{
		ID: 1, Description: "login per user", Rate: 5, Window: service.Seconds(60), Lockout: service.Seconds(300),
		Keys: service.KeyRule{Kind: service.KeyUsername}, Revision: 1,
	}.WithDefaults()
	members := []string{fmt.Sprintf("id: %d", zone.ID)}
	members = append(members, each(func(s service.Setting) string { return s.Name + ": " + s.Text(&zone) })...)
	members = append(members, fmt.Sprintf("revision: %d", zone.Revision))
	put := func(first, indent string) {
		for i, member := range members {
			if i == 0 {
				lines = append(lines, first+member)
				continue
			}
			lines = append(lines, indent+member)
		}
	}
	lines = append(lines, "    Zone:", "      value:")
	put("        ", "        ")
	lines = append(lines, "    Zones:", "      value:", "        zones:")
	put("          - ", "            ")
	return lines
}

// table lists the settings for a DBA.
func table() []string {
	lines := []string{"| setting | default | meaning |", "|---|---|---|"}
	for _, s := range service.Settings {
		said := strings.ReplaceAll(s.Sentence(), "|", `\|`)
		if s.See != "" {
			said += " [More](" + s.See + ")"
		}
		lines = append(lines, "| `"+s.Name+"` | "+byDefault(s)+" | "+said+limits(s)+" |")
	}
	return lines
}

func byDefault(s service.Setting) string {
	switch {
	case s.Required:
		return ""
	case s.Otherwise != "":
		return "NULL: " + s.Otherwise
	case s.Kind() == service.KindText:
		return "empty"
	case s.Kind() == service.KindChoice:
		return "`" + strings.Trim(value(s), `"`) + "`"
	case s.Kind() == service.KindFlag:
		return strings.ToUpper(value(s))
	}
	return value(s)
}

// limits are the bounds of a number in words.
func limits(s service.Setting) string {
	switch s.Kind() {
	case service.KindNumber, service.KindFactor:
		return " Bounds: " + s.Bounds() + "."
	case service.KindLength:
		return " Bounds: " + s.Bounds() + " seconds."
	case service.KindText, service.KindChoice, service.KindFlag:
	}
	return ""
}
