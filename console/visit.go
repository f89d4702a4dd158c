package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"velocityd/api"
	"velocityd/client"
	"velocityd/client/inprocess"
	"velocityd/handlers/admission"
	"velocityd/service"
	"velocityd/service/access"
)

// visitTimeout is the deadline of all that one page asks, but for attacks and exports.
const visitTimeout = 10 * time.Second

// visit is one request of a known reader.
type visit struct {
	*console
	w      http.ResponseWriter
	r      *http.Request
	api    *client.Client
	token  string // "" if the reader is known without one
	reader access.Identity
	sent   *form // that was not taken, or nil
}

// visit finds the caller, by a token or, without one, by all that the request itself says. The error is that of the
// HTTP interface, and wraps access.ErrUnauthenticated for an unknown reader.
func (c *console) visit(w http.ResponseWriter, r *http.Request, token string) (*visit, error) {
	asker, err := client.New("http://velocityd", client.WithToken(token), client.WithTimeout(visitTimeout),
		client.WithUserAgent("velocityd-console"),
		client.WithHTTPClient(&http.Client{Transport: inprocess.Transport{API: c.API, Caller: r}}))
	if err != nil {
		return nil, access.ErrUnauthenticated // text that no header can hold is no token
	}
	v := &visit{console: c, w: w, r: r, api: asker, token: token}
	v.reader, err = asker.Identity(r.Context(), "")
	return v, err
}

// visited returns the handler of a page for known readers. Others are led to the log-in.
func (c *console) visited(handle func(*visit) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, _ := c.session(r)
		v, err := c.visit(w, r, s.Token)
		isKnown := err == nil
		if isKnown && r.Method == http.MethodPost {
			err = c.readForm(w, r)
		}
		if isKnown && err != nil {
			admission.LogEntryOf(r.Context()).Refuse(err)
			const detail = "It was not sent by a page of this console, or it is too long."
			err = &api.Problem{Title: "This form was not taken", Status: http.StatusForbidden, Detail: detail}
		}
		if err == nil {
			if s.Token != "" {
				c.keepSession(w, r, s)
			}
			err = handle(v)
		}
		switch {
		case errors.Is(err, access.ErrUnauthenticated): // perhaps since the page began
			c.sendToLogin(w, r, s)
		case err != nil:
			_ = v.failBy(err)
		}
	}
}

// withDeadline returns a page whose answers must all be there within visitTimeout, however many questions it asks.
func withDeadline(handle func(*visit) error) func(*visit) error {
	return func(v *visit) error {
		ctx, cancel := context.WithTimeout(v.r.Context(), visitTimeout)
		defer cancel()
		v.r = v.r.WithContext(ctx)
		return handle(v)
	}
}

// about returns a page or action about something that the path names, such as a zone.
func about[T any](named func(*visit) (T, error), handle func(*visit, T) error) func(*visit) error {
	return func(v *visit) error {
		thing, err := named(v)
		if err != nil {
			return err
		}
		return handle(v, thing)
	}
}

// requiring returns a page or action that is refused to readers without a scope. It is for forms, which ask the
// interface for less than they offer.
func requiring(scope access.Scope, handle func(*visit) error) func(*visit) error {
	return func(v *visit) error {
		if !v.may(scope) {
			return &api.Problem{
				Status: http.StatusForbidden, Code: "missing_scope",
				Detail: fmt.Sprintf("It takes the scope %s.", scope),
			}
		}
		return handle(v)
	}
}

// may reports whether the reader has a scope, in any zone.
func (v *visit) may(scope access.Scope) bool {
	return v.reader.IsOpen || v.reader.Has(scope)
}

// goTo leads the browser to another page, after a form.
func (v *visit) goTo(path string) error {
	v.w.Header().Set("Location", Path+path) // it begins at the console's path, whatever follows
	v.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// confirmed returns the context of an action whose form has a reason and the text that the reader had to type, which is
// called thing.
func (v *visit) confirmed(thing, text string) (context.Context, error) {
	ctx, err := v.withReason()
	if strings.TrimSpace(v.r.PostForm.Get("typed")) != text {
		err = faults{service.NewFieldError("typed", "is not the %s", thing), err}
	}
	return ctx, err
}

// withReason returns the context of a change, which is recorded with the reason that the form gives. The error is a
// service.ErrInvalid if it gives none.
func (v *visit) withReason() (context.Context, error) {
	reason := strings.TrimSpace(v.r.PostForm.Get("reason"))
	return service.WithReason(v.r.Context(), reason), service.ValidateReason(reason)
}
