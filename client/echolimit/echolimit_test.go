package echolimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"velocityd/client"
	"velocityd/client/echolimit"
	"velocityd/client/fake"
	"velocityd/service"
)

func TestEchosLimiterKeepsTheLimitOfAZone(t *testing.T) {
	t.Parallel()
	velocity := fake.New(t, service.Zone{ID: 2, Rate: 1, Window: time.Minute, Keys: service.KeyRule{Kind: service.KeyIP}})
	e := echo.New()
	e.Use(middleware.RateLimiterWithConfig(middleware.RateLimiterConfig{Store: echolimit.New(velocity, 2)}))
	e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
	ask := func(address string) int {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = address
		e.ServeHTTP(w, r)
		return w.Code
	}
	for _, c := range []struct {
		address string
		want    int
	}{
		{"203.0.113.9:4711", http.StatusNoContent},
		{"203.0.113.9:4712", http.StatusTooManyRequests},
		{"203.0.113.10:4711", http.StatusNoContent},
	} {
		if got := ask(c.address); got != c.want {
			t.Errorf("%s: %d, want %d", c.address, got, c.want)
		}
	}
	velocity.Fail(service.ErrBusy)
	if got := ask("203.0.113.11:4711"); got != http.StatusServiceUnavailable {
		t.Errorf("without a service: %d", got)
	}
}

func TestEchosLimiterAnswersOthersThanBlockedOtherwise(t *testing.T) {
	t.Parallel()
	away, err := client.New("http://127.0.0.1:1", client.WithOnError(client.Deny))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		asker client.CheckReporter
		key   string
		want  int
	}{
		"a policy that denies": {away, "x", http.StatusServiceUnavailable},
		"a key that no zone takes": {
			fake.New(t, service.Zone{ID: 2, Rate: 1, Window: time.Minute}), "a\x00b",
			http.StatusBadRequest,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := echo.New()
			e.Use(middleware.RateLimiterWithConfig(middleware.RateLimiterConfig{
				Store: echolimit.New(c.asker, 2), IdentifierExtractor: func(echo.Context) (string, error) { return c.key, nil },
			}))
			e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
			w := httptest.NewRecorder()
			e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			if w.Code != c.want {
				t.Errorf("got %d, want %d", w.Code, c.want)
			}
		})
	}
}
