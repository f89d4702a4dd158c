package access

import (
	"slices"
	"testing"
)

func TestEachPresetIsValidAnywhereAndExtendsPrevious(t *testing.T) {
	t.Parallel()
	var before Caller
	for _, preset := range Presets() {
		for _, zones := range [][]int64{nil, {1, 2}} {
			caller := Caller{Name: "ann", Scopes: preset.Scopes(zones), Zones: zones}
			if err := caller.Validate(); err != nil {
				t.Errorf("%s in %v: %v", preset, zones, err)
			}
		}
		caller := Caller{Scopes: preset.Scopes(nil)}
		isLacking := slices.ContainsFunc(before.Scopes, func(s Scope) bool { return !caller.Has(s) })
		if isLacking || len(before.Scopes) > 0 && slices.Equal(caller.Scopes, before.Scopes) {
			t.Errorf("%s has %v, and the preset before %v", preset, caller.Scopes, before.Scopes)
		}
		before = caller
	}
	if scopes := Preset("root").Scopes(nil); scopes != nil {
		t.Errorf("no preset has %v", scopes)
	}
}
