package handlers

import (
	"bytes"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"velocityd/api"
	"velocityd/handlers/problem"
	"velocityd/handlers/wire"
	"velocityd/service"
	"velocityd/service/shares"
)

const (
	// mostExports is how many exports are under way at once: each reads page after page.
	mostExports = 4
	// mostFollowers is how many callers follow the history at once. Each keeps a connection and a little memory.
	mostFollowers = 64
	// mostScrapes is how many answers with the metrics are under way: each keeps a copy of all until its caller has taken
	// it.
	mostScrapes = 4
	// streamBytes is how much memory a stream is counted with: one page, encoded.
	streamBytes = 1 << 20
)

// takePlace takes a place of the caller among answers that last, to be given back by leave. The error is of the given
// kind.
func (s *server) takePlace(x *exchange, among *shares.Pool[string], kind error) (leave func(), err error) {
	shareKey := s.shareKeyOf(x)
	if err := among.Take(shareKey, 1); err != nil {
		return nil, fmt.Errorf("%w: %w", kind, err)
	}
	return func() { among.GiveBack(shareKey, 1) }, nil
}

const (
	fieldBuffering   = "X-Accel-Buffering" // nginx would keep the first parts back
	fieldDisposition = "Content-Disposition"
)

// stream is an answer whose length is not known when it begins.
type stream struct {
	x        *exchange
	media    string
	file     string // the name under which a browser keeps the answer, or ""
	hasBegun bool
}

// refuseOldHTTP refuses a stream to a caller that could not tell one that broke off from a whole one.
func refuseOldHTTP(r *http.Request) error {
	if r.ProtoAtLeast(1, 1) {
		return nil
	}
	return problem.Invalid("A stream needs HTTP/1.1 or newer: in HTTP/1.0 an answer that broke off looks like a whole " +
		"one. A proxy in between may speak HTTP/1.0 (nginx does without proxy_http_version 1.1).")
}

func (w *stream) begin() {
	w.hasBegun = true
	w.x.set(fieldCacheControl, "no-store")
	w.x.set(fieldContentType, w.media)
	w.x.set(fieldBuffering, "no")
	if w.file != "" {
		w.x.set(fieldDisposition, `attachment; filename="`+w.file+`"`)
	}
	wire.SetPartDeadline(w.x.Response())
	w.x.Response().WriteHeader(http.StatusOK)
}

// send sends a part at once. The error says that the caller has gone, or does not read.
func (w *stream) send(part []byte) error {
	if !w.hasBegun {
		w.begin()
	}
	wire.SetPartDeadline(w.x.Response())
	if _, err := w.x.Response().Write(part); err != nil {
		return err
	}
	return http.NewResponseController(w.x.Response()).Flush()
}

// txnForm is a form of txns in a stream.
type txnForm struct {
	media, file string // as stream has them
	head        []byte
	txn         func(b *bytes.Buffer, t service.Txn) error // appends one txn
	end         ending
}

// ending appends the problem by which a stream breaks off, or returns false if its form has no place for one.
type ending func(b *bytes.Buffer, p api.Problem) bool

// ndjsonForm has a JSON object in each line.
func ndjsonForm() txnForm {
	line := func(b *bytes.Buffer, value any) error {
		err := json.MarshalWrite(b, value)
		b.WriteByte('\n')
		return err
	}
	return txnForm{
		media: api.MediaNDJSON,
		txn:   func(b *bytes.Buffer, t service.Txn) error { return line(b, t) },
		end:   func(b *bytes.Buffer, p api.Problem) bool { return line(b, api.TxnLine{Problem: &p}) == nil },
	}
}

// csvForm is CSV. No line of it can say that it broke off, so the connection does.
func csvForm() txnForm {
	return txnForm{
		media: api.MediaCSV + "; charset=utf-8", file: "txns.csv", head: service.AppendTxnHeader(nil),
		txn: func(b *bytes.Buffer, t service.Txn) error {
			b.Write(t.AppendCSV(b.AvailableBuffer()))
			return nil
		},
		end: func(*bytes.Buffer, api.Problem) bool { return false },
	}
}
