package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"velocityd/api"
	"velocityd/service"
	"velocityd/service/memory"
)

func TestOutcomesAnswersEachByItself(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	r.post(t, "/v1/check", bucketJSON(2, "alice")).decision(t)
	r.post(t, "/v1/check", bucketJSON(2, "alice")).decision(t) // blocked
	r.post(t, "/v1/check", `{"zone_id":1,"bucket_key":"alice","attempt_id":".."}`).decision(t)
	got := r.post(t, "/v1/outcomes", `{"reports":[{"txn_id":1,"outcome":"success"},{"txn_id":1,"outcome":"failure"},`+
		`{"txn_id":2,"outcome":"success"},{"txn_id":7,"outcome":"success"},{},{"txn_id":0,"outcome":"success"},`+
		`{"txn_id":1,"outcome":"maybe"},{"outcome":"success","txn_id":"1"},{"txn_id":"18446744073709551615"},`+
		`{"attempt_id":"..","outcome":"failure"},{"attempt_id":"...","outcome":"failure"},{"attempt_id":"","outcome":"failure"},`+
		`{"attempt_id":"..","txn_id":1,"outcome":"failure"},{"attempt_id":"é","outcome":"failure"}]}`)
	answer := read[api.Receipts](t, got)
	for i, want := range []struct{ code, pointer string }{
		{},
		{code: "conflict"},
		{code: "conflict"},
		{code: "not_found"},
		{"invalid_request", "/reports/4/txn_id"},
		{"invalid_request", "/reports/5/txn_id"},
		{"invalid_request", "/reports/6/outcome"},
		{},
		{"invalid_request", "/reports/8/outcome"},
		{},
		{code: "not_found"},
		{"invalid_request", "/reports/11/attempt_id"},
		{"invalid_request", "/reports/12/attempt_id"},
		{"invalid_request", "/reports/13/attempt_id"},
	} {
		result := answer.Results[i]
		if want.code == "" {
			if result.Problem != nil || result.TxnID != 1 && result.AttemptID != ".." || result.Outcome == "" {
				t.Errorf("report %d: %+v", i, result)
			}
			continue
		}
		if result.Problem == nil || result.Problem.Code != want.code || result.Problem.Pointer != want.pointer ||
			result.TxnID != 0 {
			t.Errorf("report %d: %+v, want %+v", i, result.Problem, want)
		}
	}
	if line := r.log.Last(t); line["reports"] != 14.0 || line["refused_reports"] != 11.0 {
		t.Errorf("logged %v", line)
	}
}

func TestOutcomesRefusesAWrongShapeWhole(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	r.zones(t)
	r.post(t, "/v1/check", bucketJSON(1, "alice")).decision(t)
	const good = `{"txn_id":1,"outcome":"success"}`
	for _, test := range []struct{ body, pointer string }{
		{`{"reports":[]}`, "/reports"},
		{`{}`, "/reports"},
		{`{"reports":null}`, "/reports"},
		{`{"reports":[` + good + `,{"txn_id":-1,"outcome":"success"}]}`, "/reports/1/txn_id"},
		{`{"reports":[` + good + `,{"txn_id":1e3,"outcome":"success"}]}`, "/reports/1/txn_id"},
		{`{"reports":[` + good + `,{"txn_id":"","outcome":"success"}]}`, "/reports/1/txn_id"},
		{`{"reports":[` + good + `,{"txn_id":"01","outcome":"success"}]}`, "/reports/1/txn_id"},
		{`{"reports":[` + good + `,{"txn_id":null,"outcome":"success"}]}`, "/reports/1/txn_id"},
		{`{"reports":[` + good + `,{"txn_id":18446744073709551616,"outcome":"success"}]}`, "/reports/1/txn_id"},
		{`{"reports":[` + good + `,{"txn_id":1,"outcome":null}]}`, "/reports/1/outcome"},
		{`{"reports":[` + good + `,null]}`, "/reports/1"},
		{`{"reports":[` + strings.Repeat(good+",", 1000) + good + `]}`, "/reports"},
		{`{"reports":[` + strings.Repeat("{},", 300_000) + `{}]}`, "/reports"},
	} {
		p := r.post(t, "/v1/outcomes", test.body).refused(t, http.StatusBadRequest, "invalid_request")
		if p.Pointer != test.pointer {
			t.Errorf("%.120s: %+v, want %s", test.body, p, test.pointer)
		}
	}
	if txn, err := r.Txn(t.Context(), 1); err != nil || txn.Outcome != "" {
		t.Errorf("refused calls recorded %+v, %v", txn, err)
	}
	got := r.post(t, "/v1/outcomes", `{"reports":[`+strings.Repeat(good+",", 999)+good+`]}`)
	if got.status != http.StatusOK || strings.Count(got.body, `"success"`) != 1000 {
		t.Errorf("a thousand: %d %.200s", got.status, got.body)
	}
}

// reporter is a store whose ReportAll ends as a test wants.
type reporter struct {
	*memory.Store
	report func(reports []service.Report) ([]error, error)
}

func (r reporter) ReportAll(_ context.Context, reports []service.Report) ([]error, error) {
	return r.report(reports)
}

func TestOutcomeFaultsOfTheStoreHaveTheirStatus(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		errs   []error
		err    error
		status int
		code   string
	}{
		"busy":                 {nil, fmt.Errorf("report: %w: Error 1205", service.ErrBusy), 503, "busy"},
		"undecided":            {nil, fmt.Errorf("report: %w: connection lost", service.ErrUndecided), 504, "undecided"},
		"unknown":              {nil, errors.New("Error 1146: hidden_name"), 500, "internal"},
		"lacks a right":        {nil, fmt.Errorf("%w: hidden_name", service.ErrForbidden), 403, "forbidden"},
		"not found as a whole": {nil, fmt.Errorf("%w: hidden_name", service.ErrNotFound), 500, "internal"},
		"too few":              {[]error{}, nil, 504, "undecided"},
	} {
		r := start(t, func(o *Options) {
			o.Writer = reporter{report: func([]service.Report) ([]error, error) { return test.errs, test.err }}
		})
		for path, body := range map[string]string{
			"/v1/txns/1/outcome": `{"outcome":"success"}`, "/v1/outcomes": `{"reports":[{"txn_id":1,"outcome":"success"},{}]}`,
		} {
			got := r.post(t, path, body)
			got.refused(t, test.status, test.code)
			if strings.Contains(got.body, "hidden_name") || strings.Contains(got.body, "Error 1") {
				t.Errorf("%s: the caller learns %s", name, got.body)
			}
		}
	}
}

func TestOutcomesAsksNobodyIfNoneMakesSense(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *Options) {
		o.Writer = reporter{report: func([]service.Report) ([]error, error) {
			t.Error("the store was asked")
			return nil, service.ErrBusy
		}}
	})
	r.post(t, "/v1/outcomes", `{"reports":[{},{"txn_id":1}]}`).answered(t, http.StatusOK)
}
