// Package wire owns connections below HTTP: the listener with its bounds and TLS, the server's deadlines, and
// the requests that net/http answers by itself. It must not know routes, Echo, or the meaning of a request.
package wire

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"velocityd/handlers/admission"
)

// Limits of one connection. They keep slow or idle callers from holding memory
// for long.
const (
	headerTimeout  = 5 * time.Second
	bodyTimeout    = 10 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 16 << 10
)

// answerTimeout is how long a caller may take to receive an answer that is ready. Then the memory of the answer is
// freed.
const answerTimeout = 5 * time.Second

// streamTimeout is how long a caller may take to receive one part of a stream.
const streamTimeout = time.Minute

// http2Window is how many unread bytes of bodies one connection of HTTP/2 may hold, in all its requests. It is the
// smallest that net/http allows. On a connection of HTTP/1 such bytes stay in the kernel.
const http2Window = 64 << 10

// http2Frame is the longest frame that a connection of HTTP/2 reads, in bytes. It is the
// smallest that the protocol allows. Memory for a whole frame is taken when its head has come.
const http2Frame = 16 << 10

// sendBuffer is how many bytes of answers the kernel is asked to keep for a connection. By default it would keep some
// MB of answers that callers do not take.
const sendBuffer = 64 << 10

// NewServer returns a server of handler. It closes connections that are slow or idle,
// and those on which a request has both Content-Length and Transfer-Encoding. work is
// the longest time that handler may take for a request once it has read it. logger
// gets net/http's lines about connections, the same at most once a second; nil means no
// log. Nothing is started. Serve must be called with a listener of NewListener.
func NewServer(handler http.Handler, work time.Duration, logger *slog.Logger) *http.Server {
	faults := slog.NewLogLogger(slog.DiscardHandler, slog.LevelWarn)
	faults.SetOutput(&serverFaults{admission.FaultLog{Logger: logger}})
	return &http.Server{
		Handler:           watched(handler),
		ConnContext:       withConnection,
		ConnState:         noteState,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       bodyTimeout,
		WriteTimeout:      bodyTimeout + work + headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          faults,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: HTTP2Streams, MaxReadFrameSize: http2Frame,
			MaxReceiveBufferPerConnection: http2Window, MaxReceiveBufferPerStream: http2Window, WriteByteTimeout: answerTimeout,
		},
	}
}

// SetAnswerDeadline bounds the time that the caller has to receive the answer that is written to w, if w is on a
// connection.
func SetAnswerDeadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
}

// SetPartDeadline gives the caller a minute to receive a part of a stream that is written to w, if w is on a
// connection. The caller may write it to a slow disk, and streams are few.
func SetPartDeadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(streamTimeout))
}

// serverFaults reports the lines of http.Server.ErrorLog. With HTTP/2 a caller can cause a line by each
// frame.
type serverFaults struct{ admission.FaultLog }

// Write implements io.Writer. It is called for each line.
func (f *serverFaults) Write(line []byte) (int, error) {
	f.ReportConnection("http", strings.TrimSpace(string(line)))
	return len(line), nil
}
