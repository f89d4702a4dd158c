package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
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
	Fault, Ended string // the sentences that say why the last log-in failed and how the last session ended, or ""
	To           string // the page that was asked for, sealed, or ""
	NoCookie     bool   // a log-in has just succeeded, and the browser has not kept its cookie
}

// showLogin leads readers that have a session to the page that they asked for, and shows others the log-in.
func (c *console) showLogin(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	s, ended := c.session(r)
	switch _, err := r.Cookie(cookieName(r)); {
	case s.Token != "":
		http.Redirect(w, r, c.pageIn(query.Get("to")), http.StatusSeeOther)
		return
	case err != nil && r.Header.Get("Sec-Fetch-Site") == "cross-site" && !query.Has("here"):
		// A link of another site has led here, so the browser has kept the cookie back. It sends it if this page asks.
		query.Set("here", "1")
		again := "login?" + query.Encode()
		w.Header().Set("Refresh", "0; url="+again)
		c.show(w, r, http.StatusOK, page{Name: "elsewhere", Title: "One moment", Content: again})
		return
	case query.Has("refused"):
		ended = "Its token was revoked or has expired."
	}
	content := login{Ended: ended, NoCookie: query.Has("done"), To: query.Get("to")}
	c.show(w, r, http.StatusOK, page{Name: "login", Title: "Log in", Content: content})
}

// sendToLogin leads an unknown reader to the log-in, and from there back to the page that it asked for.
func (c *console) sendToLogin(w http.ResponseWriter, r *http.Request, s session) {
	if r.Header.Get(fieldLive) != "" {
		w.WriteHeader(http.StatusUnauthorized) // the page says so, in place of a log-in inside it
		return
	}
	query := url.Values{}
	if address := r.URL.RequestURI(); r.Method == http.MethodGet && address != Path && isPage(address) {
		query.Set("to", c.asked.seal(address))
	}
	if s.Token != "" {
		query.Set("refused", "1")
		setCookie(w, r, "")
	}
	// The address is relative, so that a log-in below a prefix is shown, with the sentence that says what to do.
	up := strings.Repeat("../", strings.Count(r.URL.EscapedPath(), "/")-strings.Count(Path, "/"))
	w.Header().Set("Location", up+"login?"+query.Encode())
	w.WriteHeader(http.StatusSeeOther)
}

// pageIn returns the address that is sealed in text, or that of the first page.
func (c *console) pageIn(text string) (address string) {
	if c.asked.open(text, &address) && isPage(address) {
		return address
	}
	return Path
}

// isPage reports whether an address leads to a page of the console, however a browser reads it. Exports and steps
// upwards have a dot in their path, and pages have none. Of answers proxies take heads of 4 KiB, so it is short.
func isPage(address string) bool {
	u, err := url.ParseRequestURI(address)
	return err == nil && len(address) <= 2<<10 && strings.HasPrefix(address, Path) &&
		!strings.Contains(u.Path, ".") && !strings.Contains(u.Path+u.RawQuery, "//") &&
		!strings.Contains(u.Path+u.RawQuery, `\`)
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
		setCookie(w, r, c.sessions.seal(session{Token: token, BeganAt: now, UsedAt: now}))
		_ = v.goTo("login?done=login&to=" + url.QueryEscape(r.PostForm.Get("to")))
	}
}

// refuse shows the page of log-ins again. The log gets err, unless it is nil.
func (c *console) refuse(w http.ResponseWriter, r *http.Request, status int, fault string, err error) {
	admission.LogEntryOf(r.Context()).Refuse(err)
	content := login{Fault: fault, To: r.PostForm.Get("to")}
	c.show(w, r, status, page{Name: "login", Title: "Log in", Content: content})
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
		setCookie(w, r, "")
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
