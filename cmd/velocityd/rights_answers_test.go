package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"velocityd/migrations/roles"
	"velocityd/tools/enginetest"
)

const (
	answersFile = "testdata/answers-%s.txt" // of an engine
	// writeAnswers makes the test of answers write its files.
	writeAnswers = "VELOCITY_TEST_WRITE_ANSWERS"
)

// answeringRoles run every command, each on a separate database.
var answeringRoles = []roles.Role{roles.Owner, roles.DBA, roles.Editor, roles.Analyst} //nolint:gochecknoglobals // a list

// emptyCommands meet a new database, and the owner alone runs them.
func emptyCommands() []string {
	return []string{
		"zone list", "zone show", "zone lint", "zone restore", "override list", "txn list", "events list", "changes",
		"webhook list", "token list", "zone set 1 --rate 5", "zone set 1 --description x",
	}
}

// furtherCommands are other ways through the commands of roleCommands, and the owner alone runs them: settings,
// refusals, and forms of output.
func furtherCommands() []string {
	return []string{
		"zone show 99", "zone set 99 --rate 5", "zone delete --yes 99", "zone totals 99",
		"zone totals 1 --since 1h --until 2h", "zone list --json", "zone show 1 --json", "zone set 1 --lockout 0",
		"zone set 8 --rate 5 --window 60 --counts failures --description Üser", "zone set 8 --window 30",
		"zone set 8 --reserve-ttl 20",
		"zone set 8 --window 10", "zone set 8 --rate 0", "zone set 8 --rate 1000001", "zone set 8 --rate=-1",
		"zone set 8 --window 0", "zone set 8 --window 31622401", "zone set 8 --window 18446744074",
		"zone set 8 --rate 2 --window 3600 --counts attempts --reserve-ttl 0 --lockout 7200 --key-kind username --reason " +
			"ticket",
		"zone set 9 --rate 5 --period month --period-anchor 31", "zone set 9 --period-offset=-300",
		"zone set 9 --period day --period-anchor 1",
		"zone set 9 --period none --period-offset 0 --window 60", "zone set 9 --period year",
		"zone set 9 --period month --window 60",
		"zone set 9 --period-offset 841", "zone set 9 --period-anchor 0", "zone set 9 --period-anchor 32",
		"zone set 9 --mode shadow --rate 0 --window 60 --key-kind ip", "zone list", "zone lint", "zone lint 9 8",
		"zone lint 1 --json", "zone lint 9 --json", "zone lint 8 99",

		"override set 99 x --action deny --reason x", "override delete 1 none", "override delete 1 99", "override list 99",
		"override list --json", "override set 1 eve --action limit --rate 2 --window 60 --expires 1h --reason x",
		"override delete 1 eve --reason y --same-reason", "override delete 1 eve --reason done", "override delete 1 eve",
		"override set 8 BOB --action deny --reason guessing", "check 8 Bob",
		"override set 8 bob --action limit --rate 2 --window 60 --reason trial",
		"check 8 bob", "override set 8 Bob --action allow --reason boss", "check 8 bOb", "override delete 9 4",
		"override delete 8 4",
		"override set 9 203.0.113.0/24 --action deny --expires 1h --reason noise", "check 9 203.0.113.9",
		"override set 9 203.0.113.9 --action allow --reason ours", "check 9 203.0.113.9",
		"override set 9 203.0.113.0/24 --action allow --reason all", "check 9 203.0.113.8",
		"override set 9 2001:db8::1 --action deny --reason v6", "check 9 2001:db8::2",
		"override set 9 203.0.113.0/33 --action allow --reason x",
		"override set 9 198.51.100.7 --action deny --reason jail --expires 1h --same-reason",
		"override set 9 198.51.100.7 --action deny --reason other --expires 20s --same-reason",
		"override set 9 198.51.100.7 --action allow --reason other --same-reason",
		"override delete 9 198.51.100.7 --reason other --same-reason",
		"override delete 9 198.51.100.7 --reason jail --same-reason",
		"override set 8 zed --action allow --reason z", "override list", "override list 9",

		"check 99 x", "check 1 carol", "check 1 carol 1 dora --json", "check 1 carol --attempt-id a", "check 1 carol 99 x",
		"check 1 -- -dash",
		"check 9 192.0.2.1 1 erin", "check 8 alice", "check 8 Alice --json", "check 8 ALICE", "check 8 alice 1 frank --json",
		"bucket peek 8 Alice", "bucket peek 8 alice --json", "bucket peek 8 never", "bucket peek 9 bob", "bucket locked 8",
		"bucket locked 8 --json", "bucket release 8 ALICE --reason called", "bucket peek 99 x", "bucket peek 1 carol --json",
		"check 1 hal --attempt-id %2F..", "check 1 hal --attempt-id %2F..", "attempt %2F..",
		"outcome --attempt-id %2F.. success",
		"outcome --attempt %2F.. success --json", "outcome --attempt-id %2F.. failure", "attempt %2F.. --json",
		"outcome 99 failure", "outcome 1 success", "outcome 1 failure --json", "outcome --attempt-id a failure",
		"outcome --attempt-id none failure", "outcome 3 failure --attempt-id a", "outcome failure",
		"outcome --attempt-id a won", "outcome --attempt-id é failure", "attempt none", "attempt a --json",
		"bucket totals 99 x", "bucket totals 8 alice", "bucket locked 99", "bucket release 99 x --reason x",
		"bucket release 1 alice bob --reason x",

		"txn show 99", "txn explain 99", "txn explain 1 --json", "txn list --zone 8 --output table",
		"txn list --zone 99 --key x",
		"txn list --zone 1 --key alice", "txn list --limit 1", "txn export --zone 99 --key x",
		"events list --zone 99 --key x",
		"events list --type zone.* --limit 3", "events list --type bucket.locked --zone 9 --order asc",
		"changes --limit 2 --json", "changes --by nobody",
		"changes --subject zoo", "changes --zone 8 --subject zone,override --limit 3", "webhook add http://10.0.0.1/",
		"webhook deliveries 99",
		"webhook resend 99", "webhook remove 99", "report --zone 99", "report --zone 1 --users-zone 1 --addresses-zone 98",
		"report --zone 8 --addresses-zone 1",

		"token create shop --scope check", "token create shop --scope check,report --zone 1",
		"token create shop --scope check --expires 90d",
		"token revoke shop", "token revoke 1", "token revoke 1", "token revoke 99", "token revoke nobody", "token list",
		"token list --all", "token revoke shop --all", "token revoke shop --all --yes", "token list",
		"token create auth-1 --scope check,report --client-subject CN=auth-1,O=Example",
		"token create auth-2 --scope check --client-subject CN=auth-1,O=Example", "token revoke auth-1", "token revoke 3",
		"token revoke 3 --yes", "token revoke 3", "token create auth-2 --scope check --client-subject CN=auth-1,O=Example",

		"zone delete 8", "zone delete --yes 8 --reason over", "override list 8", "check 8 x",
		"bucket peek 8 x", "zone lint 8", "changes --limit 3",
	}
}

