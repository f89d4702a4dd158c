package handlers

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"velocityd/api"
	"velocityd/handlers/problem"
	"velocityd/handlers/strictjson"
	"velocityd/service"
)

const (
	pathOutcomes = "/v1/outcomes"
	pathOutcome  = "/v1/txns/:id/outcome"

	pathAttemptOutcome = "/v1/attempts/:id/outcome"
)

// outcomeRequest says how one login ended. The path names its txn or its attempt.
type outcomeRequest struct {
	Outcome *service.Outcome `json:"outcome"`
}

type reportsRequest struct {
	Reports reportList `json:"reports"`
}

// reportRequest says how one login ended. A nil member is missing.
type reportRequest struct {
	TxnID     *api.ID          `json:"txn_id,omitzero"`
	AttemptID *string          `json:"attempt_id,omitzero"`
	Outcome   *service.Outcome `json:"outcome"`
}

type reportList []reportRequest

// txnReport returns a report about the txn that the path names, and attemptReport one about its attempt.
func txnReport(x *exchange) (service.Report, error) {
	id, err := pathTxn(x)
	return service.Report{TxnID: id}, err
}

func attemptReport(x *exchange) (service.Report, error) {
	id, err := pathAttempt(x)
	return service.Report{AttemptID: id}, err
}

// postOutcome answers POST /v1/txns/{id}/outcome and POST /v1/attempts/{id}/outcome. The outcome is in the body.
func (s *server) postOutcome(x *exchange, r service.Report) error {
	var request outcomeRequest
	if err := s.read(x, &request); err != nil {
		return err
	}
	if request.Outcome == nil {
		return problem.MissingField("outcome")
	}
	r.Outcome = *request.Outcome
	if err := r.Validate(); err != nil {
		return problem.PointAtField(err)
	}
	errs, err := s.report(x, []service.Report{r})
	if err != nil {
		return err
	}
	if errs[0] != nil {
		return errs[0]
	}
	return x.respondJSON(http.StatusOK, api.MediaJSON, r)
}

// postOutcomes answers POST /v1/outcomes: each report by itself, unless the body
// is not of the right shape or nothing could be recorded at all.
func (s *server) postOutcomes(x *exchange) error {
	var request reportsRequest
	if err := s.read(x, &request); err != nil {
		return err
	}
	if len(request.Reports) == 0 {
		return strictjson.WrongLength("reports", service.MaxReports)
	}
	if err := x.takeMemory(resultBytes * int64(len(request.Reports))); err != nil {
		return err
	}
	results := make([]api.Receipt, len(request.Reports))
	var valid []service.Report
	var indexes []int // of valid, in request.Reports
	for i, r := range request.Reports {
		report, err := r.report()
		if err != nil {
			results[i] = x.receipt(report, problem.PointBelow(err, fmt.Sprint("/reports/", i), ""))
			continue
		}
		valid, indexes = append(valid, report), append(indexes, i)
	}
	errs, err := s.report(x, valid)
	if err != nil {
		return err
	}
	for i, index := range indexes {
		results[index] = x.receipt(valid[i], errs[i])
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

// report records the outcomes of the checks that the caller reaches. The others do not exist to the caller. It has the
// deadline of changes, and goes on when the caller leaves: without its outcome a good login would go on counting.
func (s *server) report(x *exchange, reports []service.Report) ([]error, error) {
	errs := make([]error, len(reports))
	err := s.change(x, func(ctx context.Context) error {
		reached, err := s.Auth.Reachable(ctx, x.caller.Caller, reports...)
		if err != nil {
			return err
		}
		var wanted []service.Report
		var indexes []int // of wanted, in reports
		for i, r := range reports {
			if !reached[i] {
				errs[i] = r.NotFound()
				continue
			}
			wanted, indexes = append(wanted, r), append(indexes, i)
		}
		if len(wanted) == 0 {
			return nil
		}
		recorded, err := s.Writer.ReportAll(ctx, wanted)
		if err == nil && len(recorded) != len(wanted) {
			err = fmt.Errorf("%w: store answered %d of %d reports", service.ErrUndecided, len(recorded), len(wanted))
		}
		if err != nil {
			return err
		}
		for i := range recorded {
			errs[indexes[i]] = recorded[i]
		}
		return nil
	})
	if err == nil && s.InProcess && len(errs) == 1 { // as in decide
		return errs, errs[0]
	}
	return errs, s.callError(err)
}

// report returns the request as a service.Report, or an error that points at the
// member that is wrong.
func (r reportRequest) report() (service.Report, error) {
	report := service.Report{}
	switch {
	case r.TxnID == nil && r.AttemptID == nil:
		return report, problem.InvalidField("txn_id", "txn_id is missing, or attempt_id in its place.")
	case r.TxnID != nil && r.AttemptID != nil:
		return report, problem.InvalidField(
			"attempt_id", "attempt_id must not be given beside txn_id: one of them names the check.")
	case r.TxnID != nil:
		report.TxnID = uint64(*r.TxnID)
	case *r.AttemptID == "":
		return report, problem.InvalidField("attempt_id", "attempt_id must not be empty.")
	default:
		report.AttemptID = *r.AttemptID
	}
	if r.Outcome == nil {
		return report, problem.MissingField("outcome")
	}
	report.Outcome = *r.Outcome
	return report, problem.PointAtField(report.Validate())
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (l *reportList) UnmarshalJSONFrom(in *jsontext.Decoder) (err error) {
	*l, err = strictjson.ReadList[reportRequest](in, "reports", service.MaxReports)
	return err
}

// receipt returns the answer to one of several reports, and keeps a refusal for the log.
func (x *exchange) receipt(r service.Report, err error) api.Receipt {
	if err != nil {
		x.logged.RefusedReport = cmp.Or(x.logged.RefusedReport, err)
		p := problem.Of(err)
		return api.Receipt{Problem: &p}
	}
	return api.Receipt{Report: r}
}
