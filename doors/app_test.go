//go:build doors

package doors_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// right is the password of all users.
const right = "right"

// seen is a request as the application got it.
type seen struct {
	user   string
	header http.Header
	body   string
}

// application answers 200 to the right password and 401 to others, and tells velocityd how the login ended.
type application struct {
	address string
	t       *testing.T
	report  func(r *http.Request, outcome string) error

	mu   sync.Mutex
	seen []seen
}

func newApplication(t *testing.T) *application {
	t.Helper()
	a := &application{t: t}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.address = strings.TrimPrefix(server.URL, "http://")
	return a
}

// ServeHTTP takes a login: the user of Authorization: Basic, else that of a form.
func (a *application) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		a.t.Errorf("the application reads a body: %v", err)
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	user, password, isBasic := r.BasicAuth()
	if !isBasic {
		user, password = r.FormValue("username"), r.FormValue("password")
	}
	a.mu.Lock()
	a.seen = append(a.seen, seen{user, r.Header.Clone(), string(body)})
	a.mu.Unlock()
	status, outcome := http.StatusOK, "success"
	if password != right {
		status, outcome = http.StatusUnauthorized, "failure"
	}
	if a.report != nil {
		if err := a.report(r, outcome); err != nil {
			a.t.Errorf("report %s of %s: %v", outcome, user, err)
		}
	}
	w.WriteHeader(status)
}

// of returns the requests for a user.
func (a *application) of(user string) (list []seen) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.seen {
		if s.user == user {
			list = append(list, s)
		}
	}
	return list
}
