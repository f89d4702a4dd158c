package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"velocityd/service"
)

// Rules tell by an application's answer how a login ended. The zero value tells nothing.
type Rules struct{ Success, Failure []Rule }

// Rule holds if all its conditions do.
type Rule []condition

// condition is one thing that an answer may show.
type condition struct {
	kind    string // status, location, cookie, body or json
	value   string // the text; of json the pointer
	want    string // of json; "" means that the member is there
	negated bool
}

// ParseRule reads a rule: conditions with spaces between them, such as 'status:303 !location:/login'. A value with a
// space or a comma in it is percent-encoded.
func ParseRule(text string) (Rule, error) {
	var rule Rule
	for word := range strings.FieldsSeq(text) {
		c, err := parseCondition(word)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", word, err)
		}
		rule = append(rule, c)
	}
	if len(rule) == 0 {
		return nil, errors.New("a rule has a condition at least, such as status:302")
	}
	return rule, nil
}

func parseCondition(word string) (condition, error) {
	word, isNegated := strings.CutPrefix(word, "!")
	kind, encoded, _ := strings.Cut(word, ":")
	value, err := url.PathUnescape(encoded)
	if err != nil || value == "" {
		return condition{}, errors.New(
			"a condition is a kind and a value, such as status:302; a % in the value is written as %25")
	}
	c := condition{kind: kind, value: value, negated: isNegated}
	switch kind {
	case "status":
		_, err := strconv.ParseUint(strings.Replace(value, "xx", "00", 1), 10, 16)
		if err != nil || len(value) != 3 {
			return condition{}, errors.New("a status is a number such as 302, or a class such as 2xx")
		}
	case "json":
		c.value, c.want, _ = strings.Cut(value, "=")
		if !jsontext.Pointer(c.value).IsValid() || c.value == "" {
			return condition{}, errors.New("json takes a JSON pointer, such as json:/status=OK")
		}
	case "location":
		if value[0] != '/' {
			return condition{}, errors.New("a location is a path that begins with /, because relative ones are resolved before")
		}
	case "cookie", "body":
	default:
		return condition{}, errors.New("the kinds of conditions are status, location, cookie, body and json")
	}
	return c, nil
}

// outcome returns how a login ended, or "" if no rule tells. A rule of failure wins: an answer that looks like both
// must not give a guess its place back. For the same reason a rule of failure needs one reading of the answer in which
// it holds, and one of success holds in all.
func (r Rules) outcome(a answer) service.Outcome {
	for _, rule := range r.Failure {
		if rule.holds(a, func(s evidence) bool { return s.yes }) {
			return service.OutcomeFailure
		}
	}
	for _, rule := range r.Success {
		if rule.holds(a, func(s evidence) bool { return s.yes && !s.no }) {
			return service.OutcomeSuccess
		}
	}
	return ""
}

// looksAtBody reports whether a rule needs the body of an answer.
func (r Rules) looksAtBody() bool {
	needsBody := func(c condition) bool { return c.kind == "body" || c.kind == "json" }
	return slices.ContainsFunc(slices.Concat(r.Success, r.Failure),
		func(rule Rule) bool { return slices.ContainsFunc(rule, needsBody) })
}

// holds reports whether the evidence of all conditions meets isMet.
func (r Rule) holds(a answer, isMet func(evidence) bool) bool {
	return !slices.ContainsFunc(r, func(c condition) bool {
		s := c.in(a)
		if c.negated {
			s.yes, s.no = s.no, s.yes
		}
		return !isMet(s)
	})
}

// in returns the evidence of the condition in an answer, without its negation.
func (c condition) in(a answer) evidence {
	switch c.kind {
	case "status":
		class, isClass := strings.CutSuffix(c.value, "xx")
		status := strconv.Itoa(a.status)
		return certain(status == c.value || isClass && strings.HasPrefix(status, class))
	case "location":
		return a.leadsTo(c.value)
	case "cookie":
		return a.sets(c.value)
	}
	switch {
	case !a.isReadable():
		return evidence{}
	case c.kind == "body":
		return certain(bytes.Contains(a.body, []byte(c.value)))
	}
	return a.has(jsontext.Pointer(c.value), c.want)
}
