package roles

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"velocityd/internal/engine"
	"velocityd/migrations"
)

// held is privileges that an account has on one object of the database.
type held struct {
	Right
	database string // quoted, as the grant spells it: a pattern
}

// Grants are the rights of an account, as SHOW GRANTS tells them.
type Grants struct {
	engine engine.Engine // whose rights the roles have
	here   []held        // in the database
	// Elsewhere are the rights that hold beyond the database and in it too, in words: rights on all
	// databases or on several by a pattern, and roles of the engine.
	Elsewhere []string
}

const (
	allPrivileges = "ALL PRIVILEGES"
	grantOption   = "GRANT OPTION"
)

// name of an object in SHOW GRANTS: quoted, or * for all.
const grantedName = "(\\*|`(?:[^`]|``)*`)"

var (
	grantLine = regexp.MustCompile("^GRANT (.+) ON (?:([A-Z ]+) )?" + grantedName + "\\." + grantedName + " TO (.*)$")
	roleLine  = regexp.MustCompile(`^GRANT (\S+) TO `)
	columns   = regexp.MustCompile(`\([^)]*\)`)
)

// ReadGrants reads the lines of SHOW GRANTS for their meaning in one database. It keeps
// no line: MariaDB's have the hash of the password in them.
func ReadGrants(e engine.Engine, database string, lines []string) Grants {
	g := Grants{engine: e}
	for _, line := range slices.Sorted(slices.Values(lines)) { // engines list them in any order
		parts := grantLine.FindStringSubmatch(line)
		if parts == nil {
			if role := roleLine.FindStringSubmatch(line); role != nil {
				g.Elsewhere = append(g.Elsewhere, "the role "+strings.ReplaceAll(role[1], "`", "'"))
			}
			continue
		}
		privileges := splitPrivileges(parts[1])
		if strings.HasSuffix(parts[5], " WITH "+grantOption) {
			privileges = append(privileges, grantOption)
		}
		privileges = slices.DeleteFunc(privileges, func(p string) bool { return p == "USAGE" })
		if len(privileges) > 0 {
			g.add(database, parts[3], Right{privileges, Object{parts[2], unquoteName(parts[4])}})
		}
	}
	return g
}

// add files a right that was granted on pattern, a database's name or a pattern of names.
func (g *Grants) add(database, pattern string, right Right) {
	plain := strings.NewReplacer(`\_`, "_", `\%`, "%").Replace(unquoteName(pattern))
	list := joined(right.Privileges)
	switch {
	case pattern == "*":
		g.Elsewhere = append(g.Elsewhere, list+" on all databases")
	case plain == database:
		g.here = append(g.here, held{right, pattern})
	case right.Object == everything() && matches(unquoteName(pattern), database):
		g.Elsewhere = append(g.Elsewhere, list+" on the databases "+unquoteName(pattern))
	}
}

// matches says that a pattern of a grant covers a database.
func matches(pattern, database string) bool {
	var expression strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			i++
			expression.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		case c == '%':
			expression.WriteString(".*")
		case c == '_':
			expression.WriteString(".")
		default:
			expression.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
	}
	is, err := regexp.MatchString("^(?s:"+expression.String()+")$", database)
	return err == nil && is
}

func unquoteName(name string) string {
	if inner, ok := strings.CutPrefix(name, "`"); ok {
		return strings.ReplaceAll(strings.TrimSuffix(inner, "`"), "``", "`")
	}
	return name
}

// splitPrivileges splits "SELECT, UPDATE (`a`, `b`)" at the commas between privileges, and those on several columns
// into one for each column.
func splitPrivileges(text string) []string {
	text = columns.ReplaceAllStringFunc(text, func(list string) string {
		names := strings.Split(strings.Trim(strings.ReplaceAll(list, "`", ""), "()"), ",")
		for i := range names {
			names[i] = strings.TrimSpace(names[i])
		}
		slices.Sort(names)
		return "(" + strings.Join(names, ";") + ")"
	})
	list := strings.Split(strings.ReplaceAll(text, ", ", ","), ",") // TiDB leaves the space out
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], ";", ", ")
	}
	return byColumn(list)
}

// byColumn makes "UPDATE (a)" and "UPDATE (b)" of "UPDATE (a, b)". An account may hold more columns than a role needs,
// or fewer.
func byColumn(privileges []string) (single []string) {
	for _, p := range privileges {
		verb, list, ofColumns := strings.Cut(strings.TrimSuffix(p, ")"), " (")
		if !ofColumns {
			single = append(single, p)
			continue
		}
		for column := range strings.SplitSeq(list, ", ") {
			single = append(single, verb+" ("+column+")")
		}
	}
	return single
}

