package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"velocityd/handlers/wire"
)

// Applications get cookies and uploads, which take more than checks do.
const (
	maxHeaderBytes = 64 << 10
	// uploadWindow is how many bytes of bodies that the application has not taken yet one connection of HTTP/2 may hold.
	uploadWindow = 256 << 10
)

// Stop says how Serve ends.
type Stop struct {
	DrainDelay time.Duration // between not being ready and taking no more connections
	Timeout    time.Duration // of the requests under way
}

// Serve answers on a listener, which it closes, until ctx ends. bounds are those of clients' connections. It then lets
// requests under way end, but for websockets, and sends the reports that are due.
func (p *Proxy) Serve(ctx context.Context, listener net.Listener, bounds wire.Options, stop Stop) error {
	server := wire.NewServer(p, 0, p.Logger)
	server.MaxHeaderBytes = maxHeaderBytes
	server.HTTP2.MaxReceiveBufferPerConnection, server.HTTP2.MaxReceiveBufferPerStream = uploadWindow, uploadWindow
	served := make(chan error, 1)
	go func() { served <- server.Serve(wire.NewListener(listener, bounds)) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	p.draining.Store(true)
	time.Sleep(stop.DrainDelay)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), stop.Timeout)
	defer cancel()
	err := server.Shutdown(ending)
	if err != nil {
		err = errors.Join(fmt.Errorf("cut off requests that had not ended after %s: %w", stop.Timeout, err), server.Close())
	}
	p.reports.Wait() // each has its deadline
	return err
}

// watchedWriter keeps the status and the length of an answer.
type watchedWriter struct {
	http.ResponseWriter
	status int
	bytes  int64
}

// Unwrap is for http.ResponseController.
func (w *watchedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *watchedWriter) WriteHeader(status int) {
	if w.status < http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *watchedWriter) Write(part []byte) (int, error) {
	w.status = max(w.status, http.StatusOK)
	n, err := w.ResponseWriter.Write(part)
	w.bytes += int64(n)
	return n, err
}

// logRequest writes the line of a request. It names no path, no user and no address.
func (p *Proxy) logRequest(r *http.Request, a *attempt, w *watchedWriter, began time.Time) {
	status := w.status
	if status == 0 && r.Header.Get("Upgrade") != "" {
		status = http.StatusSwitchingProtocols // written to the connection itself
	}
	attrs := []slog.Attr{
		slog.String("method", r.Method), slog.Int("status", status), slog.Int64("bytes", w.bytes),
		slog.Duration("duration", time.Since(began)),
	}
	if a.id != "" {
		attrs = append(attrs, slog.String("attempt_id", a.id), slog.String("verdict", a.verdict),
			slog.String("outcome", string(a.outcome)))
	}
	p.Logger.LogAttrs(context.WithoutCancel(r.Context()), slog.LevelInfo, "request", attrs...)
}
