package access

import "slices"

// Preset is a kind of person whose work over HTTP needs certain scopes.
type Preset string

// The presets. Each but the first has the scopes of the one before, too.
const (
	PresetAnalyst  Preset = "analyst"  // looks at attempts and buckets, and changes nothing
	PresetHelpdesk Preset = "helpdesk" // releases people that are locked out
	PresetDBA      Preset = "dba"      // edits zones and overrides
	PresetAdmin    Preset = "admin"    // does everything
)

// Presets returns all presets.
func Presets() []Preset { return []Preset{PresetAnalyst, PresetHelpdesk, PresetDBA, PresetAdmin} }

// Scopes returns the scopes of a preset for a credential that is bound to zones, or to none. One that is bound gets
// no metrics, because those show all zones. The result is nil for a word that is no preset.
func (p Preset) Scopes(zones []int64) []Scope {
	var scopes []Scope
	switch p {
	case PresetAnalyst:
		scopes = []Scope{ScopePeek, ScopeHistory, ScopeMetrics}
	case PresetHelpdesk:
		scopes = []Scope{ScopePeek, ScopeRelease, ScopeHistory, ScopeMetrics}
	case PresetDBA:
		scopes = []Scope{ScopePeek, ScopeRelease, ScopeZones, ScopeOverrides, ScopeHistory, ScopeMetrics}
	case PresetAdmin:
		scopes = []Scope{ScopeAdmin}
	}
	if len(zones) > 0 {
		scopes = slices.DeleteFunc(scopes, func(s Scope) bool { return s == ScopeMetrics })
	}
	return scopes
}
