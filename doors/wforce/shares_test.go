package wforce_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"velocityd/service/access"
	"velocityd/tools/servicetest"
)

// TestOneTokensSlowBodiesKeepNoOtherOut has mallory send eight long bodies without an end.
func TestOneTokensSlowBodiesKeepNoOtherOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		credentials, tokens := new(servicetest.Credentials), map[string]string{}
		for _, name := range []string{"mallory", "mail"} {
			tokens[name] = credentials.AddToken(access.Caller{Name: name, Scopes: []access.Scope{access.ScopeCheck}}).Reveal()
		}
		p := newStore(t, credentials)
		p.door = p.newDoor(t)
		ask := func(name string, body io.Reader) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost,
				fmt.Sprintf("/wforce/%d/%d/?command=allow", userZone, addressZone), body)
			r.Header.Set("X-Api-Key", tokens[name])
			w := httptest.NewRecorder()
			p.door.ServeHTTP(w, r)
			return w
		}
		for range 8 {
			body, end := io.Pipe()
			defer end.Close()
			go ask("mallory", body)
		}
		synctest.Wait()
		long := `{"login":"alice","remote":"203.0.113.9"}` + strings.Repeat(" ", 8<<10)
		if w := ask("mallory", strings.NewReader(long)); w.Code != http.StatusServiceUnavailable ||
			!strings.Contains(w.Body.String(), "its share, 8") {
			t.Errorf("one more is answered %d %s", w.Code, w.Body)
		}
		if w := ask("mail", strings.NewReader(long)); w.Code != http.StatusOK {
			t.Errorf("another token is answered %d %s", w.Code, w.Body)
		}
	})
}
