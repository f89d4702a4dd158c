package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"strings"
	"time"

	"velocityd/api"
	"velocityd/service"
)

const (
	// longestLine is above the longest line of a stream, in bytes: that of a txn with the longest key, each character of
	// which may be escaped.
	longestLine = 64 << 10
	// streamSilence is how long a stream may be silent before it counts as broken. A follower hears something every
	// ten seconds; an export may look at many txns that do not match.
	streamSilence = 2 * time.Minute
)

// Export yields all txns of a query, in flat memory, however many they are. It looks at no Limit. An error is the last
// element: without one, the stream was whole. It is that of History, api.ErrTooManyStreams if others export at once, or
// an error that wraps service.ErrBusy if the stream broke off. The service records the export in zone_audit, under
// principal, which may be empty. ctx alone bounds how long it may last.
func (c *Client) Export(
	ctx context.Context, query service.HistoryQuery, principal string,
) iter.Seq2[service.Txn, error] {
	r := request{action: "export the history", method: http.MethodGet, principal: principal, accept: api.MediaNDJSON}
	return func(yield func(service.Txn, error) bool) {
		query.Limit = 1 // of a page, which a stream has not
		if err := query.Validate(); err != nil {
			yield(service.Txn{}, fmt.Errorf("%s: %w", r.action, err))
			return
		}
		r.path = pathTxns + "?" + HistoryValues(query).Encode()
		body, err := c.stream(ctx, r, "")
		if err != nil {
			yield(service.Txn{}, err)
			return
		}
		defer body.Close()
		for line, err := range lines(body) {
			var txn service.Txn
			if err == nil {
				txn, err = txnOfLine(line)
			}
			if err != nil {
				yield(service.Txn{}, c.brokenOff(r, err))
				return
			}
			if !yield(txn, nil) {
				return
			}
		}
	}
}

// txnOfLine reads a line of NDJSON. The error is the problem that it holds, or a formError.
func txnOfLine(line string) (service.Txn, error) {
	var read api.TxnLine
	if err := json.Unmarshal([]byte(line), &read); err != nil {
		return service.Txn{}, formError{describe(err)}
	}
	switch {
	case read.Problem != nil && read.Problem.Title != "":
		return service.Txn{}, read.Problem
	case read.Txn == nil || read.ID == 0:
		return service.Txn{}, formError{"a line is neither a txn nor a problem"}
	}
	return *read.Txn, nil
}

// formError is the error of a stream in another form than that of velocityd.
type formError struct{ text string }

func (e formError) Error() string { return "the stream is not what a velocityd writes: " + e.text }

// brokenOff is the error of a stream that has begun.
func (c *Client) brokenOff(r request, err error) error {
	var problem *api.Problem
	if own := ownError(err); own != nil {
		return own
	}
	if form := (formError{}); errors.As(err, &form) {
		return c.unreadable(r, form.Error())
	}
	f := c.failure(r, nil, fmt.Errorf("broke off: %w", reason(err)))
	f.again = true
	switch {
	case !errors.As(err, &problem):
		f.kind = service.ErrBusy
	case problem.Status < http.StatusInternalServerError:
		f.again = false // such as a token that was revoked meanwhile
	}
	return f
}

// lines yields the lines of a stream without their ends. A last one without an end is an error: it is cut off.
func lines(body io.Reader) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		reader := bufio.NewReaderSize(body, longestLine)
		for {
			line, err := reader.ReadSlice('\n')
			switch {
			case errors.Is(err, io.EOF) && len(line) == 0:
				return
			case errors.Is(err, io.EOF):
				err = io.ErrUnexpectedEOF
			case errors.Is(err, bufio.ErrBufferFull):
				err = formError{fmt.Sprintf("a line is longer than %d bytes", longestLine)}
			}
			if !yield(strings.TrimRight(string(line), "\r\n"), err) || err != nil {
				return
			}
		}
	}
}

// stream asks and returns the body of an answer that is a stream of r.accept. Its errors are those of send. lastEvent
// is the id of the last event that was read, or "".
func (c *Client) stream(ctx context.Context, r request, lastEvent string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	watch := time.AfterFunc(c.patience(c.timeout), func() { cancel(errSilent) })
	question, err := c.question(ctx, r)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	if lastEvent != "" {
		question.Header.Set("Last-Event-ID", lastEvent)
	}
	response, err := c.http.Do(question) //nolint:bodyclose // watched closes it
	if err != nil {
		err = withCause(ctx, err)
		cancel(nil)
		return nil, c.unreached(r, err)
	}
	body := &watched{
		ReadCloser: response.Body, ctx: ctx, cancel: cancel, watch: watch,
		patience: c.patience(streamSilence),
	}
	switch {
	case response.StatusCode != http.StatusOK:
		defer func() { _ = body.Close() }()
		text, err := io.ReadAll(io.LimitReader(body, longestLine))
		if err != nil {
			return nil, c.cutOff(r, err)
		}
		return nil, c.refused(r, response, text)
	case mediaOf(response) != r.accept:
		_ = body.Close()
		return nil, c.unreadable(
			r, fmt.Sprintf("unexpected answer of type %q: is there a velocityd at this address?", mediaOf(response)))
	}
	return body, nil
}

// patience is usual, or no end if the service is in this process: there each page has a deadline, and nothing can break
// off.
func (c *Client) patience(usual time.Duration) time.Duration {
	if c.isInProcess {
		return math.MaxInt64
	}
	return usual
}

// errSilent says that nothing came for too long.
var errSilent = errors.New("nothing has come for too long")

// watched is the body of a stream, which breaks off if it is silent for streamSilence.
type watched struct {
	io.ReadCloser
	ctx    context.Context //nolint:containedctx // it is the stream's, and holds the reason of its end
	cancel context.CancelCauseFunc
	watch  *time.Timer
	// patience is how long it may be silent.
	patience time.Duration
}

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	w.watch.Reset(w.patience)
	n, err := w.ReadCloser.Read(p)
	w.watch.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = withCause(w.ctx, err)
	}
	return n, err
}

// Close implements io.Closer. It ends the request.
func (w *watched) Close() error {
	w.watch.Stop()
	w.cancel(nil)
	return w.ReadCloser.Close()
}

// withCause returns the reason why ctx was ended, if it was by us, in place of an error that it caused.
func withCause(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}
