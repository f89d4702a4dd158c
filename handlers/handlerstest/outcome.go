package handlerstest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"velocityd/service"
)

type report struct {
	TxnID     uint64          `json:"txn_id,omitempty,string"`
	AttemptID string          `json:"attempt_id,omitempty"`
	Outcome   service.Outcome `json:"outcome"`
}

type receipt struct {
	report
	Problem *problem `json:"problem"`
}

// ReportAll asks POST /v1/txns/{id}/outcome or POST /v1/attempts/{id}/outcome for a lone report and
// POST /v1/outcomes for others. It implements service.OutcomeStore.
func (c *Client) ReportAll(ctx context.Context, reports []service.Report) ([]error, error) {
	if len(reports) == 1 {
		return c.reportOne(ctx, reports[0])
	}
	list := make([]report, len(reports))
	for i, r := range reports {
		list[i] = report(r)
	}
	body, err := json.Marshal(map[string]any{"reports": list})
	if err != nil {
		return nil, err
	}
	status, answer, err := c.post(ctx, "/v1/outcomes", body)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, problemIn(answer)
	}
	var batch struct {
		Results []receipt `json:"results"`
	}
	if err := decode(answer, &batch); err != nil {
		return nil, err
	}
	errs := make([]error, len(batch.Results))
	for i, r := range batch.Results {
		switch {
		case r.Problem != nil:
			errs[i] = r.Problem.err()
		case i < len(list) && r.report != list[i]:
			errs[i] = fmt.Errorf("report %+v is answered by %+v", list[i], r.report)
		}
	}
	return errs, nil
}

func (c *Client) reportOne(ctx context.Context, r service.Report) ([]error, error) {
	body, err := json.Marshal(map[string]any{"outcome": r.Outcome})
	if err != nil {
		return nil, err
	}
	path := fmt.Sprintf("/v1/txns/%d/outcome", r.TxnID)
	if r.AttemptID != "" {
		path = "/v1/attempts/" + url.PathEscape(r.AttemptID) + "/outcome"
	}
	status, answer, err := c.post(ctx, path, body)
	if err != nil {
		return nil, err
	}
	switch status {
	case http.StatusOK:
		var got report
		if err := decode(answer, &got); err != nil {
			return nil, err
		}
		if got != report(r) {
			return nil, fmt.Errorf("report %+v is answered by %+v", r, got)
		}
		return []error{nil}, nil
	case http.StatusBadRequest, http.StatusNotFound, http.StatusConflict:
		return []error{problemIn(answer)}, nil
	default:
		return nil, problemIn(answer)
	}
}
