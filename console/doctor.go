package console

import (
	"cmp"
	"errors"
	"slices"

	"velocityd/api"
	"velocityd/service"
)

// diagnosis is the content of the page of the doctor.
type diagnosis struct {
	api.Diagnosis // the worst finding first
	// IsLate says that the examination was not over within the deadline of the page.
	IsLate bool
}

// doctor shows what "velocityd doctor" has to say, as the instance finds it.
func (v *visit) doctor() error {
	found, err := v.api.Diagnose(v.r.Context())
	isLate := errors.Is(err, service.ErrBusy)
	if err != nil && !isLate {
		return err
	}
	slices.SortStableFunc(found.Findings, func(a, b service.Diagnosis) int { return cmp.Compare(weight(a), weight(b)) })
	return v.show("doctor", "Health", "Diagnosis", diagnosis{found, isLate})
}

// weight is lower for findings that matter more.
func weight(d service.Diagnosis) int {
	return slices.Index([]string{"fault", "warning", "note", "ok"}, d.Level)
}
