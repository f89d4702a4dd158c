package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"velocityd/service"
)

// overrideOf returns the override that a form asks for, of a key or network that was given before. The error is a
// service.ErrInvalid that names the field.
func overrideOf(form url.Values, o service.Override, now time.Time) (service.Override, error) {
	o.Action, o.Rate, o.Window = service.OverrideAction(form.Get("action")), 0, 0
	o.Reason = strings.TrimSpace(form.Get("reason"))
	if err := service.ValidateReason(o.Reason); err != nil {
		return o, err
	}
	if o.Action == service.OverrideLimit {
		rate, err := strconv.Atoi(strings.TrimSpace(form.Get("rate")))
		if err != nil {
			return o, service.NewFieldError("rate", "must be a whole number where the action is limit")
		}
		seconds, err := strconv.ParseInt(strings.TrimSpace(form.Get("window")), 10, 32)
		if err != nil && strings.TrimSpace(form.Get("window")) != "" {
			return o, service.NewFieldError("window", "must be whole seconds, or empty for that of the zone")
		}
		o.Rate, o.Window = rate, service.Seconds(seconds)
	} else {
		o.PeriodAnchor = 0
	}
	var err error
	o.ExpiresAt, err = expiryOf(form, o.ExpiresAt, now)
	return o, err
}

// expiryOf returns when an override ends: after some seconds, at an instant in UTC, never, or as before.
func expiryOf(form url.Values, before, now time.Time) (time.Time, error) {
	switch lasts := form.Get("lasts"); lasts {
	case "never":
		return time.Time{}, nil
	case "same":
		return before, nil
	case "until":
		at, err := parseTime(form.Get("until"))
		if err != nil {
			return at, service.NewFieldError("until", "must be a day and a time in UTC, such as 2026-12-31 23:59")
		}
		return at, nil
	default:
		seconds, err := strconv.ParseInt(lasts, 10, 32)
		if err != nil || seconds < 1 {
			return before, service.NewFieldError("until", "must be one of the choices")
		}
		return now.Add(service.Seconds(seconds)).UTC().Truncate(time.Second), nil
	}
}

// addOverride adds an override for a key or a network.
func (v *visit) addOverride() error {
	form := v.r.PostForm
	id, err := strconv.ParseInt(form.Get("zone"), 10, 32)
	if err != nil {
		return v.fail(http.StatusBadRequest, "The override was not added.", "It names no zone. Go back, and choose one.")
	}
	zone, err := v.api.Zone(v.r.Context(), id)
	if err != nil {
		return err
	}
	o := service.Override{ZoneID: id}
	if o.Key, o.Prefix, err = zone.WithDefaults().Keys.Target(strings.TrimSpace(form.Get("who"))); err != nil {
		return v.fail(http.StatusBadRequest, "The override was not added.", sentenceOfField(err)+" Go back, and change it.")
	}
	o, err = overrideOf(form, o, v.Now())
	if err == nil {
		_, err = v.api.AddOverride(service.WithReason(v.r.Context(), o.Reason), o, "")
	}
	if errors.Is(err, service.ErrInvalid) {
		return v.fail(http.StatusBadRequest, "The override was not added.", sentenceOfField(err)+" Go back, and change it.")
	}
	if err != nil {
		return err
	}
	return v.goTo(fmt.Sprintf("overrides?zone=%d&done=override", id))
}

// changeOverride changes an override. Its key or network stays.
func (v *visit) changeOverride() error {
	zone, o, err := v.pathOverride()
	if err != nil {
		return err
	}
	wanted, err := overrideOf(v.r.PostForm, o, v.Now())
	if err == nil {
		_, err = v.api.SetOverride(service.WithReason(v.r.Context(), wanted.Reason), wanted, "")
	}
	if errors.Is(err, service.ErrInvalid) {
		return v.showOverride(overridePage{Zone: zone, Override: o, Fault: sentenceOfField(err)})
	}
	if err != nil {
		return err
	}
	return v.goTo(fmt.Sprintf("overrides/%d/%d?done=override", zone.ID, o.ID))
}

// dropOverride deletes an override.
func (v *visit) dropOverride() error {
	zone, o, err := v.pathOverride()
	if err != nil {
		return err
	}
	why, err := v.because()
	if err != nil {
		return v.showOverride(overridePage{Zone: zone, Override: o, Fault: sentenceOfField(err)})
	}
	if err := v.api.DeleteOverride(why, zone.ID, o.ID, ""); err != nil {
		return err
	}
	return v.goTo("overrides?done=dropoverride")
}
