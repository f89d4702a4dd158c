package service_test

import (
	"math"
	"strings"
	"testing"

	"velocityd/service"
)

func TestReportValidateKnowsEveryLimit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		report service.Report
		field  string
	}{
		{"success", service.Report{TxnID: 1, Outcome: service.OutcomeSuccess}, ""},
		{"failure of the largest txn", service.Report{TxnID: math.MaxUint64, Outcome: service.OutcomeFailure}, ""},
		{"no txn", service.Report{Outcome: service.OutcomeFailure}, "txn_id"},
		{"by attempt id", service.Report{AttemptID: "~ !", Outcome: service.OutcomeFailure}, ""},
		{"by both", service.Report{TxnID: 1, AttemptID: "a", Outcome: service.OutcomeFailure}, "attempt_id"},
		{"by an attempt id of other letters", service.Report{AttemptID: "é", Outcome: service.OutcomeFailure}, "attempt_id"},
		{
			"by an attempt id that is too long",
			service.Report{AttemptID: strings.Repeat("a", 65), Outcome: service.OutcomeFailure},
			"attempt_id",
		},
		{"by attempt id, no outcome", service.Report{AttemptID: "a"}, "outcome"},
		{"no outcome", service.Report{TxnID: 1}, "outcome"},
		{"another outcome", service.Report{TxnID: 1, Outcome: "Success"}, "outcome"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			wantInvalid(t, test.report.Validate(), test.field)
		})
	}
}
