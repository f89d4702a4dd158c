package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"velocityd/api"
	"velocityd/client"
	"velocityd/handlers/admission"
	"velocityd/service"
	"velocityd/service/access"
)

const (
	// longestForm bounds the body of a form, in bytes.
	longestForm = 64 << 10
	// reportTimeout bounds the report of how a log-in has ended. A place is kept by a report that is lost.
	reportTimeout = client.DefaultTimeout
)

// login is the content of the page on which a reader logs in.
type login struct {
	Fault string
	// NoCookie says that a log-in has just succeeded and the browser has not kept its cookie.
	NoCookie bool
}

func (c *console) showLogin(w http.ResponseWriter, r *http.Request) {
	c.show(w, r, http.StatusOK, page{Name: "login", Title: "Log in", Content: login{NoCookie: r.URL.Query().Has("done")}})
}

// logIn begins a session for a token that holds. It asks the zone of log-ins before it looks at the token.
func (c *console) logIn(w http.ResponseWriter, r *http.Request) {
	if err := c.readForm(w, r); err != nil {
		c.refuse(w, r, http.StatusForbidden, "This form was not sent by this page. Load the page again, and log in there.",
			err)
		return
	}
	report, refusal, err := c.mayLogIn(r)
	if refusal != nil {
		c.refuse(w, r, refusal.Status, refusal.Detail, err)
		return
	}
	token := strings.TrimSpace(r.PostForm.Get("token"))
	v, err := c.visit(w, r, token)
	isKnown := err == nil
	if isKnown || errors.Is(err, access.ErrUnauthenticated) {
		report(isKnown)
	}
	switch {
	case errors.Is(err, access.ErrUnauthenticated):
		c.refuse(w, r, http.StatusUnauthorized, "No live token reads so. It may be misspelt, expired or revoked.", err)
	case err != nil:
		c.refuse(w, r, http.StatusServiceUnavailable, sentenceOf(err), err)
	default:
		now := c.Now()
		c.setCookie(w, c.sessions.seal(session{Token: token, BeganAt: now, UsedAt: now}), sessionLength)
		_ = v.goTo("?done=login")
	}
}

// refuse shows the page of log-ins again. The log gets err, unless it is nil.
func (c *console) refuse(w http.ResponseWriter, r *http.Request, status int, fault string, err error) {
	admission.LogEntryOf(r.Context()).Refuse(err)
	c.show(w, r, status, page{Name: "login", Title: "Log in", Content: login{Fault: fault}})
}

// mayLogIn asks the zone of log-ins. report says how the log-in has ended. refusal is nil if it may go ahead, and err
// is nil if it may or if too many came.
func (c *console) mayLogIn(r *http.Request) (report func(isKnown bool), refusal *api.Problem, err error) {
	if c.LoginZone == 0 {
		return func(bool) {}, nil, nil
	}
	peer, _ := netip.ParseAddrPort(r.RemoteAddr) // the zero value is not valid
	address, ok := c.Proxies.Client(peer.Addr(), r.Header["X-Forwarded-For"], r.Header["Forwarded"])
	if !ok { // the caller could choose one of the two, and so the bucket
		return nil, &api.Problem{Status: http.StatusBadRequest, Detail: "The headers X-Forwarded-For and Forwarded lead to " +
				"different addresses. Let the proxy remove the one that it does not write."},
			fmt.Errorf("%w: X-Forwarded-For and Forwarded differ", service.ErrInvalid)
	}
	check := service.Check{Buckets: []service.Bucket{{ZoneID: c.LoginZone, Key: address.String()}}}
	decisions, err := c.Limiter.CheckAll(r.Context(), []service.Check{check})
	if err == nil {
		err = decisions[0].Err
	}
	switch {
	case err != nil:
		return nil, &api.Problem{
			Status: http.StatusServiceUnavailable,
			Detail: fmt.Sprintf("Zone %d, in which --console-zone checks log-ins, does not decide now. %s", c.LoginZone,
				sentenceOf(err)),
		}, err
	case decisions[0].Blocked:
		return nil, &api.Problem{
			Status: http.StatusTooManyRequests,
			Detail: fmt.Sprintf("Too many log-ins came from your address. Try again in %d s.",
				service.WholeSeconds(decisions[0].RetryAfter())),
		}, nil
	case decisions[0].Degraded: // it is recorded nowhere, so nothing can be reported
		return func(bool) {}, nil, nil
	}
	return func(isKnown bool) { c.report(r.Context(), decisions[0].Verdicts[0].TxnID, isKnown) }, nil, nil
}

// report tells the zone of log-ins how one has ended. A report that fails leaves its txn without an outcome.
func (c *console) report(ctx context.Context, txn uint64, isKnown bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	outcome := service.OutcomeFailure
	if isKnown {
		outcome = service.OutcomeSuccess
	}
	_, _ = c.Outcomes.ReportAll(ctx, []service.Report{{TxnID: txn, Outcome: outcome}})
}

func (c *console) logOut(w http.ResponseWriter, r *http.Request) {
	if err := c.readForm(w, r); err != nil {
		admission.LogEntryOf(r.Context()).Refuse(err)
	} else {
		c.setCookie(w, "", 0)
	}
	http.Redirect(w, r, Path+"login", http.StatusSeeOther)
}

// readForm reads the form of a request, which must come from a page of this origin. The error wraps
// api.ErrForeignOrigin if it does not, and else service.ErrInvalid.
func (c *console) readForm(w http.ResponseWriter, r *http.Request) error {
	if c.origins.Check(r) != nil {
		return fmt.Errorf("%w: the form was not sent by a page of the console", api.ErrForeignOrigin)
	}
	r.Body = http.MaxBytesReader(w, r.Body, longestForm)
	if r.ParseForm() != nil {
		return fmt.Errorf("%w: the form is too long or malformed", service.ErrInvalid)
	}
	return nil
}
