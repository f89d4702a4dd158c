//go:build doors

package doors_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"velocityd/tools/enginetest"
)

// kratosSettings are those of Kratos: log-ins by password, public and admin port, the address that browsers use, a
// schema.
const kratosSettings = `serve:
  public: {host: 127.0.0.1, port: PUBLIC, base_url: "BASE/"}
  admin: {host: 127.0.0.1, port: ADMIN}
selfservice:
  default_browser_return_url: BASE/welcome
  flows:
    login: {ui_url: "BASE/page/login"}
    error: {ui_url: "BASE/page/error"}
secrets: {cookie: [a-secret-of-a-test-of-32-letters], cipher: [a-secret-of-a-test-of-32-letters]}
hashers: {algorithm: bcrypt, bcrypt: {cost: 4}}
identity:
  default_schema_id: default
  schemas: [{id: default, url: "file://SCHEMA"}]
courier: {smtp: {connection_uri: "smtp://127.0.0.1:1/"}}
`

const kratosSchema = `{"$id": "https://velocityd.test/person", "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
 "properties": {"traits": {"type": "object", "properties": {"email": {"type": "string", "format": "email",
  "ory.sh/kratos": {"credentials": {"password": {"identifier": true}}}}}, "required": ["email"]}}}`

// startKratos starts Kratos with a database and one person, whose browser comes by base, and returns where it listens.
func startKratos(t *testing.T, program, base, person string) (public string) {
	t.Helper()
	folder := t.TempDir()
	public, admin := freeAddress(t), freeAddress(t)
	port := func(address string) string { return address[strings.LastIndex(address, ":")+1:] }
	schema, settings := filepath.Join(folder, "schema.json"), filepath.Join(folder, "kratos.yaml")
	text := strings.NewReplacer("PUBLIC", port(public), "ADMIN", port(admin), "BASE", base, "SCHEMA", schema).Replace(
		kratosSettings)
	for path, text := range map[string]string{schema: kratosSchema, settings: text} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config, err := mysql.ParseDSN(enginetest.First(t).Empty(t).DSN)
	if err != nil {
		t.Fatal(err)
	}
	config.ParseTime, config.MultiStatements = true, true
	env := []string{"DSN=mysql://" + config.FormatDSN(), "SQA_OPT_OUT=true"}
	migrate := exec.CommandContext(t.Context(), program, "migrate", "sql", "-e", "--yes")
	migrate.Env = append(os.Environ(), env...)
	if out, err := migrate.CombinedOutput(); err != nil {
		t.Fatalf("migrate Kratos: %v\n%s", err, out)
	}
	kratos := start(t, env, program, "serve", "--config", settings, "--dev")
	kratos.await(t, public)
	kratos.await(t, admin)
	body := fmt.Sprintf(
		`{"schema_id": "default", "traits": {"email": %q}, "credentials": {"password": {"config": {"password": %q}}}}`,
		person, right)
	r := request(t, http.MethodPost, "http://"+admin+"/admin/identities", body)
	r.Header.Set("Content-Type", "application/json")
	if made, err := send(t, r, "127.0.0.1"); err != nil || made.status != http.StatusCreated {
		t.Fatalf("make a person: %d %s (%v)", made.status, made.body, err)
	}
	return public
}

// TestKratosBehindTheProxy logs in as an app, by JSON, and as a browser, by the form of Kratos' flow, with wrong
// passwords and the right one; and holds the outcomes in the history.
func TestKratosBehindTheProxy(t *testing.T) {
	t.Parallel()
	program := gateway(t, "kratos")
	for name, logIn := range map[string]func(t *testing.T, at, user, password string) int{
		"an app":    kratosByJSON,
		"a browser": kratosByForm,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const person = "Alice@example.org"
			w := newWorld(t, "--require-auth")
			listen := freeAddress(t)
			at := "http://" + listen
			public := startKratos(t, program, at, person)
			w.startProxyAt(t, listen, "proxy/kratos.yaml", "127.0.0.1:4433", public)
			refused, passed := http.StatusBadRequest, http.StatusOK
			if name == "a browser" {
				refused, passed = http.StatusSeeOther, http.StatusSeeOther
			}
			for i := range userRate - 1 {
				if got := logIn(t, at, person, fmt.Sprint("guess", i)); got != refused {
					t.Fatalf("guess %d: %d, want %d of Kratos", i+1, got, refused)
				}
			}
			if got := logIn(t, at, person, right); got != passed {
				t.Errorf("the right password: %d, want %d of Kratos", got, passed)
			}
			w.hasOutcomes(t, strings.ToLower(person), 1, userRate-1, 0)
			if got := logIn(t, at, person, "guess"); got != refused {
				t.Errorf("the last guess within the limit: %d, want %d of Kratos", got, refused)
			}
			if got := logIn(t, at, person, right); got != http.StatusTooManyRequests {
				t.Errorf("beyond the limit: %d, want 429", got)
			}
		})
	}
}

// kratosByJSON logs in as an app does, and returns the status.
func kratosByJSON(t *testing.T, at, user, password string) int {
	t.Helper()
	flow, _ := kratosFlow(t, http.DefaultClient, at+"/self-service/login/api")
	body, _ := json.Marshal(map[string]string{"method": "password", "identifier": user, "password": password})
	r := request(t, http.MethodPost, at+"/self-service/login?flow="+flow, string(body))
	r.Header.Set("Content-Type", "application/json")
	got, err := send(t, r, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return got.status
}

// kratosByForm logs in as a browser does, and returns the status. A redirection that sets no session is a failure.
func kratosByForm(t *testing.T, at, user, password string) int {
	t.Helper()
	jar, _ := cookiejar.New(nil)
	browser := &http.Client{
		Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := browser.Get(at + "/self-service/login/browser")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	to, err := response.Location()
	if err != nil {
		t.Fatalf("the flow of a browser begins with %d (%v)", response.StatusCode, err)
	}
	flow, csrf := kratosFlow(t, browser, at+"/self-service/login/flows?id="+to.Query().Get("flow"))
	form := url.Values{"method": {"password"}, "identifier": {user}, "password": {password}, "csrf_token": {csrf}}
	r := request(t, http.MethodPost, at+"/self-service/login?flow="+flow, form.Encode())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "text/html")
	response, err = browser.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// kratosFlow asks for a flow, and returns its id, and the token of its form if it has one.
func kratosFlow(t *testing.T, c *http.Client, address string) (id, token string) {
	t.Helper()
	r := request(t, http.MethodGet, address, "")
	r.Header.Set("Accept", "application/json")
	response, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	var flow struct{ ID string }
	if err := errors.Join(err, json.Unmarshal(text, &flow)); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d (%v)", address, response.StatusCode, err)
	}
	if found := regexp.MustCompile(`"name":"csrf_token","type":"hidden","value":"([^"]+)"`).FindSubmatch(
		text); found != nil {
		token = string(found[1])
	}
	return flow.ID, token
}
