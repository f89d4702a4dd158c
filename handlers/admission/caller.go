package admission

import (
	"fmt"
	"slices"
	"strings"

	"velocityd/service"
	"velocityd/service/access"
)

// Caller is a caller with the scopes that its call needs. The zero value may do everything: the service is open.
type Caller struct {
	access.Caller
	Needs []access.Scope // one of them; none means any valid credential
}

// May returns a ScopeError unless the caller has a scope that its call needs, in any zone.
func (a Caller) May() error {
	if len(a.Needs) == 0 || slices.ContainsFunc(a.Needs, a.Has) {
		return nil
	}
	return &ScopeError{caller: a}
}

// MayEverywhere returns a ScopeError if the caller's scopes hold in some zones only.
func (a Caller) MayEverywhere() error {
	if !a.IsBound() {
		return nil
	}
	return &ScopeError{caller: a, where: " in all zones"}
}

// MayIn returns a ScopeError if the caller's scopes do not hold in a zone. It does NOT look whether the
// zone exists: the answer is the same.
func (a Caller) MayIn(zoneID int64) error {
	return a.MayCheck(service.Check{Buckets: []service.Bucket{{ZoneID: zoneID}}})
}

// MayCheck returns a ScopeError about the first bucket of a check in whose zone the caller may not ask.
func (a Caller) MayCheck(check service.Check) error {
	for i, b := range check.Buckets {
		if !a.Reaches(b.ZoneID) {
			return &ScopeError{caller: a, where: fmt.Sprintf(" in zone %d", b.ZoneID), Bucket: i}
		}
	}
	return nil
}

// ScopeError says which scopes a credential lacks, and where. Its text is a sentence for the
// caller, whose own credential it names. It wraps access.ErrMissingScope.
type ScopeError struct {
	Bucket int // of the check, for an error of MayCheck
	caller Caller
	where  string
}

func (e *ScopeError) Error() string {
	names := access.ScopeNames(e.caller.Needs)
	lacks := "the scope " + strings.Join(names, "")
	if len(names) > 1 {
		lacks = "one of the scopes " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("The credential %s lacks %s%s.", e.caller.Name, lacks, e.where)
}

func (e *ScopeError) Unwrap() error { return access.ErrMissingScope }
