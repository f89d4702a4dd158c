package api

import "velocityd/service"

// OutcomeRequest is the body of POST /v1/txns/{id}/outcome and of POST /v1/attempts/{id}/outcome.
type OutcomeRequest struct {
	Outcome service.Outcome `json:"outcome"`
}

// Report says how the login ended that a txn belongs to, or that has an attempt id. It is used in requests
// and in answers.
type Report struct {
	TxnID     ID              `json:"txn_id,omitzero"`
	AttemptID string          `json:"attempt_id,omitzero"`
	Outcome   service.Outcome `json:"outcome"`
}

// Reports is the body of POST /v1/outcomes.
type Reports struct {
	Reports []Report `json:"reports"`
}

// Receipts is the answer of POST /v1/outcomes: element i answers report i.
type Receipts struct {
	Results []Receipt `json:"results"`
}

// Receipt holds either the report as it is recorded or a problem.
type Receipt struct {
	TxnID     ID              `json:"txn_id,omitzero"`
	AttemptID string          `json:"attempt_id,omitzero"`
	Outcome   service.Outcome `json:"outcome,omitzero"`
	Problem   *Problem        `json:"problem,omitzero"`
}

// NewReport returns a report as it is asked and answered.
func NewReport(r service.Report) Report {
	return Report{TxnID: ID(r.TxnID), AttemptID: r.AttemptID, Outcome: r.Outcome}
}

// NewReports returns the request that makes several reports.
func NewReports(reports []service.Report) Reports {
	list := Reports{Reports: make([]Report, len(reports))}
	for i, r := range reports {
		list.Reports[i] = NewReport(r)
	}
	return list
}

// Report converts the report to the type of package service.
func (r Report) Report() service.Report {
	return service.Report{TxnID: uint64(r.TxnID), AttemptID: r.AttemptID, Outcome: r.Outcome}
}

// Report returns the report that was recorded. It has no meaning if Problem is set.
func (r Receipt) Report() service.Report {
	return service.Report{TxnID: uint64(r.TxnID), AttemptID: r.AttemptID, Outcome: r.Outcome}
}
