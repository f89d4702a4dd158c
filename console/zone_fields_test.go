package console

import (
	"net/url"
	"slices"
	"testing"

	"velocityd/api"
	"velocityd/service"
)

func TestTheFormHasEverySettingOfAZone(t *testing.T) {
	t.Parallel()
	var fields, settings []string
	for _, g := range zoneGroups() {
		for _, f := range g.Fields {
			fields = append(fields, f.Name)
		}
	}
	for _, s := range api.DefaultSettings().List() {
		settings = append(settings, s.Name)
	}
	slices.Sort(fields)
	slices.Sort(settings)
	if !slices.Equal(fields, settings) {
		t.Errorf("the form has %v, and zones have %v", fields, settings)
	}
}

func TestAFormGivesTheSettingsThatItWasMadeOf(t *testing.T) {
	t.Parallel()
	for _, zone := range []service.Zone{
		{ID: 1, Rate: 5, Window: service.Seconds(60)},
		{
			ID: 1, Description: `a "zone"`, Rate: 0, Calendar: service.Calendar{Period: service.PeriodMonth, Offset: -90, Anchor: 31}, Mode: service.ModeShadow,
			Counts: service.CountsFailures, ReserveTTL: service.Seconds(30), ResetOnSuccess: true, Concurrent: 3, RepeatSecret: service.RepeatFree,
			Lockout: service.Seconds(60), LockoutFactor: 1.25, Keys: service.KeyRule{Kind: service.KeyIP, IPv4Prefix: 24},
			Totals: true, KeepDays: 9, RecordBlocked: 5, FullEvents: true,
		},
	} {
		want, form := api.NewZoneSettings(zone), url.Values{}
		for name, text := range valuesOf(want) {
			form.Set(name, text)
		}
		if got, err := settingsOf(form, api.DefaultSettings()); err != nil || got != want {
			t.Errorf("%+v became %+v, %v", want, got, err)
		}
		if got, err := settingsOf(changedValues(api.DefaultSettings(), want), api.DefaultSettings()); err != nil || got != want {
			t.Errorf("%+v became %+v by its differences, %v", want, got, err)
		}
	}
}

func FuzzSettingsOf(f *testing.F) {
	f.Add("rate=5&window=60&lockout_factor=NaN")
	f.Add("period=month&description=%22%00&totals=true")
	f.Fuzz(func(t *testing.T, text string) {
		form, err := url.ParseQuery(text)
		if err != nil {
			t.Skip()
		}
		settings, err := settingsOf(form, api.DefaultSettings())
		if err != nil {
			return
		}
		if again, err := settingsOf(changedValues(api.DefaultSettings(), settings), api.DefaultSettings()); err != nil || again != settings {
			t.Errorf("%+v became %+v, %v", settings, again, err)
		}
	})
}

func TestRatesOfAPreviewAreFewAndHoldBothRates(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]int{{5, 8}, {0, 1}, {11, 11}, {20, 500}, {100, 100}, {0, 1_000_000}, {1_000_000, 3}} {
		rates := ratesAround(pair[0], pair[1])
		if len(rates) > previewRates+1 || !slices.Contains(rates, pair[0]) || !slices.Contains(rates, pair[1]) || !slices.IsSorted(rates) {
			t.Errorf("around %v: %v", pair, rates)
		}
	}
}

func FuzzStates(f *testing.F) {
	f.Add([]byte(`{"rate":5,"window":60,"lockout_factor":2.00,"totals":1,"reserve_ttl":null}`))
	f.Add([]byte(`{"bucket_key":"a","prefix":"::/0","expires_at":"2026-01-01 00:00:00.000001","action":"deny"}`))
	f.Fuzz(func(t *testing.T, state []byte) {
		if settings, err := settingsOfState(state); err == nil && settings.Zone(1).WithDefaults().Window < 0 {
			t.Errorf("%s became %+v", state, settings)
		}
		if o, err := overrideOfState(service.AuditEntry{ZoneID: 1, OverrideID: 2, Before: state}); err == nil && o.ID != 2 {
			t.Errorf("%s became %+v", state, o)
		}
		changesOf(service.AuditEntry{After: state})
	})
}
