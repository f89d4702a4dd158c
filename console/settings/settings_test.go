package settings

import (
	"net/url"
	"testing"

	"velocityd/service"
	"velocityd/service/audit"
)

func TestFormGivesBackItsSettings(t *testing.T) {
	t.Parallel()
	for _, zone := range []service.Zone{
		{ID: 1, Rate: 5, Window: service.Seconds(60)},
		{
			ID: 1, Description: `a "zone"`, Rate: 0,
			Calendar: service.Calendar{Period: service.PeriodMonth, Offset: -90, Anchor: 31}, Mode: service.ModeShadow,
			Counts: service.CountsFailures, ReserveTTL: service.Seconds(30), ResetOnSuccess: true, Concurrent: 3,
			RepeatSecret: service.RepeatFree,
			Lockout:      service.Seconds(60), LockoutFactor: 1.25, Keys: service.KeyRule{Kind: service.KeyIP, IPv4Prefix: 24},
			Totals: true, KeepDays: 9, RecordBlocked: 5,
		},
	} {
		want, form := zone.WithDefaults(), url.Values{}
		for name, text := range ValuesOf(want) {
			form.Set(name, text)
		}
		if got, err := Read(form, service.Zone{ID: 1}); err != nil || got != want {
			t.Errorf("%+v became %+v, %v", want, got, err)
		}
		if got, err := Read(ChangedValues(service.Zone{ID: 1}, want), service.Zone{ID: 1}); err != nil || got != want {
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
		settings, err := Read(form, service.Zone{ID: 1})
		if err != nil {
			return
		}
		if again, err := Read(ChangedValues(service.Zone{ID: 1}, settings), service.Zone{ID: 1}); err != nil ||
			again != settings {
			t.Errorf("%+v became %+v, %v", settings, again, err)
		}
	})
}

func FuzzStates(f *testing.F) {
	f.Add([]byte(`{"rate":5,"window":60,"lockout_factor":2.00,"totals":1,"reserve_ttl":null}`))
	f.Add([]byte(`{"bucket_key":"a","prefix":"::/0","expires_at":"2026-01-01 00:00:00.000001","action":"deny"}`))
	f.Fuzz(func(t *testing.T, state []byte) {
		if zone, err := service.ZoneOfState(1, state); err == nil {
			text, err := zone.MarshalJSON()
			if again, err2 := service.ZoneOfState(1, text); err != nil || err2 != nil || again != zone {
				t.Errorf("%s became %+v and %+v, %v, %v", state, zone, again, err, err2)
			}
		}
		if o, err := service.OverrideOfState(1, 2, state); err == nil && o.ID != 2 {
			t.Errorf("%s became %+v", state, o)
		}
		ChangesOf(audit.Entry{After: state})
	})
}
