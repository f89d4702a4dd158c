package handlers

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"velocityd/api"
	"velocityd/handlers/problem"
	"velocityd/service"
)

// exportPageTimeout is the deadline of one page of an export.
const exportPageTimeout = 10 * time.Second

// exportTxns answers with all txns of a query, page by page. It is recorded first. If a page can not be read, the
// answer ends as its form allows, and never as if it were whole.
func (s *server) exportTxns(x *exchange, query service.HistoryQuery, form string) error {
	e := ndjsonForm()
	if form == formCSV {
		e = csvForm()
	}
	w := &stream{x: x, media: e.media, file: e.file}
	if err := refuseOldHTTP(x.Request()); err != nil {
		return err
	}
	if x.Request().Method == http.MethodHead {
		w.begin()
		return nil
	}
	leave, err := s.takePlace(x, s.exports, api.ErrTooManyStreams)
	if err != nil {
		return err
	}
	defer leave()
	if err := x.takeMemory(streamBytes); err != nil {
		return err
	}
	if s.InProcess {
		form = formCommand
	}
	if err := s.changeAs(x, func(ctx context.Context, principal string) error {
		return s.Exports.NoteExport(ctx, service.Export{Query: query, Format: form}, principal)
	}); err != nil {
		return fmt.Errorf("record the export in zone_audit: %w", err)
	}
	return s.sendAll(w, e, query)
}

// sendAll sends the pages of a query. Its error is that of a page, and the caller has got it.
func (s *server) sendAll(w *stream, e txnForm, query service.HistoryQuery) error {
	ctx, cancel := s.whileRunning(w.x)
	defer cancel()
	query.Limit = service.MaxHistoryPage
	part := bytes.NewBuffer(e.head)
	for page, err := range service.Pages(ctx, pageLimited{s.Reader, s.timeout(exportPageTimeout)}, query) {
		if err != nil {
			return s.breakOff(w, e.end, err)
		}
		w.x.hideAttempts(page.Txns, query.AttemptID)
		for _, t := range page.Txns {
			if err := e.txn(part, t); err != nil {
				return s.breakOff(w, e.end, fmt.Errorf("encode txn %d: %w", t.ID, err))
			}
		}
		if w.send(part.Bytes()) != nil {
			return nil // the caller has gone
		}
		part.Reset()
	}
	return nil
}

// breakOff ends a stream by an error. Before the stream has begun, the answer is the problem alone. A caller in this
// process gets the error itself, from Observed.
func (s *server) breakOff(w *stream, end ending, err error) error {
	if s.Running.Err() != nil {
		err = errStopping()
	}
	if !w.hasBegun || s.InProcess {
		return err
	}
	var last bytes.Buffer
	if !end(&last, problem.Of(err)) || w.send(last.Bytes()) != nil {
		w.x.isBroken = true
	}
	return err
}

// whileRunning returns a context that ends with the request, and when the service begins to stop.
func (s *server) whileRunning(x *exchange) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(x.Request().Context())
	stop := context.AfterFunc(s.Running, cancel)
	return ctx, func() { stop(); cancel() }
}

func errStopping() error {
	return problem.New(api.ErrNotReady,
		"This instance stops. Ask again: another one answers, or this one when it is back.")
}

type pageLimited struct {
	store   service.HistoryStore
	timeout time.Duration
}

// History implements service.HistoryStore.
func (p pageLimited) History(ctx context.Context, query service.HistoryQuery) (service.HistoryPage, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return p.store.History(ctx, query)
}
