//go:build !no_console

package main

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"velocityd/tools/enginetest"
)

// readerOf is a reader of an instance's console. Its client keeps no cookies, because those of the console are for
// connections with TLS.
type readerOf struct {
	*instanceUnderTest
	cookie string
}

// ask loads a page, or sends a form.
func (r *readerOf) ask(t *testing.T, path string, form url.Values) (status int, page string) {
	t.Helper()
	method := http.MethodGet
	if form != nil {
		method = http.MethodPost
	}
	question, err := http.NewRequestWithContext(t.Context(), method, r.url+"/console/"+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	question.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	question.Header.Set("Sec-Fetch-Site", "same-origin")
	question.Header.Set("Cookie", r.cookie)
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(question)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if cookie, _, isSet := strings.Cut(answer.Header.Get("Set-Cookie"), ";"); isSet {
		r.cookie = cookie
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func TestConsoleSaysSinceWhenItsEngineIsAway(t *testing.T) {
	t.Parallel()
	enginetest.One(t, func(t *testing.T, engine *enginetest.Engine) {
		m := newKillable(t, engine)
		env := environment{"VELOCITY_DSN": m.DSN, "VELOCITY_REQUIRE_AUTH": "true"}
		token := strings.TrimSpace(command(env, nil, "token", "create", "carol", "--preset", "admin").stdout)
		i := start(t, env, append([]string{"serve"}, slow...)...)
		r := &readerOf{instanceUnderTest: i}
		enginetest.Eventually(t, "the token is known", func() bool {
			_, _ = r.ask(t, "login", url.Values{"token": {token}})
			status, page := r.ask(t, "health", nil)
			return status == http.StatusOK && strings.Contains(page, "velocityd is ready, since ")
		})
		before := time.Now().UTC().Truncate(time.Second)
		m.kill()
		var first string // the time that the page names
		enginetest.Eventually(t, "the page says that the engine is away", func() bool {
			status, page := r.ask(t, "", nil)
			_, since, isSaid := strings.Cut(page, ", since <time datetime=\"")
			first, _, _ = strings.Cut(since, "\"")
			return status == http.StatusServiceUnavailable && isSaid
		})
		if at, err := time.Parse(time.RFC3339Nano, first); err != nil || at.Before(before) || at.After(time.Now()) {
			t.Errorf("away since %q (%v), killed at %s", first, err, before)
		}
		for _, path := range []string{"", "health", "zones", "audit", "history", "attacks", "tokens"} {
			status, page := r.ask(t, path, nil)
			for _, text := range []string{
				"<h1>Not ready</h1>", "the database cannot be reached", first, "by the <code>on_failure</code> of their zones",
				"Log out</button>",
			} {
				if status != http.StatusServiceUnavailable || !strings.Contains(page, text) {
					t.Errorf("%q is answered with %d and lacks %q: %s", path, status, text, page)
				}
			}
		}
		m.start(t)
		enginetest.Eventually(t, "the console is back", func() bool {
			status, page := r.ask(t, "health", nil)
			return status == http.StatusOK && strings.Contains(page, "velocityd is ready, since ") && !strings.Contains(page, first)
		})
	})
}
