package inprocess

import (
	"cmp"
	"context"
	"io"
	"net/http"
)

// Direct sends the requests of a program to an HTTP interface in the same process, whose only caller it is. Answers
// come as they are written, with nothing between, and an error of the interface comes as an error of RoundTrip or of
// the body, not as a problem.
type Direct struct{ API http.Handler }

// loopback is the address of the caller.
const loopback = "127.0.0.1:0"

// OwnError is an error of the interface as it is.
type OwnError struct{ Err error }

// Error implements error.
func (f *OwnError) Error() string { return f.Err.Error() }

// Unwrap returns the error.
func (f *OwnError) Unwrap() error { return f.Err }

// faultKey is the key of a context's *OwnError.
type faultKey struct{}

// Blame hands the error of a request over to the Direct that sent it, if there is one.
func Blame(ctx context.Context, err error) {
	if f, ok := ctx.Value(faultKey{}).(*OwnError); ok {
		f.Err = err
	}
}

// RoundTrip implements http.RoundTripper. It returns when the answer begins or, without an error, never before the
// interface has given up: a change is not left behind. Close of the answer's body ends the request.
func (d Direct) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	fault := new(OwnError)
	asked := r.Clone(context.WithValue(ctx, faultKey{}, fault))
	asked.RemoteAddr, asked.RequestURI = loopback, r.URL.RequestURI()
	if asked.Body == nil {
		asked.Body = http.NoBody
	}
	read, write := io.Pipe()
	w := &direct{to: write, header: http.Header{}, began: make(chan int, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.API.ServeHTTP(w, asked)
		if fault.Err != nil {
			_ = write.CloseWithError(fault)
		}
		_ = write.Close()
	}()
	response := &http.Response{
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header, ContentLength: -1, Request: r,
		Body: &directBody{read, func() { cancel(); <-ended }},
	}
	select {
	case response.StatusCode = <-w.began:
	case <-ended:
		cancel()
		if fault.Err != nil {
			return nil, fault
		}
		response.StatusCode = cmp.Or(w.status, http.StatusOK)
	}
	response.Status = http.StatusText(response.StatusCode)
	return response, nil
}

// direct is an http.ResponseWriter.
type direct struct {
	to     *io.PipeWriter
	header http.Header
	status int
	began  chan int // gets the status of an answer that is no refusal
}

// Header implements http.ResponseWriter.
func (w *direct) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *direct) WriteHeader(status int) {
	if w.status != 0 || status < http.StatusOK {
		return
	}
	if w.status = status; status < http.StatusBadRequest {
		w.began <- status
	}
}

// Write implements http.ResponseWriter. The body of a refusal goes nowhere: its error is handed over.
func (w *direct) Write(text []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.status >= http.StatusBadRequest || len(text) == 0 {
		return len(text), nil
	}
	return w.to.Write(text)
}

// Flush does nothing: each part has been read when Write returns.
func (w *direct) Flush() {}

// directBody is the body of an answer.
type directBody struct {
	*io.PipeReader
	end func()
}

// Close implements io.Closer. It waits until the interface has ended.
func (b *directBody) Close() error {
	err := b.PipeReader.Close()
	b.end()
	return err
}
