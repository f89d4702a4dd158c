package handlers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"velocityd/api"
	"velocityd/service"
)

// outcomeRequest is how one login ended, the txn being named in the path.
type outcomeRequest struct {
	Outcome *service.Outcome `json:"outcome"`
}

type reportsRequest struct {
	Reports reportList `json:"reports"`
}

// reportRequest is how one login ended. Pointers tell what is missing.
type reportRequest struct {
	TxnID   *uint64          `json:"txn_id"`
	Outcome *service.Outcome `json:"outcome"`
}

type reportList []reportRequest

// postOutcome answers POST /v1/txns/{id}/outcome.
func (s *server) postOutcome(x *exchange) error {
	id, err := pathTxn(x)
	if err != nil {
		return err
	}
	var request outcomeRequest
	if err := s.read(x, &request); err != nil {
		return err
	}
	r, err := reportRequest{TxnID: &id, Outcome: request.Outcome}.report()
	if err != nil {
		return err
	}
	errs, err := s.report(x, []service.Report{r})
	if err != nil {
		return err
	}
	if errs[0] != nil {
		return errs[0]
	}
	return x.respondJSON(http.StatusOK, api.MediaJSON, api.Report(r))
}

// postOutcomes answers POST /v1/outcomes: each report by itself, unless the body
// is not of the right shape or nothing could be recorded at all.
func (s *server) postOutcomes(x *exchange) error {
	var request reportsRequest
	if err := s.read(x, &request); err != nil {
		return err
	}
	if len(request.Reports) == 0 {
		return tooManyOrFew("reports", service.MaxReports)
	}
	results := make([]api.Receipt, len(request.Reports))
	var valid []service.Report
	var places []int
	for i, r := range request.Reports {
		sound, err := r.report()
		if err != nil {
			results[i] = newReceipt(sound, within(err, fmt.Sprint("/reports/", i)))
			continue
		}
		valid, places = append(valid, sound), append(places, i)
	}
	errs, err := s.report(x, valid)
	if err != nil {
		return err
	}
	for i, place := range places {
		results[place] = newReceipt(valid[i], errs[i])
	}
	refused := 0
	for _, r := range results {
		if r.Problem != nil {
			refused++
		}
	}
	x.attrs = append(x.attrs, slog.Int("reports", len(results)), slog.Int("refused_reports", refused))
	return x.respondJSON(http.StatusOK, api.MediaJSON, api.Receipts{Results: results})
}

// report asks the store. Whole calls fail as those of checks do.
func (s *server) report(x *exchange, reports []service.Report) (errs []error, err error) {
	if len(reports) == 0 {
		return nil, nil
	}
	err = s.change(x, func(ctx context.Context) error {
		errs, err = s.writer.ReportAll(ctx, reports)
		return err
	})
	switch {
	case err == nil && len(errs) != len(reports):
		return nil, fmt.Errorf("%w: store answered %d of %d reports", service.ErrUndecided, len(errs), len(reports))
	case err != nil && !failsWhole(err):
		return nil, fmt.Errorf("%w: %w", api.ErrInternal, err)
	}
	return errs, err
}

// report returns the report in the domain's words, or an error that points at
// what is wrong.
func (r reportRequest) report() (service.Report, error) {
	switch {
	case r.TxnID == nil:
		return service.Report{}, missing("txn_id")
	case r.Outcome == nil:
		return service.Report{}, missing("outcome")
	}
	sound := service.Report{TxnID: *r.TxnID, Outcome: *r.Outcome}
	return sound, inBody(sound.Validate())
}

// within moves the place that err points at below another one.
func within(err error, place string) error {
	var request *requestError
	if !errors.As(err, &request) {
		return err
	}
	return &requestError{kind: request.kind, detail: request.detail, pointer: place + request.pointer}
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (l *reportList) UnmarshalJSONFrom(in *jsontext.Decoder) (err error) {
	*l, err = readList[reportRequest](in, "reports", service.MaxReports)
	return err
}

func newReceipt(r service.Report, err error) api.Receipt {
	if err != nil {
		p := problemOf(err)
		return api.Receipt{Problem: &p}
	}
	return api.Receipt{TxnID: r.TxnID, Outcome: r.Outcome}
}
