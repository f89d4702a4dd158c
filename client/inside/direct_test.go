package inside_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"velocityd/client/inside"
)

// ask sends a request to a handler by a Direct.
func ask(t *testing.T, api http.HandlerFunc) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://in.process/v1/txns?order=asc", nil)
	if err != nil {
		t.Fatal(err)
	}
	return inside.Direct{API: api}.RoundTrip(r)
}

func TestADirectStreamIsReadAsItIsWrittenAndEndsWithItsReader(t *testing.T) {
	t.Parallel()
	hasEnded, wasRead := false, make(chan struct{})
	response, err := ask(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "a")
		<-wasRead // the reader has it before there is more
		_, _ = io.WriteString(w, r.RequestURI)
		<-r.Context().Done()
		hasEnded = true
	})
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, len("a/v1/txns?order=asc"))
	if _, err := io.ReadFull(response.Body, text[:1]); err != nil {
		t.Fatal(err)
	}
	close(wasRead)
	if _, err := io.ReadFull(response.Body, text[1:]); err != nil || string(text) != "a/v1/txns?order=asc" {
		t.Errorf("read %s: %v", text, err)
	}
	if err := response.Body.Close(); err != nil || !hasEnded {
		t.Errorf("closed: %v; the handler has ended: %t", err, hasEnded)
	}
}

func TestADirectCallerGetsTheErrorItselfWheneverItComes(t *testing.T) {
	t.Parallel()
	own := errors.New("the engine's words")
	refuse := func(ctx context.Context) { inside.Blame(ctx, own) }
	_, err := ask(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "a problem")
		refuse(r.Context())
	})
	if !errors.Is(err, own) {
		t.Errorf("at once: %v", err)
	}
	response, err := ask(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "a")
		refuse(r.Context())
	})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(response.Body); string(text) != "a" || !errors.Is(err, own) {
		t.Errorf("in the midst: %s, %v", text, err)
	}
	if response, err = ask(t, func(http.ResponseWriter, *http.Request) {}); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("nothing: %+v, %v", response, err)
	}
}
