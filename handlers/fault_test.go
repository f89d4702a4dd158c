package handlers

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"velocityd/handlers/wire"
	"velocityd/service"
	"velocityd/tools/handlerstest"
)

// faultPause is the least time between two lines about the same fault.
const faultPause = time.Second

// faulty answers checks and look-ups of zones with errors, without a network, so that it can be asked inside a synctest
// bubble. No goroutine sleeps there: time passes when all of them wait.
type faulty struct {
	http.Handler
	log *logLines
}

func newFaulty(fault func() error) *faulty {
	f := &faulty{log: &logLines{}}
	f.Handler = New(Options{
		Logger: f.logger(),
		Limiter: service.NewLimiter(storeFunc(func(context.Context, []service.Check) ([]service.Decision, error) {
			return nil, fault()
		}), service.LimiterOptions{Timeout: time.Minute}),
	})
	return f
}

func (f *faulty) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(f.log, nil)) }

func (f *faulty) ask(t *testing.T, path, body string) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	f.ServeHTTP(httptest.NewRecorder(), request)
}

// lines returns what was logged, and forgets it.
func (f *faulty) lines(t *testing.T) []map[string]any {
	t.Helper()
	lines := []map[string]any{}
	for text := range strings.Lines(f.log.Taken()) {
		line := map[string]any{}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}

// TestStrangersFillNoLog has callers send what net/http or a handler tells of, with other words each
// time.
func TestStrangersFillNoLog(t *testing.T) {
	t.Parallel()
	authority := handlerstest.NewAuthority(t)
	trusting := &tls.Config{RootCAs: authority.Pool}
	const times = 1000
	for name, send := range map[string]func(t *testing.T, address string){
		"protocols": func(_ *testing.T, address string) {
			for i := range times / 10 {
				config := trusting.Clone()
				config.NextProtos = []string{strings.Repeat("alice", 1+i%50) + "@example.org"}
				if conn, err := tls.Dial("tcp", address, config); err == nil {
					_ = conn.Close()
				}
			}
		},
		"frames": func(t *testing.T, address string) {
			t.Helper()
			config := trusting.Clone()
			config.NextProtos = []string{"h2"}
			conn, err := tls.Dial("tcp", address, config)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			const settings, goAway = "\x00\x00\x00\x04\x00\x00\x00\x00\x00",
				"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"
			_, _ = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+settings+strings.Repeat(goAway, times))
			_, _ = io.Copy(io.Discard, conn) // until the server has read all and closes
		},
		"methods": func(t *testing.T, address string) {
			t.Helper()
			for i := range times / 10 {
				l := handlerstest.DialTLS(t, address, authority)
				l.MustAsk(t, "ALICE"+strings.Repeat("E", i)+" /v1/zones HTTP/1.1\r\nHost: x\r\n\r\n", http.StatusServiceUnavailable)
				_ = l.Close()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := listenWith(t, nil, wire.Options{TLS: authority.ServerTLS(t), MaxConnections: 1},
				func(o *Options) { o.AccessLog = false })
			if name == "methods" {
				handlerstest.DialTLS(t, s.address, authority).MustAsk(t, askLive, http.StatusOK) // and stays
			}
			send(t, s.address)
			if log := s.log.String(); strings.Count(log, "\n") > times/50 || !strings.Contains(log, `"level":"WARN"`) ||
				strings.Contains(log, "alice") {
				t.Errorf("logged %d lines: %.2000s", strings.Count(log, "\n"), log)
			}
		})
	}
}

func TestDisabledAccessLogKeepsFaultsAndRefusedCalls(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *Options) { o.AccessLog = false })
	r.zones(t)
	r.post(t, "/v1/check", bucketJSON(1, "alice")).decision(t)
	r.get(t, "/v1/zones/7").refused(t, http.StatusNotFound, "not_found")
	r.get(t, "/v1/zones/1/buckets/%00").refused(t, http.StatusBadRequest, "invalid_request")
	r.get(t, "/livez")
	if text := r.log.String(); text != "" {
		t.Errorf("logged %s", text)
	}
}
