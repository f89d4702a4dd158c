package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
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

// answer is what an application has answered.
type answer struct {
	status int
	header http.Header
	body   []byte // its beginning
}

// ParseRule reads a rule: conditions with spaces between them, such as 'status:303 !location:/login'. A value with a space or
// a comma in it is percent-encoded.
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
		return condition{}, errors.New("a condition is a kind and a value, such as status:302; a % in the value is written as %25")
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
	case "location", "cookie", "body":
	default:
		return condition{}, errors.New("the kinds of conditions are status, location, cookie, body and json")
	}
	return c, nil
}

// outcome returns how a login ended, or "" if no rule tells. A rule of failure wins: an answer that looks like both
// must not give a guess its place back.
func (r Rules) outcome(a answer) service.Outcome {
	for _, rule := range r.Failure {
		if rule.holds(a) {
			return service.OutcomeFailure
		}
	}
	for _, rule := range r.Success {
		if rule.holds(a) {
			return service.OutcomeSuccess
		}
	}
	return ""
}

// looksAtBody reports whether a rule needs the body of an answer.
func (r Rules) looksAtBody() bool {
	for _, rules := range [][]Rule{r.Success, r.Failure} {
		for _, rule := range rules {
			for _, c := range rule {
				if c.kind == "body" || c.kind == "json" {
					return true
				}
			}
		}
	}
	return false
}

func (r Rule) holds(a answer) bool {
	for _, c := range r {
		if c.isShown(a) == c.negated {
			return false
		}
	}
	return true
}

func (c condition) isShown(a answer) bool {
	switch c.kind {
	case "status":
		class, isClass := strings.CutSuffix(c.value, "xx")
		status := strconv.Itoa(a.status)
		return status == c.value || isClass && strings.HasPrefix(status, class)
	case "location":
		return strings.HasPrefix(pathIn(a.header.Get("Location")), c.value)
	case "cookie":
		return setsCookie(a.header, c.value)
	case "body":
		return bytes.Contains(a.body, []byte(c.value))
	}
	value, ok := memberOf(a.body, jsontext.Pointer(c.value))
	return ok && (c.want == "" || value == c.want)
}

// pathIn returns a Location without scheme and host.
func pathIn(location string) string {
	u, err := url.Parse(location)
	if err != nil {
		return location
	}
	u.Scheme, u.Host, u.User = "", "", nil
	return u.String()
}

// setsCookie reports whether an answer sets a cookie of this name, and does not remove it.
func setsCookie(header http.Header, name string) bool {
	for _, cookie := range (&http.Response{Header: header}).Cookies() {
		isGone := cookie.MaxAge < 0 || !cookie.Expires.IsZero() && cookie.Expires.Unix() <= 1
		if cookie.Name == name && cookie.Value != "" && !isGone {
			return true
		}
	}
	return false
}

// memberOf returns the member of a JSON text as it is written there, but for the quotes of a string. ok is false if
// there is none, or null.
func memberOf(text []byte, pointer jsontext.Pointer) (value string, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var part any
	if decoder.Decode(&part) != nil || !errors.Is(decoder.Decode(new(any)), io.EOF) {
		return "", false
	}
	for name := range pointer.Tokens() {
		switch of := part.(type) {
		case map[string]any:
			part = of[name]
		case []any:
			i, err := strconv.ParseUint(name, 10, 16)
			if err != nil || i >= uint64(len(of)) {
				return "", false
			}
			part = of[i]
		default:
			return "", false
		}
	}
	return fmt.Sprint(part), part != nil
}
