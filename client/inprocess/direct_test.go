package inprocess_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"velocityd/client/inprocess"
)

// ask sends a request to a handler by a Direct. The answer's body is closed with the test at the latest.
func ask(t *testing.T, api http.HandlerFunc) (status int, body io.ReadCloser, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://in.process/v1/txns?order=asc", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := inprocess.Direct{API: api}.RoundTrip(r)
	if err != nil {
		return 0, nil, err
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response.StatusCode, response.Body, nil
}

func TestDirectStreamIsUnbufferedAndEndsWithReader(t *testing.T) {
	t.Parallel()
	hasEnded, wasRead := false, make(chan struct{})
	_, body, err := ask(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "a")
		<-wasRead // the reader has it before there is more
		if r.RequestURI == "/v1/txns?order=asc" && r.RemoteAddr != "" {
			_, _ = io.WriteString(w, "bc")
		}
		<-r.Context().Done()
		hasEnded = true
	})
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, len("abc"))
	if _, err := io.ReadFull(body, text[:1]); err != nil {
		t.Fatal(err)
	}
	close(wasRead)
	if _, err := io.ReadFull(body, text[1:]); err != nil || string(text) != "abc" {
		t.Errorf("read %s: %v", text, err)
	}
	if err := body.Close(); err != nil || !hasEnded {
		t.Errorf("closed: %v; the handler has ended: %t", err, hasEnded)
	}
}

func TestDirectCallerAlwaysGetsTheErrorItself(t *testing.T) {
	t.Parallel()
	own := errors.New("the engine's words")
	refuse := func(ctx context.Context) { inprocess.Blame(ctx, own) }
	_, _, err := ask(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "a problem")
		refuse(r.Context())
	})
	if !errors.Is(err, own) {
		t.Errorf("at once: %v", err)
	}
	_, body, err := ask(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "a")
		refuse(r.Context())
	})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(body); string(text) != "a" || !errors.Is(err, own) {
		t.Errorf("in the midst: %s, %v", text, err)
	}
	if status, _, err := ask(t, func(http.ResponseWriter, *http.Request) {}); err != nil || status != http.StatusOK {
		t.Errorf("nothing: %d, %v", status, err)
	}
}
