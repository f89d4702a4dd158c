package proxy

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"net/http"
	"strconv"
	"strings"
	"text/template"

	"velocityd/service"
)

// The pages where Pages has no others.
//
//go:embed blocked.html
var blockedHTML string

//go:embed blocked.json
var blockedJSON string

// Pages are the answers to a user in place of the application's.
type Pages struct {
	html *htmltemplate.Template
	json *template.Template
}

// pageData is the data of a page's template.
type pageData struct {
	Status     int   // 429: too many attempts; 503: log-ins are not possible at the moment
	RetryAfter int64 // seconds; 0 if it is not known
}

// ParsePages reads templates of HTML and of JSON with {{.Status}} and {{.RetryAfter}}, the whole seconds to wait. An
// empty text means the page of the package.
func ParsePages(html, jsonText string) (Pages, error) {
	if html == "" {
		html = blockedHTML
	}
	if jsonText == "" {
		jsonText = blockedJSON
	}
	var p Pages
	var err error
	if p.html, err = htmltemplate.New("html").Parse(html); err != nil {
		return Pages{}, fmt.Errorf("read the page of HTML: %w", err)
	}
	if p.json, err = template.New("json").Parse(jsonText); err != nil {
		return Pages{}, fmt.Errorf("read the page of JSON: %w", err)
	}
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		var text bytes.Buffer
		if err := p.html.Execute(&text, pageData{status, 1}); err != nil {
			return Pages{}, fmt.Errorf("try the page of HTML: %w", err)
		}
		text.Reset()
		if err := p.json.Execute(&text, pageData{status, 1}); err != nil {
			return Pages{}, fmt.Errorf("try the page of JSON: %w", err)
		}
		if !json.Valid(text.Bytes()) {
			return Pages{}, errors.New("the page of JSON does not make valid JSON")
		}
	}
	return p, nil
}

// write answers a login that does not reach the application.
func (p Pages) write(w http.ResponseWriter, r *http.Request, t pageData) {
	var text bytes.Buffer
	media := "text/html; charset=utf-8"
	var err error
	if wantsJSON(r) {
		media = "application/json"
		err = p.json.Execute(&text, t)
	} else {
		err = p.html.Execute(&text, t)
	}
	if err != nil { // ParsePages has tried them
		text.Reset()
		media = "text/plain; charset=utf-8"
		text.WriteString(http.StatusText(t.Status) + "\n")
	}
	header := w.Header()
	header.Set("Content-Type", media)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Length", strconv.Itoa(text.Len()))
	if t.RetryAfter > 0 {
		header.Set("Retry-After", strconv.FormatInt(t.RetryAfter, 10))
	}
	w.WriteHeader(t.Status)
	_, _ = w.Write(text.Bytes()) // an error means that the client has gone
}

// wantsJSON reports whether a program asks, and not a person: browsers that open a page always name text/html.
func wantsJSON(r *http.Request) bool {
	accept := strings.ToLower(strings.Join(r.Header.Values("Accept"), ","))
	if strings.Contains(accept, "text/html") {
		return false
	}
	return strings.Contains(accept, "json") || strings.Contains(strings.ToLower(r.Header.Get("Content-Type")), "json")
}

// pageOf returns the page for a blocked user. A decision without the database tells nothing of the user's attempts.
func pageOf(d service.Decision) pageData {
	t := pageData{http.StatusTooManyRequests, service.WholeSeconds(d.RetryAfter())}
	if d.Degraded {
		t.Status = http.StatusServiceUnavailable
	}
	return t
}
