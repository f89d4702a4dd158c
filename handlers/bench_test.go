package handlers

import (
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
		CheckedAt: service.At(time.Now()),
		Verdicts: []service.Verdict{
			{Bucket: bucketOf(1, "1_42"), TxnID: 981, Rate: 5, Window: service.Lasting(time.Minute), Velocity: 1},
		},
	}), service.LimiterOptions{Timeout: time.Minute})})
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
