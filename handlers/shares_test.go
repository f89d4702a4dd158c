package handlers

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/handlers/admission"
	"velocityd/handlers/wire"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/memory"
	"velocityd/tools/handlerstest"
	"velocityd/tools/servicetest"
)

// begin sends a request, and returns its status and, unless it has begun to last, its text.
func (g guarded) begin(t *testing.T, method, path, body string, headers []string) (status int, text string) {
	t.Helper()
	response, err := g.http.Do(g.request(t, method, path, body, append(headers, "Content-Type", "application/json")...))
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode < http.StatusBadRequest {
		t.Cleanup(func() { _ = response.Body.Close() })
		return response.StatusCode, ""
	}
	defer response.Body.Close()
	told, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return response.StatusCode, string(told)
}

// TestOneCredentialKeepsNoOtherOut has a caller hold all that it gets, and then another one.
func TestOneCredentialKeepsNoOtherOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, path, body string
		half               int
	}{
		"exports":             {"GET", "/v1/txns?zone=1&order=asc&format=ndjson", "", 2},
		"followers":           {"GET", "/v1/txns/follow?zone=1", "", 32},
		"followers of events": {"GET", "/v1/events/follow?zone=1", "", 32},
		"back-tests":          {"POST", "/v1/zones/1/backtest", "{}", 1},
		"metrics":             {"GET", "/metrics", "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := guardBy(t, func(o *Options) {
				o.Reader = &longHistory{Store: o.Reader.(*memory.Store), pages: 2, hold: make(chan struct{})}
				o.Metrics = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				})
			})
			zones := []int64{1}
			if c.path == pathMetrics {
				zones = nil // a bound token may not read them
			}
			var callers [3][]string
			for i := range callers {
				callers[i] = g.as(fmt.Sprint("caller-", i), zones, access.ScopeHistory, access.ScopeMetrics)
			}
			for i, headers := range callers[:2] {
				for n := range c.half {
					if status, text := g.begin(t, c.method, c.path, c.body, headers); status >= http.StatusBadRequest {
						t.Fatalf("%d, %d: %d %s", i, n, status, text)
					}
				}
				wants := fmt.Sprintf("its share, %d.", c.half)
				status, text := g.begin(t, c.method, c.path, c.body, headers)
				if status != http.StatusServiceUnavailable || !strings.Contains(text, wants) {
					t.Errorf("%d: %d %s, want %q", i, status, text, wants)
				}
			}
			status, text := g.begin(t, c.method, c.path, c.body, callers[2])
			if wants := fmt.Sprintf("all %d ", 2*c.half); status != http.StatusServiceUnavailable ||
				!strings.Contains(text, wants) {
				t.Errorf("%d %s, want %q", status, text, wants)
			}
		})
	}
}

func TestReportsOfTwoCredentialsRunSideBySide(t *testing.T) {
	t.Parallel()
	var store reporting
	g := guardBy(t, func(o *Options) {
		store = reporting{o.Reader.(*memory.Store), make(chan struct{}), make(chan struct{})}
		o.Reader = store
	})
	statuses := make(chan int, 3)
	mallory, shop := g.as("mallory", []int64{1}, access.ScopeHistory), g.as("shop", []int64{1}, access.ScopeHistory)
	for _, headers := range [][]string{mallory, mallory, shop} {
		go func() {
			status, _ := g.begin(t, "GET", "/v1/zones/1/report", "", headers)
			statuses <- status
		}()
	}
	<-store.begun
	<-store.begun // of both, as one caller has one at a time
	store.letGo <- struct{}{}
	store.letGo <- struct{}{}
	<-store.begun
	store.letGo <- struct{}{}
	for range 3 {
		if status := <-statuses; status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	}
}

// TestSlowBodiesKeepNoOtherCredentialOut has a caller that sends many bodies, none to its end.
func TestSlowBodiesKeepNoOtherCredentialOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		length, fit int
		wants       string
	}{
		"large ones": {smallBody + 1, 2, "of the 4 large bodies that are allowed at once, this caller has its share, 2"},
		"many": {
			smallBody, MaxCallBytes / smallBody,
			"bytes of bodies and answers in memory that are allowed at once, this caller has its share",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var credentials servicetest.Credentials
				cache := access.NewCache(&credentials, access.Options{})
				defer cache.Close()
				s := newServer(Options{
					Limiter: service.NewLimiter(fixed(service.Decision{CheckedAt: service.At(time.Now())}),
						service.LimiterOptions{Timeout: time.Minute}),
					Auth: Auth{Admission: admission.Admission{Callers: cache, Txns: memory.New()}}, MaxBodyBytes: 2 * MaxCallBytes,
				})
				s.slots = newBodySlots(4)
				pipes := servePipes(s.serve(s.routeCalls), wire.Options{})
				defer pipes.end()
				tokens := map[string]access.Token{}
				for _, name := range []string{"mallory", "shop"} {
					tokens[name] = credentials.AddToken(access.Caller{Name: name, Scopes: []access.Scope{access.ScopeCheck}})
				}
				begin := func(name string) *handlerstest.Line {
					l := pipes.dial()
					handlerstest.MustWrite(t, l, fmt.Sprintf("POST /v1/checks HTTP/1.1\r\nHost: a\r\nContent-Type: "+
						"application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n{", tokens[name].Reveal(), c.length))
					synctest.Wait()
					return l
				}
				for range c.fit {
					defer begin("mallory").Close()
				}
				refused, other := begin("mallory"), begin("shop")
				handlerstest.MustWrite(t, other, large("alice")[1:c.length])
				if got, _ := other.Answer(); got.Status != http.StatusOK {
					t.Errorf("another one is answered %+v", got)
				}
				if got, _ := refused.Answer(); got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, c.wants) {
					t.Errorf("one more is answered %+v, want %q", got, c.wants)
				}
				other.Close()
				refused.Close()
			})
		})
	}
}
