package main

import (
	"fmt"
	"os"
	"os/user"
	"regexp"
	"strings"
)

// masks put placeholders in the place of texts that differ from run to run, numbered by their first appearance in an
// answer.
type masks struct {
	literal *strings.Replacer
	rules   []rule
	seen    map[string]string
	count   map[string]int
}

// rule masks the match of a pattern, or its first group. A rule without a number is the same for all.
type rule struct {
	name       string
	pattern    *regexp.Regexp
	isNumbered bool
}

func newMasks(folder, port, dbPort, version string) *masks {
	host, _ := os.Hostname()
	who := "nobody"
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	numbered := func(name, pattern string) rule { return rule{name, regexp.MustCompile(pattern), true} }
	plain := func(name, pattern string) rule { return rule{name, regexp.MustCompile(pattern), false} }
	return &masks{
		literal: strings.NewReplacer(folder, "<folder>", "127.0.0.1:"+port, "<address>", dbPort, "<port>", who+"@"+host,
			"<person>", version, "<version>"),
		rules: []rule{
			numbered("token", `vel_[0-9A-Za-z]+`),
			numbered("secret", `whsec_[0-9A-Za-z+/=]+`),
			plain("host", `"host": ?"([^"]*)"`),
			// Of another day in a sentence.
			plain("clock", `\b(?:at|until|since) (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?) UTC`),
			numbered("time", `\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d{3,9}Z?`),
			plain("time", `\d{4}-(?:\d\d|[A-Z][a-z]{2})-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:Z| UTC)?`),
			plain("clock", `\b\d\d:\d\d:\d\d(?:\.\d+)?`),
			plain("hour", `\b\d\d-\d\d \d\d:\d\d\b`), // of the table of a report
			plain("day", `\b20\d\d-\d\d-\d\d\b`),
			plain("length", `\b(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?(?:µs|ms)\b|\b\d+\.\d+s\b`),
			plain("wait", `(?m)^\d+ +https?://.* (\d+s) `), // of the table of webhooks
			plain("skew", `the engine's is ([^"\n]*)`),
			plain("wait", `"(?:retry_after|reset_after|deadline|age|lag)": ?([1-9]\d*)`),
			plain("count", `"calls": ?(\d+)`), // by how long they took
			plain("wait", `(?m)^(?:Retry-After|Ratelimit): (.*)$`),
			plain("engine", `\b\d+\.\d+\.\d+-MariaDB[\w.+:~-]*|\bMySQL \d+\.\d+\.\d+|MariaDB \d+\.\d+\.\d+`),
			plain("go", `go1\.\d+(?:\.\d+)?`),
			numbered("random", `\b[0-9a-f]{12,64}\b|\b[0-9A-Z]{12,26}\b|\b[a-z2-7]{20}\b|\b\d{12,20}\b`),
		},
	}
}

// literalBehind is how many rules come before the literal texts, which could stand in a token.
const literalBehind = 2

// of masks an answer.
func (m *masks) of(answer string) string {
	m.seen, m.count = map[string]string{}, map[string]int{}
	for i, r := range m.rules {
		if i == literalBehind {
			answer = m.literal.Replace(answer)
		}
		answer = r.pattern.ReplaceAllStringFunc(answer, func(found string) string {
			part := found
			if groups := r.pattern.FindStringSubmatch(found); len(groups) > 1 {
				part = groups[1]
			}
			return strings.Replace(found, part, m.placeholder(r, part), 1)
		})
	}
	return answer
}

func (m *masks) placeholder(r rule, value string) string {
	if !r.isNumbered {
		return "<" + r.name + ">"
	}
	if m.seen[value] == "" {
		m.count[r.name]++
		m.seen[value] = fmt.Sprintf("<%s-%d>", r.name, m.count[r.name])
	}
	return m.seen[value]
}
