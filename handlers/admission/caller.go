package admission

import (
	"fmt"
	"slices"
	"strings"

	"velocityd/service"
	"velocityd/service/access"
)

// Asker is a caller with the needs of his call. The zero value may do everything: nobody is asked who he is.
type Asker struct {
	access.Caller
	Needs []access.Scope // one of them; none means any credential that holds
}

// May returns a LackError unless the asker has a scope that his call needs, in whatever zones.
func (a Asker) May() error {
	if len(a.Needs) == 0 || slices.ContainsFunc(a.Needs, a.Has) {
		return nil
	}
	return &LackError{asker: a}
}

// MayEverywhere returns a LackError if the asker's scopes hold in some zones only.
func (a Asker) MayEverywhere() error {
	if !a.IsBound() {
		return nil
	}
	return &LackError{asker: a, where: " in all zones"}
}

// MayIn returns a LackError if the asker's scopes do not hold in a zone. It does NOT look whether the
// zone exists: the answer is the same.
func (a Asker) MayIn(zoneID int64) error {
	return a.MayAsk(service.Check{Buckets: []service.Bucket{{ZoneID: zoneID}}})
}

// MayAsk returns a LackError about the first bucket of a check in whose zone the asker may not ask.
func (a Asker) MayAsk(check service.Check) error {
	for i, b := range check.Buckets {
		if !a.Reaches(b.ZoneID) {
			return &LackError{asker: a, where: fmt.Sprintf(" in zone %d", b.ZoneID), Bucket: i}
		}
	}
	return nil
}

// LackError says which scopes a credential lacks, and where. Its text is a sentence for the
// caller, whose own credential it names. It wraps access.ErrMissingScope.
type LackError struct {
	Bucket int // of the check, for an error of MayAsk
	asker  Asker
	where  string
}

func (e *LackError) Error() string {
	names := access.ScopeNames(e.asker.Needs)
	lacks := "the scope " + strings.Join(names, "")
	if len(names) > 1 {
		lacks = "one of the scopes " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("The credential %s lacks %s%s.", e.asker.Name, lacks, e.where)
}

func (e *LackError) Unwrap() error { return access.ErrMissingScope }
