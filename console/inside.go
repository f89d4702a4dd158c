package console

import (
	"bytes"
	"io"
	"net/http"
	"slices"
)

// inside sends requests to the HTTP interface in this process, as if the reader had sent them: from his address and by
// his connection, with the headers by which a proxy or a browser says who he is. So rights, limits and the log are those
// of the interface.
type inside struct {
	api    http.Handler
	reader *http.Request
}

// passedOn are the headers of the reader's request that the interface looks at. The credential that a proxy adds for its
// users is one of them, but for requests that have that of a session.
func passedOn(hasSession bool) []string {
	names := []string{"X-Forwarded-For", "Forwarded", "X-Forwarded-User", "Sec-Fetch-Site", "Origin", "Traceparent"}
	if hasSession {
		return names
	}
	return append(names, "Authorization", "X-Api-Key")
}

// RoundTrip answers a request. The answer is read as a whole: it is for pages, which are short. It never fails.
func (t inside) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &answer{header: http.Header{}}
	t.api.ServeHTTP(w, t.asReader(r))
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return &http.Response{
		StatusCode: w.status, Status: http.StatusText(w.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// asReader returns a request as if the reader had sent it.
func (t inside) asReader(r *http.Request) *http.Request {
	asked := r.Clone(r.Context())
	asked.Host, asked.RemoteAddr, asked.TLS, asked.RequestURI = t.reader.Host, t.reader.RemoteAddr, t.reader.TLS, r.URL.RequestURI()
	if asked.Body == nil {
		asked.Body = http.NoBody
	}
	for _, name := range passedOn(r.Header.Get("Authorization") != "") {
		if lines := t.reader.Header.Values(name); len(lines) > 0 {
			asked.Header[name] = slices.Clone(lines)
		}
	}
	return asked
}

// answer is an http.ResponseWriter that keeps the answer.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *answer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *answer) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *answer) Write(text []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(text)
}

// Flush does nothing: the answer is read as a whole.
func (w *answer) Flush() {}
