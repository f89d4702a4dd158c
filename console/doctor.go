package console

import (
	"cmp"
	"errors"
	"slices"

	"velocityd/service"
)

// diagnosis is the content of the page of the doctor.
type diagnosis struct {
	Findings         []service.Diagnosis // the worst first
	Faults, Warnings int
	// IsLate says that the examination was not over within the deadline of the page.
	IsLate bool
}

// doctor shows what "velocityd doctor" has to say, as the instance finds it.
func (v *visit) doctor() error {
	found, err := v.api.Diagnose(v.r.Context())
	if errors.Is(err, service.ErrBusy) {
		return v.show("doctor", "Health", "Diagnosis", diagnosis{IsLate: true})
	}
	if err != nil {
		return err
	}
	slices.SortStableFunc(found, func(a, b service.Diagnosis) int { return cmp.Compare(weight(a), weight(b)) })
	d := diagnosis{Findings: found}
	for _, f := range found {
		switch f.Level {
		case "fault":
			d.Faults++
		case "warning":
			d.Warnings++
		}
	}
	return v.show("doctor", "Health", "Diagnosis", d)
}

// weight is lower for findings that matter more.
func weight(d service.Diagnosis) int {
	return slices.Index([]string{"fault", "warning", "note", "ok"}, d.Level)
}
