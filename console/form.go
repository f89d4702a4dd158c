package console

import (
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"velocityd/api"
	"velocityd/console/format"
	"velocityd/service/access"
	"velocityd/service/lint"
)

// form is a form as its page draws it: with the values that it begins with or, after an action that was not done, with
// those that the reader has typed and with the faults at their fields.
type form struct {
	url.Values
	Action string            // path and query, by which a page knows its form again
	Fault  string            // about no field
	Wrong  map[string]string // sentences, by the names of their fields
	unmeant
	err     error // that kept the action from being done; nil: the form was not sent
	first   string
	isDrawn bool
}

// faults are several errors of one form, of which some may be nil.
type faults []error

func (f faults) Error() string   { return errors.Join(f...).Error() }
func (f faults) Unwrap() []error { return f }

// unmeant is the error of a form that could be carried out and was not: it is probably not meant, or was sent for a
// look.
type unmeant struct {
	Findings []lint.Finding
	IsLook   bool
}

func (unmeant) Error() string { return "probably not meant" }

// again returns an action whose page shows the form again if it is not done: as it was typed, with each fault at its
// field.
func again(act, page func(*visit) error) func(*visit) error {
	return func(v *visit) error {
		err := act(v)
		if err == nil || errors.Is(err, access.ErrUnauthenticated) || statusOf(err) == http.StatusForbidden {
			return err
		}
		v.sent = &form{Values: v.r.PostForm, Action: v.r.URL.RequestURI(), Wrong: map[string]string{}, err: err}
		v.sent.blame(err)
		if page(v) != nil {
			return err // its page keeps the form
		}
		return nil
	}
}

// blame writes an error to the field that it is about, if the form has it.
func (f *form) blame(err error) {
	many, _ := err.(faults) //nolint:errorlint // they are never wrapped
	for _, one := range many {
		f.blame(one)
	}
	if many != nil || err == nil || errors.As(err, &f.unmeant) {
		return
	}
	name, rule := ruleOf(err)
	atField := strings.TrimPrefix(rule, name+" ")
	if name == "prefix" {
		name = "bucket_key" // a field takes either
	}
	switch {
	case !f.Has(name):
		f.Fault = format.UpperFirst(rule)
	case f.Wrong[name] == "":
		f.Wrong[name] = format.UpperFirst(atField)
		if f.first == "" {
			f.first = name
		}
	}
}

// invalid returns the error of a form that cannot be taken, as a sentence.
func invalid(sentence string) error {
	return &api.Problem{Status: http.StatusBadRequest, Detail: sentence}
}

// at returns the form of an action: the one that was sent, if it is that, or one that begins with some values.
func (f *form) at(action string, begin url.Values) form {
	if f == nil || f.Action != action {
		return form{Action: action, Values: begin, Wrong: map[string]string{}}
	}
	f.isDrawn = true
	return *f
}

// Form returns the form of an action, which begins with some values or with none.
func (p page) Form(action string, begin ...url.Values) form {
	return p.sent.at(action, append(begin, nil)[0])
}

// Unclaimed returns the form that was sent, if no part of the page has drawn it: nothing that was typed gets lost.
func (p page) Unclaimed() *form {
	if p.sent == nil || p.sent.isDrawn {
		return nil
	}
	return p.sent
}

// IsSent reports whether the reader has sent the form, and its action was not done.
func (f form) IsSent() bool { return f.err != nil }

// Marks reports whether a box was marked.
func (f form) Marks(name string, value any) bool {
	return slices.Contains(f.Values[name], fmt.Sprint(value))
}

// Mark returns the attributes of a field that is wrong. The first one gets the focus.
func (f form) Mark(name string) template.HTMLAttr {
	mark := ""
	if f.Wrong[name] != "" {
		mark = fmt.Sprintf(` aria-invalid="true" aria-describedby="wrong-%s"`, name)
	}
	if f.first == name && f.Fault == "" && mark != "" {
		mark += " autofocus"
	}
	return template.HTMLAttr(mark) //nolint:gosec // names are ours
}
