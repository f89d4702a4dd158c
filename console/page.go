package console

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	"velocityd/api"
	"velocityd/client"
	"velocityd/console/format"
	"velocityd/handlers/admission"
	"velocityd/service"
	"velocityd/service/access"
)

//go:embed templates
var templates embed.FS

// pages are the templates, by the name of their file without its ending. Each is parsed when it is first shown.
type pages map[string]func() (*template.Template, error)

// page is all that a template gets.
type page struct {
	Name     string // of its template
	Title    string // of the window
	Place    string // the entry of the menu that it belongs to
	Menu     []entry
	Reader   string // "" without a login
	Open     bool   // no credential is needed
	CanLeave bool   // there is a session to end
	Notice   string // of the action that led to this page
	Path     string // where the console begins
	Content  any
	may      func(access.Scope) bool
	sent     *form
}

// May reports whether the reader has a scope, in any zone.
func (p page) May(scope access.Scope) bool { return p.may(scope) }

type entry struct {
	Name, Path string
	needs      []access.Scope // any of which is enough
}

func menu() []entry {
	const history, peek, overrides = access.ScopeHistory, access.ScopePeek, access.ScopeOverrides
	return []entry{
		{"Now", "", []access.Scope{history, peek}},
		{"History", "history", []access.Scope{history}},
		{"Locked", "locked", []access.Scope{peek}},
		{"Attacks", "attacks", []access.Scope{history}},
		{"Zones", "zones", []access.Scope{history, peek, access.ScopeRelease, access.ScopeZones, overrides}},
		{"Overrides", "overrides", []access.Scope{overrides}},
		{"Audit", "audit", []access.Scope{history}},
		{"Tokens", "tokens", []access.Scope{access.ScopeAdmin}},
		{"Health", "health", []access.Scope{history}},
	}
}

// notices are the sentences of actions, by the word in the address of the page that they lead to.
func notices() map[string]string {
	return map[string]string{
		"released": "The buckets are released: nothing counts in them, and no lockout holds. Each release stands in " +
			"the audit.",
		"zone":         "The zone was changed. All instances know it within a second.",
		"newzone":      "The zone was made.",
		"dropzone":     "The zone was deleted, with its overrides. Its attempts stay.",
		"override":     "The override holds from now on.",
		"dropoverride": "The override was deleted.",
		"back":         "The zone is as it was.",
		"revoke":       "The token was revoked. Every instance refuses it within five seconds.",
		"resend":       "The dead deliveries are tried again within seconds.",
	}
}

// parsePages parses the frame and the shared parts. Each page is parsed together with them.
func (c *console) parsePages() (pages, error) {
	names, err := fs.Glob(templates, "templates/*.html")
	if err != nil {
		return nil, err
	}
	shared, err := template.New("").Funcs(c.funcs()).ParseFS(templates, "templates/frame.html", "templates/parts.html")
	if err != nil {
		return nil, fmt.Errorf("parse what pages share: %w", err)
	}
	all := pages{}
	for _, name := range names {
		short := strings.TrimSuffix(path.Base(name), ".html")
		if short == "frame" || short == "parts" {
			continue
		}
		all[short] = sync.OnceValues(func() (*template.Template, error) {
			own, err := shared.Clone()
			if err != nil {
				return nil, fmt.Errorf("copy what pages share: %w", err)
			}
			return own.ParseFS(templates, name)
		})
	}
	return all, nil
}