// joined is the opposite of byColumn, as text.
func joined(privileges []string) string {
	var list []string
	columns := map[string][]string{}
	for _, p := range privileges {
		verb, column, ofColumns := strings.Cut(strings.TrimSuffix(p, ")"), " (")
		if ofColumns {
			columns[verb] = append(columns[verb], column)
			p = verb + " ("
		}
		if !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	for i, p := range list {
		if verb, ofColumns := strings.CutSuffix(p, " ("); ofColumns {
			list[i] = p + strings.Join(slices.Sorted(slices.Values(columns[verb])), ", ") + ")"
		}
	}
	return strings.Join(list, ", ")
}

// on returns the rights on an object.
func (g Grants) on(object Object) []string {
	var privileges []string
	for _, h := range g.here {
		if h.Object == object {
			privileges = append(privileges, h.Privileges...)
		}
	}
	return privileges
}

// Lacks returns the rights of a role that the grants in the database lack. It ignores Elsewhere.
func (g Grants) Lacks(role Role) []Right {
	var lacking []Right
	whole := g.on(everything())
	for _, want := range Rights(g.engine, role) {
		if missing, _ := want.beyond(append(g.on(want.Object), whole...)); len(missing) > 0 {
			lacking = append(lacking, Right{missing, want.Object})
		}
	}
	return lacking
}

// beyond returns which privileges of a right are missing in has, and which has holds as parts of
// others, with which the engines revoke them: of ALL PRIVILEGES or, for one on some columns, of
// the one on all.
func (r Right) beyond(has []string) (missing, parts []string) {
	for _, p := range r.Privileges {
		whole, _, ofColumns := strings.Cut(p, " (")
		switch {
		case slices.Contains(has, allPrivileges), ofColumns && slices.Contains(has, whole):
			parts = append(parts, p)
		case !slices.Contains(has, p):
			missing = append(missing, p)
		}
	}
	return missing, parts
}

// Exceeds returns the grants in the database that a role does not need.
func (g Grants) Exceeds(role Role) []Right {
	var excess []Right
	for _, h := range g.excess(Rights(g.engine, role)) {
		excess = append(excess, h.Right)
	}
	return merge(excess)
}

// excess returns the rights on each object beyond the wanted ones.
func (g Grants) excess(wanted []Right) []held {
	var excess []held
	for _, h := range g.here {
		var needed []string
		if at := slices.IndexFunc(wanted, func(r Right) bool { return r.Object == h.Object }); at >= 0 {
			needed = wanted[at].Privileges
		}
		more := slices.DeleteFunc(slices.Clone(h.Privileges), func(p string) bool { return slices.Contains(needed, p) })
		if len(more) > 0 {
			excess = append(excess, held{Right{more, h.Object}, h.database})
		}
	}
	return excess
}

// alter returns the statements that give an account exactly the rights of a role in the database. Grants
// come before revocations, so that a service goes on working meanwhile.
func (g Grants) alter(role Role, database string, account Account) []string {
	wanted := Rights(g.engine, role)
	var statements, again []string
	excess := g.excess(wanted)
	for _, want := range wanted {
		missing, parts := want.beyond(g.on(want.Object))
		if len(missing) > 0 {
			statements = append(statements, grantStatement(Right{missing, want.Object}, migrations.QuoteName(database), account))
		}
		if len(parts) > 0 {
			again = append(again, grantStatement(Right{parts, want.Object}, migrations.QuoteName(database), account))
		}
	}
	for _, h := range excess {
		statements = append(statements, h.revocations(account)...)
	}
	return append(statements, again...)
}

// revocations take the privileges away. GRANT OPTION needs a separate statement, because the engines refuse
// it beside ALL PRIVILEGES.
func (h held) revocations(account Account) []string {
	from := " ON " + h.Object.within(h.database) + " FROM " + account.String()
	var statements []string
	if slices.Contains(h.Privileges, grantOption) {
		statements = append(statements, "REVOKE "+grantOption+from)
	}
	others := slices.DeleteFunc(slices.Clone(h.Privileges), func(p string) bool { return p == grantOption })
	if len(others) > 0 {
		statements = append(statements, "REVOKE "+joined(others)+from)
	}
	return statements
}

// String is the right in words.
func (r Right) String() string {
	return fmt.Sprintf("%s on %s", joined(r.Privileges), r.Object)
}