// TestEachRoleIsAnsweredAsOnFile runs each command as the owner, a DBA, the service that edits zones and an analyst,
// and compares with the answers on file: exit codes, both streams, and the names in zone_audit. Commands that a role
// may not carry out are done by the owner afterwards, so that the later ones find the same rows. The owner runs more of
// them.
func TestEachRoleIsAnsweredAsOnFile(t *testing.T) {
	t.Parallel()
	commands := roleCommands(t)
	enginetest.Each(t, func(t *testing.T, engine *enginetest.Engine) {
		answers := newAnswers()
		for _, role := range answeringRoles {
			t.Run(string(role), func(t *testing.T) { answers.askAll(t, engine, role, commands) })
		}
		got := answers.String()
		kind, _, _ := strings.Cut(engine.Kind(t), "-")
		file := fmt.Sprintf(answersFile, kind)
		if os.Getenv(writeAnswers) != "" {
			writeFile(t, file, got)
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		compareAnswers(t, string(want), got)
	})
}

// compareAnswers reports the commands whose answers differ.
func compareAnswers(t *testing.T, want, got string) {
	t.Helper()
	wanted := map[string]string{}
	for part := range strings.SplitSeq(want, "\n$ ") {
		name, answer, _ := strings.Cut(part, "\n")
		wanted[name] = answer
	}
	for part := range strings.SplitSeq(got, "\n$ ") {
		name, answer, _ := strings.Cut(part, "\n")
		if before, found := wanted[name]; !found || strings.TrimSpace(before) != strings.TrimSpace(answer) {
			t.Errorf("$ %s\ngot\n%s\nwant\n%s", name, answer, before)
		}
		delete(wanted, name)
	}
	for name := range wanted {
		t.Errorf("not asked: %s", name)
	}
}

// answers are those of all roles to each command.
type answers struct {
	commands []string
	texts    map[string][]string        // of a command, each once
	roles    map[[2]string][]roles.Role // by command and text
}

func newAnswers() *answers {
	return &answers{texts: map[string][]string{}, roles: map[[2]string][]roles.Role{}}
}

func (a *answers) note(role roles.Role, args, text string) {
	if a.texts[args] == nil {
		a.commands = append(a.commands, args)
	}
	if !slices.Contains(a.texts[args], text) {
		a.texts[args] = append(a.texts[args], text)
	}
	a.roles[[2]string{args, text}] = append(a.roles[[2]string{args, text}], role)
}

// String has the commands in their order, and each different answer once, behind the roles that had it.
func (a *answers) String() string {
	var out strings.Builder
	for _, args := range a.commands {
		fmt.Fprintf(&out, "\n$ %s\n", args)
		for _, text := range a.texts[args] {
			fmt.Fprintf(&out, "%s: %s\n", strings.Trim(fmt.Sprint(a.roles[[2]string{args, text}]), "[]"), text)
		}
	}
	return out.String()
}

// askAll runs all commands as a role.
func (a *answers) askAll(t *testing.T, engine *enginetest.Engine, role roles.Role, commands []roleCommand) {
	d := engine.Empty(t)
	d.LeaveUnaudited() // a key is erased, and txns are older than their answers
	owner := d.RoleAccount(t, roles.Owner)
	must(t, environment{"VELOCITY_DSN": owner.DSN}, "migrate", "up")
	as := owner
	if role != roles.Owner {
		as = d.RoleAccount(t, role)
	}
	all, further := emptyCommands(), furtherCommands()
	if role != roles.Owner {
		all, further = nil, nil
	}
	for _, c := range commands {
		if c.role == admin || c.args == "migrate up" {
			continue
		}
		if c.args == "retain" {
			all = append(all, further...)
		}
		all = append(all, c.args)
	}
	for _, args := range all {
		r := runAs(t, d, as, args)
		text := fmt.Sprintf("%d", r.code)
		if isOfTheMachine := slices.Contains([]string{"migrate status", "doctor", "retain"}, args); !isOfTheMachine {
			text += "\n" + strings.TrimRight(r.stdout+r.said(), "\n")
		}
		a.note(role, maskAnswer(t, as, owner, args), strings.TrimRight(maskAnswer(t, as, owner, text), "\n"))
		if r.code == exitError && role != roles.Owner {
			runAs(t, d, owner, args)
		}
	}
	a.note(role, "zone_audit", maskAnswer(t, as, owner, changedBy(t, d)))
}

// changedBy counts the changes in zone_audit by subject, principal and account.
func changedBy(t *testing.T, d *enginetest.Database) string {
	t.Helper()
	rows, err := enginetest.Texts(d.SQL, "SELECT subject, action, COALESCE(principal, '-'), changed_by, COUNT(*) FROM "+
		"zone_audit GROUP BY subject, action, principal, changed_by ORDER BY subject, action, principal, changed_by")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&out, "\n%s", strings.Join(row, " "))
	}
	return out.String()
}