// show writes a page. A template that fails is a fault of the program: the reader gets a plain sentence.
func (c *console) show(w http.ResponseWriter, r *http.Request, status int, p page) {
	p.Path = Path
	var text bytes.Buffer
	parsed, err := c.pages[p.Name]()
	if err == nil {
		err = parsed.ExecuteTemplate(&text, "frame", p)
	}
	if err != nil {
		c.showFault(w, r, p.Name, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	writePacked(w, r, status, text.Bytes())
}

// showFault says in place of a page that a fault of the program keeps it from being shown, which the log names.
func (c *console) showFault(w http.ResponseWriter, r *http.Request, page string, err error) {
	const sentence = "The page cannot be shown. This is a fault of the program, which its log names."
	http.Error(w, sentence, http.StatusInternalServerError)
	c.Logger.ErrorContext(r.Context(), "a page cannot be shown", slog.String("page", page), slog.Any("error", err))
}

func (v *visit) show(name, place, title string, content any) error {
	return v.showAs(http.StatusOK, name, place, title, content)
}

func (v *visit) showAs(status int, name, place, title string, content any) error {
	p := page{
		Name: name, Title: title, Place: place, Reader: v.reader.Principal, Open: v.reader.IsOpen, CanLeave: v.token != "",
		Notice: notices()[v.r.URL.Query().Get("done")], Content: content, may: v.may, sent: v.sent,
	}
	if v.sent != nil && status == http.StatusOK {
		status = statusOf(v.sent.err)
	}
	isEnough := func(scope access.Scope) bool { // tokens are for all zones
		return v.may(scope) && (scope != access.ScopeAdmin || v.mayEverywhere(scope))
	}
	for _, e := range menu() {
		if slices.ContainsFunc(e.needs, isEnough) {
			p.Menu = append(p.Menu, e)
		}
	}
	v.console.show(v.w, v.r, status, p)
	return nil
}

// failure is the content of the page that says why there is no other.
type failure struct {
	Do string
	// Away is nil unless the instance is not ready. IsForm says that the reader sent a form: it is not sent again.
	Away   *client.Readiness
	IsForm bool
}

// fail shows a page that says why there is no other.
func (v *visit) fail(status int, sentence, do string) error {
	return v.showAs(status, "failure", "", sentence, failure{Do: do})
}

// failBy is fail for an error of the HTTP interface.
func (v *visit) failBy(err error) error {
	if errors.Is(err, access.ErrMissingScope) {
		admission.LogEntryOf(v.r.Context()).Refuse(err)
	}
	status, sentence := statusOf(err), sentenceOf(err)
	if status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout {
		if state, err := v.readiness(); err == nil && state.Cause != "" {
			return v.showAs(status, "failure", "", "Not ready",
				failure{sentence, &state, v.r.Method == http.MethodPost})
		}
	}
	return v.fail(status, titleOf(status), sentence)
}

// statusOf returns the status of an error of the HTTP interface.
func statusOf(err error) int {
	if errors.As(err, new(unmeant)) {
		return http.StatusOK
	}
	if problem := (*api.Problem)(nil); errors.As(err, &problem) {
		return problem.Status
	}
	if kind, known := api.KindOf(err); known {
		return kind.Status
	}
	return http.StatusInternalServerError
}

func titleOf(status int) string {
	switch status {
	case http.StatusForbidden:
		return "Your credential does not allow this."
	case http.StatusNotFound:
		return "There is nothing of that name."
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return "This cannot be answered now."
	case http.StatusPreconditionFailed, http.StatusConflict:
		return "This was changed meanwhile."
	case http.StatusBadRequest:
		return "That cannot be done as it was asked."
	}
	return "This did not work."
}

// sentenceOf returns an error in words for people.
func sentenceOf(err error) string {
	_, rule := ruleOf(err)
	return format.UpperFirst(rule)
}

// ruleOf returns an error in words and, if it is about one field, the name of it, with which the words then begin.
func ruleOf(err error) (name, rule string) {
	if field := (*service.FieldError)(nil); errors.As(err, &field) {
		return field.Field, strings.TrimPrefix(field.Error(), service.ErrInvalid.Error()+": ") + "."
	}
	if errors.Is(err, service.ErrPrecondition) {
		return "", "It was changed meanwhile, and nothing was saved. The page shows it as it is now."
	}
	if problem := (*api.Problem)(nil); errors.As(err, &problem) {
		return strings.TrimPrefix(problem.Pointer, "/"), problem.Detail
	}
	if kind, known := api.KindOf(err); known && kind.Detail != "" {
		return "", kind.Detail
	}
	return "", err.Error()
}

// protected sets the headers that keep a page from loading, running or sending anything foreign.
func protected(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		// With no-referrer, browsers say of forms that they come from the origin "null".
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		if isEmbedded(r) {
			admission.LogEntryOf(r.Context()).Refuse(
				fmt.Errorf("%w: a page of another origin asks for a part of itself", api.ErrForeignOrigin))
			http.Error(w, "This is not for pages of other origins.", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isEmbedded reports whether a page of another origin asks for a part of itself, such as a picture: it would cost a
// report or an export, unseen.
func isEmbedded(r *http.Request) bool {
	site, dest := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Sec-Fetch-Dest")
	return (site == "cross-site" || site == "same-site") && dest != "" && dest != "document"
}

// policy lets pages load scripts, styles and pictures of this origin alone, and no script make markup of text.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types " +
	"velocityd"
