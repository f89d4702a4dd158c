// Package inprocess owns requests to the HTTP interface that do not leave the process, for rooms that are its clients:
// the console, and doors that speak another protocol. It must not know the questions.
package inprocess

import (
	"bytes"
	"io"
	"net/http"
	"slices"
)

// Transport sends requests to the HTTP interface in this process, as if the caller of another request had sent them:
// from its address and by its connection, with the headers by which a proxy or a browser names it. So rights,
// limits and the log are those of the interface.
type Transport struct {
	API    http.Handler
	Caller *http.Request
}

// passedOn are the headers of the caller's request that the interface looks at. Its credential, or that which a proxy
// adds for its users, is one of them, but for requests that have another one.
func passedOn(hasOther bool) []string {
	names := []string{
		"X-Forwarded-For", "Forwarded", "X-Forwarded-User", "Sec-Fetch-Site", "Origin", "Traceparent",
		"X-Request-Id",
	}
	if hasOther {
		return names
	}
	return append(names, "Authorization", "X-Api-Key")
}

// RoundTrip implements http.RoundTripper. The answer is read as a whole: it is for short ones. It fails only if the
// request's context has ended before it begins; later the interface decides by itself when to give up.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := &Answer{header: http.Header{}}
	t.API.ServeHTTP(w, t.AsCaller(r))
	if w.Status == 0 {
		w.Status = http.StatusOK
	}
	return &http.Response{
		StatusCode: w.Status, Status: http.StatusText(w.Status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.Body), ContentLength: int64(w.Body.Len()), Request: r,
	}, nil
}

// AsCaller returns a request as if the caller had sent it.
func (t Transport) AsCaller(r *http.Request) *http.Request {
	asked := r.Clone(r.Context())
	asked.Host, asked.RemoteAddr, asked.TLS, asked.RequestURI = t.Caller.Host, t.Caller.RemoteAddr, t.Caller.TLS,
		r.URL.RequestURI()
	if asked.Body == nil {
		asked.Body = http.NoBody
	}
	for _, name := range passedOn(r.Header.Get("Authorization") != "") {
		if lines := t.Caller.Header.Values(name); len(lines) > 0 {
			asked.Header[name] = slices.Clone(lines)
		}
	}
	return asked
}

// Answer is an http.ResponseWriter that keeps the answer.
type Answer struct {
	Status int // 0 as long as nothing was written
	Body   bytes.Buffer
	header http.Header
}

// Header implements http.ResponseWriter.
func (w *Answer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *Answer) WriteHeader(status int) {
	if w.Status == 0 && status >= http.StatusOK {
		w.Status = status
	}
}

// Write implements http.ResponseWriter.
func (w *Answer) Write(text []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.Body.Write(text)
}

// Flush does nothing: the answer is read as a whole.
func (w *Answer) Flush() {}
