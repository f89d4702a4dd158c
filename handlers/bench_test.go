package handlers

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"velocityd/service"
)

// BenchmarkCheck measures a lone check in the handler alone: no socket, no log,
// and a store that answers at once.
func BenchmarkCheck(b *testing.B) {
	handler := New(Options{Limiter: service.NewLimiter(fixed(service.Decision{
		CheckedAt: time.Now(),
		Verdicts:  []service.Verdict{{Bucket: bucketOf(1, "1_42"), TxnID: 981, Rate: 5, Window: time.Minute, Velocity: 1}},
	}), time.Minute)})
	body := bucketJSON(1, "1_42")
	b.ReportAllocs()
	for b.Loop() {
		request := httptest.NewRequest(http.MethodPost, "/v1/check", strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if answer.Code != http.StatusOK {
			b.Fatal(answer.Body)
		}
	}
}

// BenchmarkCheckOverHTTP measures a check through a socket, from the service's
// view: every allocation is its own, since the client has none. The store answers
// at once, behind a coalescer, and a log line is written.
func BenchmarkCheckOverHTTP(b *testing.B) {
	store := service.NewCoalescer(fixed(service.Decision{
		CheckedAt: time.Now(),
		Verdicts:  []service.Verdict{{Bucket: bucketOf(1, "1_42"), TxnID: 981, Rate: 5, Window: time.Minute, Velocity: 1}},
	}), service.CoalescerOptions{Lanes: 1, Timeout: time.Second})
	server := httptest.NewServer(New(Options{
		Limiter: service.NewLimiter(store, time.Minute), Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)),
	}))
	defer server.Close()
	connection, err := new(net.Dialer).DialContext(b.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer connection.Close()
	body := bucketJSON(1, "1_42")
	question := fmt.Appendf(nil, "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	buffer := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := connection.Write(question); err != nil {
			b.Fatal(err)
		}
		n, err := connection.Read(buffer) // an answer is one small packet
		if err != nil || !bytes.HasPrefix(buffer[:n], []byte("HTTP/1.1 200")) {
			b.Fatalf("%s, %v", buffer[:n], err)
		}
	}
}

func BenchmarkDecodeCheck(b *testing.B) {
	decoder, body := newDecoder(), []byte(bucketJSON(1, "1_42"))
	b.ReportAllocs()
	for b.Loop() {
		var request checkRequest
		if err := decoder.decode(body, &request); err != nil {
			b.Fatal(err)
		}
	}
}
