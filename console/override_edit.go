package console

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"velocityd/service"
	"velocityd/service/lint"
)

// overrideOf returns the override that a form asks for, of a key or network that was given before. The error names the
// fields that are wrong.
func overrideOf(form url.Values, o service.Override, now time.Time) (service.Override, error) {
	var wrong faults
	o.Action, o.Rate, o.Window.Duration = service.OverrideAction(form.Get("action")), 0, 0
	if o.Action == service.OverrideLimit {
		var err error
		if o.Rate, err = strconv.Atoi(strings.TrimSpace(form.Get("rate"))); err != nil {
			wrong = append(wrong, service.NewFieldError("rate", "must be a whole number where the action is limit"))
		}
		if length := strings.TrimSpace(form.Get("window")); length != "" {
			seconds, err := strconv.ParseInt(length, 10, 32)
			if err != nil {
				wrong = append(wrong, service.NewFieldError("window", "must be whole seconds, or empty for that of the zone"))
			}
			o.Window.Duration = service.Seconds(seconds)
		}
	} else {
		o.PeriodAnchor = 0
	}
	var err error
	if o.ExpiresAt.Time, err = expiryOf(form, o.ExpiresAt.Time, now); err != nil {
		wrong = append(wrong, err)
	}
	o.Reason = strings.TrimSpace(form.Get("reason"))
	if err := service.ValidateReason(o.Reason); err != nil {
		wrong = append(wrong, err)
	}
	if len(wrong) > 0 {
		return o, wrong
	}
	return o, nil
}

// expiryOf returns when an override ends: after some seconds, at an instant in UTC, never, or as before. It refuses an
// end that has passed.
func expiryOf(form url.Values, before, now time.Time) (at time.Time, err error) {
	field := "lasts"
	switch lasts := form.Get(field); lasts {
	case "never":
		return at, nil
	case "same":
		if at = before; at.IsZero() {
			return at, nil
		}
	case "until":
		field = "expires_at"
		if at, err = parseTime(form.Get(field)); err != nil {
			return at, service.NewFieldError(field, "must be a day and a time in UTC, such as 2026-12-31 23:59")
		}
	default:
		seconds, err := strconv.ParseInt(lasts, 10, 32)
		if err != nil || seconds < 1 {
			return at, service.NewFieldError(field, "must be one of the choices")
		}
		at = now.Add(service.Seconds(seconds)).UTC().Truncate(time.Second)
	}
	if !at.After(now) {
		return at, service.NewFieldError(field, "must lie in the future: %s UTC has passed, and it is %s UTC",
			at.Format(time.DateTime), now.UTC().Format(time.DateTime))
	}
	return at, nil
}

// valuesOf returns the values with which the form of an override that is there, or of a new one, begins.
func valuesOf(o service.Override) url.Values {
	f := url.Values{"action": {string(o.Action)}, "reason": {o.Reason}, "lasts": {"86400"}}
	if o.ID != 0 {
		f.Set("lasts", "same")
		f.Set("override", strconv.FormatUint(o.ID, 10))
	}
	if o.Rate != 0 || o.Action == service.OverrideLimit {
		f.Set("rate", strconv.Itoa(o.Rate))
	}
	if o.Window.Duration != 0 {
		f.Set("window", strconv.FormatInt(service.WholeSeconds(o.Window.Duration), 10))
	}
	return f
}

// writeOverride stores the override that a form asks for, of a key or network of a zone, unless it is probably not
// meant and not sent for the second time.
func (v *visit) writeOverride(
	zone service.Zone, o service.Override, write func(context.Context, service.Override, string) (service.Override, error),
) error {
	wanted, err := overrideOf(v.r.PostForm, o, v.Now())
	if err != nil {
		return err
	}
	if odd := lint.OfOverride(v.Now(), zone, wanted); len(odd) > 0 && v.r.PostForm.Get("do") != "anyway" {
		return unmeant{Findings: odd}
	}
	_, err = write(service.WithReason(v.r.Context(), wanted.Reason), wanted, "")
	return err
}

// addOverride adds an override for a key or a network.
func (v *visit) addOverride() error {
	form := v.r.PostForm
	zone, err := v.zoneNamed()
	if err != nil {
		return err
	}
	o := service.Override{ZoneID: zone.ID}
	if o.Key, o.Prefix, err = zone.WithDefaults().Keys.Target(strings.TrimSpace(form.Get("bucket_key"))); err != nil {
		_, others := overrideOf(form, o, v.Now())
		return faults{err, others}
	}
	if err := v.writeOverride(zone, o, v.api.AddOverride); err != nil {
		return err
	}
	return v.goTo(fmt.Sprintf("overrides?zone=%d&done=override", zone.ID))
}

// changeOverride changes an override. Its key or network stays.
func (v *visit) changeOverride(p overridePage) error {
	if err := v.writeOverride(p.Zone, p.Override, v.api.SetOverride); err != nil {
		return err
	}
	return v.goTo(fmt.Sprintf("overrides/%d/%d?done=override", p.Zone.ID, p.Override.ID))
}

func (v *visit) dropOverride(p overridePage) error {
	ctx, err := v.withReason()
	if err != nil {
		return err
	}
	if err := v.api.DeleteOverride(ctx, p.Zone.ID, p.Override.ID, ""); err != nil {
		return err
	}
	return v.goTo("overrides?done=dropoverride")
}
