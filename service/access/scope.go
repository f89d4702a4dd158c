package access

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"velocityd/service"
)

var (
	// ErrUnauthenticated says that a call has no credential that holds.
	ErrUnauthenticated = errors.New("unauthenticated")
	// ErrMissingScope says that a caller's credential does not allow its call. It
	// is NOT service.ErrForbidden, which is about the service's own account.
	ErrMissingScope = errors.New("missing scope")
)

// Scope is a kind of call that a credential allows its holder.
type Scope string

// The scopes.
const (
	ScopeCheck     Scope = "check"     // ask whether an attempt may go ahead
	ScopeReport    Scope = "report"    // say how a login ended
	ScopePeek      Scope = "peek"      // look at a bucket
	ScopeRelease   Scope = "release"   // release a bucket
	ScopeZones     Scope = "zones"     // change zones
	ScopeOverrides Scope = "overrides" // list and change overrides
	ScopeHistory   Scope = "history"   // look at recorded attempts
	ScopeMetrics   Scope = "metrics"   // read the service's metrics
	ScopeAdmin     Scope = "admin"     // everything
)

// Scopes returns all scopes, in the order in which they are listed everywhere.
func Scopes() []Scope {
	return []Scope{
		ScopeCheck, ScopeReport, ScopePeek, ScopeRelease, ScopeZones, ScopeOverrides, ScopeHistory, ScopeMetrics, ScopeAdmin,
	}
}

// MaxBoundZones is the most zones to which one credential can be bound.
const MaxBoundZones = 256

// Caller is a person or program known by a credential, with the rights of that credential.
type Caller struct {
	Name   string  `json:"name,omitzero"`
	Scopes []Scope `json:"scopes"`
	// Zones are the zones in which the scopes hold. An empty list means all zones, also later ones.
	Zones []int64 `json:"zones,omitzero"`
}

// Has reports whether the caller has a scope in any zone.
func (c Caller) Has(scope Scope) bool {
	return slices.Contains(c.Scopes, scope) || slices.Contains(c.Scopes, ScopeAdmin)
}

// Reaches reports whether a zone is one of those in which the caller's scopes hold. It
// does NOT ask whether the zone exists.
func (c Caller) Reaches(zoneID int64) bool { return !c.IsBound() || slices.Contains(c.Zones, zoneID) }

// IsBound reports whether the caller's scopes hold in some zones only.
func (c Caller) IsBound() bool { return len(c.Zones) > 0 }

// Validate returns an ErrInvalid that names the field, or nil. It does NOT ask whether
// the zones exist.
func (c Caller) Validate() error {
	if !isCallerName(c.Name) {
		return service.NewFieldError("name", "must be a letter and then at most %d letters, digits or any of - . _ @",
			maxCallerName-1)
	}
	if len(c.Scopes) == 0 {
		return service.NewFieldError("scopes", "must not be empty")
	}
	for _, scope := range c.Scopes {
		if !slices.Contains(Scopes(), scope) {
			return service.NewFieldError("scopes", "must be of %s", strings.Join(ScopeNames(Scopes()), ", "))
		}
	}
	if c.IsBound() && slices.Contains(c.Scopes, ScopeMetrics) { // metrics show all zones
		return service.NewFieldError("scopes", "must not hold metrics in a credential that is bound to zones")
	}
	if len(c.Zones) > MaxBoundZones {
		return service.NewFieldError("zones", "must be at most %d", MaxBoundZones)
	}
	for _, zone := range c.Zones {
		if zone < 1 || zone > service.MaxZoneID {
			return service.NewFieldError("zones", "must each be 1 to %d", service.MaxZoneID)
		}
	}
	return nil
}

// ScopeNames returns the scopes as text, in their order.
func ScopeNames(scopes []Scope) []string {
	names := make([]string, len(scopes))
	for i, scope := range scopes {
		names[i] = string(scope)
	}
	return names
}

// ZoneList returns the ids of the zones to which the caller is bound, separated by commas. It is
// empty if the caller is not bound.
func (c Caller) ZoneList() string {
	ids := make([]string, len(c.Zones))
	for i, id := range c.Zones {
		ids[i] = strconv.FormatInt(id, 10)
	}
	return strings.Join(ids, ",")
}

// maxCallerName is the length of the longest name of a caller. A proxy's caller is
// recorded together with the user that the proxy names, in MaxNameLength characters.
const maxCallerName = 48

// isCallerName reports whether text can be the name of a caller. It begins with a letter,
// so that a command can tell names from ids.
func isCallerName(text string) bool {
	strange := func(r rune) bool { return !isLetter(r) && !isDigit(r) && !strings.ContainsRune("-._@", r) }
	return text != "" && len(text) <= maxCallerName && isLetter(rune(text[0])) && !strings.ContainsFunc(text, strange)
}

// isLetter and isDigit are for ASCII.
func isLetter(r rune) bool { return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' }
func isDigit(r rune) bool  { return r >= '0' && r <= '9' }
