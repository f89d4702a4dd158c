package client

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"velocityd/api"
	"velocityd/service"
)

// Report says how one login ended. Like Check it asks again until the deadline of
// ctx, because reporting the same outcome again changes nothing.
func (c *Client) Report(ctx context.Context, report service.Report) (err error) {
	began, o := time.Now(), Observation{Action: actionReport, Batch: 1}
	defer func() { c.observe(ctx, began, o, err) }()
	if err := report.Validate(); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	r := request{
		action: fmt.Sprintf("report outcome of txn %d", report.TxnID), method: http.MethodPost,
		path: fmt.Sprintf("/v1/txns/%d/outcome", report.TxnID), body: api.OutcomeRequest{Outcome: report.Outcome},
	}
	if report.AttemptID != "" {
		r.action, r.path = "report outcome of an attempt", attemptPath(report.AttemptID)+"/outcome"
	}
	return c.retry(ctx, &o, func(ctx context.Context) error {
		answer, err := ask[service.Report](ctx, c, r)
		if err == nil && answer != report {
			err = c.unreadable(r, "the answer does not fit the report")
		}
		return err
	})
}

// ReportAll implements service.OutcomeStore: it reports up to service.MaxReports
// outcomes in one call. It asks once and repeats nothing.
func (c *Client) ReportAll(ctx context.Context, reports []service.Report) (errs []error, err error) {
	began, o := time.Now(), Observation{Action: actionReport, Attempts: 1, Batch: len(reports)}
	defer func() { c.observe(ctx, began, o, err) }()
	r := request{
		action: fmt.Sprintf("report %d outcomes", len(reports)), method: http.MethodPost, path: "/v1/outcomes",
		body: api.Reports{Reports: reports},
	}
	answer, err := ask[api.Receipts](ctx, c, r)
	if err != nil {
		return nil, err
	}
	if len(answer.Results) != len(reports) {
		return nil, c.unreadable(r, fmt.Sprintf("%d answers to %d reports", len(answer.Results), len(reports)))
	}
	errs = make([]error, len(reports))
	for i, receipt := range answer.Results {
		switch {
		case receipt.Problem != nil:
			errs[i] = receipt.Problem
		case receipt.Report != reports[i]:
			return nil, c.unreadable(r, fmt.Sprintf("answer %d does not fit its report", i))
		}
	}
	return errs, nil
}
