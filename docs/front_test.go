package docs_test

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// front stands before a real service, and behaves as its path says: /NAME/FAULT+FAULT/v1/check is the first fault at
// the first request of this name, the second at the next, and the last one from then on. /NAME/log lists the requests
// of a name.
type front struct {
	service string
	began   time.Time
	mu      sync.Mutex
	seen    map[string][]visit
}

// visit is one request.
type visit struct {
	AttemptID string  `json:"attempt_id"`
	At        float64 `json:"at"` // seconds
	From      string  `json:"from"`
}

// exchange is a request at the front.
type exchange struct {
	http.ResponseWriter
	request *http.Request
	body    []byte
	target  string // the URL at the service
	isNew   bool   // no earlier one had its attempt id
}

// startFront returns where the front listens, without TLS and with it, and the file of the certificate for the latter.
func startFront(t *testing.T, service string) (plain, encrypted, ca string) {
	t.Helper()
	f := &front{service: service, began: time.Now(), seen: map[string][]visit{}}
	server, withTLS := httptest.NewServer(f), httptest.NewTLSServer(f)
	t.Cleanup(server.Close)
	t.Cleanup(withTLS.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: withTLS.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return server.URL, withTLS.URL, ca
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.SplitN(r.URL.EscapedPath(), "/", 4)
	name, faults := parts[1], strings.Split(parts[2], "+")
	if faults[0] == "log" {
		f.mu.Lock()
		defer f.mu.Unlock()
		_ = json.NewEncoder(w).Encode(append([]visit{}, f.seen[name]...))
		return
	}
	v := visit{At: time.Since(f.began).Seconds(), From: r.RemoteAddr}
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &v) != nil && len(body) > 0 {
		http.Error(w, "the request is cut or is no JSON", http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	n := len(f.seen[name])
	isNew := !slices.ContainsFunc(f.seen[name], func(before visit) bool { return before.AttemptID == v.AttemptID })
	f.seen[name] = append(f.seen[name], v)
	f.mu.Unlock()
	fault := faultsOfFront()[faults[min(n, len(faults)-1)]]
	if fault == nil {
		http.Error(w, "no such fault", http.StatusNotImplemented)
		return
	}
	fault(exchange{ResponseWriter: w, request: r, body: body, target: f.service + "/" + parts[3], isNew: isNew})
}

// faultsOfFront returns what can happen to a request, by name.
func faultsOfFront() map[string]func(exchange) {
	const problem, text = "application/problem+json", "text/html"
	return map[string]func(exchange){
		"pass":           func(e exchange) { e.write(e.pass()) },
		"pass-and-close": func(e exchange) { e.raw(e.pass()) },
		"lost":           func(e exchange) { e.pass(); e.cut() },
		"cut":            exchange.cut,
		"cut-first": func(e exchange) {
			if e.isNew {
				e.cut()
				return
			}
			e.write(e.pass())
		},
		"half":        func(e exchange) { status, header, body := e.pass(); e.raw(status, header, body[:len(body)/2]) },
		"drip":        func(e exchange) { e.pass(); e.drip() },
		"hang":        func(e exchange) { <-e.request.Context().Done() },
		"undecided":   func(e exchange) { e.pass(); e.answer(504, problem, `{"code":"undecided"}`) },
		"internal":    func(e exchange) { e.pass(); e.answer(500, problem, `{"code":"internal"}`) },
		"gateway":     func(e exchange) { e.pass(); e.answer(502, text, "oops") },
		"unavailable": func(e exchange) { e.pass(); e.answer(503, text, "oops") },
		"too-slow":    func(e exchange) { e.answer(408, problem, `{"code":"request_timeout"}`) },
		"busy":        func(e exchange) { e.Header().Set("Retry-After", "1"); e.answer(503, problem, `{"code":"busy"}`) },
		"busy-now":    func(e exchange) { e.answer(503, problem, `{"code":"busy"}`) },
		"busy-long": func(
			e exchange,
		) {
			e.Header().Set("Retry-After", "100000")
			e.answer(503, problem, `{"code":"busy"}`)
		},
		"conflict":  func(e exchange) { e.answer(409, problem, `{"code":"conflict"}`) },
		"too-large": func(e exchange) { e.answer(413, problem, `{"code":"payload_too_large"}`) },
		"html":      func(e exchange) { e.answer(200, text, decision("3", `"txn_id":"1",`)) },
		"stranger":  func(e exchange) { e.answer(200, "application/json", decision("7", `"txn_id":"1",`)) },
		"rounded":   func(e exchange) { e.answer(200, "application/json", decision("3", `"txn_id":9007199254740993,`)) },
		"degraded":  func(e exchange) { e.answer(200, "application/json", decision("3", `"degraded":true,`)) },
		"redirect":  func(e exchange) { http.Redirect(e, e.request, e.target, http.StatusTemporaryRedirect) },
	}
}

// decision is an answer that lets an attempt pass in a bucket of a zone.
func decision(zone, more string) string {
	return `{"blocked":false,"would_block":false,"retry_after":0,` + more + `"buckets":[{"zone_id":` + zone + `}]}`
}

func (e exchange) answer(status int, media, body string) {
	e.Header().Set("Content-Type", media)
	e.WriteHeader(status)
	_, _ = io.WriteString(e, body)
}

// pass lets the service answer.
func (e exchange) pass() (status int, header http.Header, body []byte) {
	request, err := http.NewRequestWithContext(e.request.Context(), e.request.Method, e.target, bytes.NewReader(e.body))
	if err != nil {
		return http.StatusNotImplemented, nil, nil
	}
	request.Header = e.request.Header.Clone()
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return http.StatusNotImplemented, nil, nil
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	if err != nil {
		return http.StatusNotImplemented, nil, nil
	}
	return response.StatusCode, response.Header, body
}

func (e exchange) write(status int, header http.Header, body []byte) {
	for name, values := range header {
		e.Header()[name] = values
	}
	e.WriteHeader(status)
	_, _ = e.Write(body)
}

// raw answers and closes the connection, without saying so. If body is not whole, the answer is cut short.
func (e exchange) raw(status int, header http.Header, body []byte) {
	e.take(func(conn net.Conn) {
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
		header.Del("Connection")
		_ = header.Write(conn)
		_, _ = fmt.Fprintf(conn, "\r\n%s", body)
	})
}

// cut resets the connection.
func (e exchange) cut() {
	e.take(func(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0) })
}

// drip answers with a header that does not end, a character now and then, until the caller leaves.
func (e exchange) drip() {
	e.take(func(conn net.Conn) {
		const now = 20 * time.Millisecond
		_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-Long: ")
		for tick := time.NewTicker(now); err == nil; <-tick.C {
			_, err = io.WriteString(conn, "a")
		}
	})
}

// take takes the connection from net/http, and closes it in the end.
func (e exchange) take(use func(net.Conn)) {
	conn, _, err := e.ResponseWriter.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	use(conn)
	_ = conn.Close()
}