// answerMasks take out the parts that differ from run to run.
func answerMasks() []struct{ pattern, by string } {
	return []struct{ pattern, by string }{
		{`(?:[\w./-]*/)?(zones\.yaml|auth\.log|gates\.yaml)`, "$1"},
		{
			`\nvelocityd: database \S+: read schema version: forbidden: .*schema_migrations.*`,
			" <may not read the schema's version>",
		},
		{`: the database account, which VELOCITY_DSN .* lacks this right, .*\(velocity_admin\).* 'velocityd migrate roles': .*`, ": <advice>"},
		{`"check_id":"\d+"`, `"check_id":"<random>"`},
		{`"(data|before|after|state_after|state_before)":\{.*`, `"$1":<members>`},
		{`erased:[0-9a-f]{32}`, "erased:<random>"},
		{`vel_[0-9A-Za-z]+`, "<token>"},
		{`whsec_[0-9A-Za-z+/=]+`, "<secret>"},
		{`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z| UTC)?`, "<time>"},
		{`\b\d\d-\d\d \d\d:\d\d\b|\b\d{4}-\d\d-\d\d\b|\b\d\d:\d\d:\d\d(\.\d+)?\b`, "<time>"},
		{`\b(\d+h)?(\d+m)?\d+(\.\d+)?(µs|ms)\b|\b\d+\.\d+s\b`, "<length>"},
		{`"(retry_after|reset_after)": ?[1-9]\d*`, `"$1":<wait>`},
		{`(\n  <time>  \d+ .*)+`, "\n  <spans>"},
		{`\(\d+ s\)`, "(<wait> s)"},
		{`(retry after +|blocked for |in )\d+ s`, "$1<wait> s"},
	}
}

// maskAnswer puts placeholders in the place of the parts that differ from run to run.
func maskAnswer(t *testing.T, as, owner *enginetest.Database, text string) string {
	t.Helper()
	var names []string
	for i, d := range []*enginetest.Database{as, owner} {
		cfg := configOf(t, d.DSN)
		names = append(names, cfg.User, []string{"<account>", "<owner>"}[i], cfg.DBName, "<database>")
	}
	text = strings.NewReplacer(names...).Replace(text)
	for _, mask := range answerMasks() {
		text = regexp.MustCompile(mask.pattern).ReplaceAllString(text, mask.by)
	}
	return regexp.MustCompile(` +\n`).ReplaceAllString(text, "\n")
}
