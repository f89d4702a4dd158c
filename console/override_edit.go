package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"velocityd/service"
	"velocityd/service/lint"
)

// overrideOf returns the override that a form asks for, of a key or network that was given before. The error is a
// service.ErrInvalid that names the field.
func overrideOf(form url.Values, o service.Override, now time.Time) (service.Override, error) {
	o.Action, o.Rate, o.Window.Duration = service.OverrideAction(form.Get("action")), 0, 0
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
		o.Rate, o.Window.Duration = rate, service.Seconds(seconds)
	} else {
		o.PeriodAnchor = 0
	}
	var err error
	o.ExpiresAt.Time, err = expiryOf(form, o.ExpiresAt.Time, now)
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

// overrideForm is the values of a form for an override, as they were typed.
type overrideForm struct {
	url.Values
	IsChange bool // of an override that is there
}

// formOf returns the form with which the change of an override, or a new one, begins.
func formOf(o service.Override) overrideForm {
	f := overrideForm{
		Values:   url.Values{"action": {string(o.Action)}, "reason": {o.Reason}, "lasts": {"86400"}},
		IsChange: o.ID != 0,
	}
	if f.IsChange {
		f.Set("lasts", "same")
	}
	if o.Rate != 0 || o.Action == service.OverrideLimit {
		f.Set("rate", strconv.Itoa(o.Rate))
	}
	if o.Window.Duration != 0 {
		f.Set("window", strconv.FormatInt(service.WholeSeconds(o.Window.Duration), 10))
	}
	return f
}

// Value returns the text that was typed into a field.
func (f overrideForm) Value(name string) string { return f.Get(name) }

// Hidden returns the values that name the key of the override.
func (f overrideForm) Hidden() map[string]string {
	hidden := map[string]string{}
	for _, name := range []string{"zone", "bucket", "override"} {
		if f.Has(name) {
			hidden[name] = f.Get(name)
		}
	}
	return hidden
}

// overrideAgain is the content of the page that shows a form for an override again: it is wrong, or probably not meant.
type overrideAgain struct {
	Override service.Override
	Form     overrideForm
	Fault    string
	Findings []lint.Finding
}

// writeOverride stores the override that a form asks for, of a key or network of a zone. It is not done if the form is
// wrong, or probably not meant and not sent for the second time: the reader then gets it back.
func (v *visit) writeOverride(
	zone service.Zone, o service.Override, write func(context.Context, service.Override, string) (service.Override, error),
) (isDone bool, err error) {
	again := overrideAgain{Override: o, Form: overrideForm{v.r.PostForm, o.ID != 0}}
	wanted, err := overrideOf(v.r.PostForm, o, v.Now())
	if err == nil {
		again.Findings = lint.OfOverride(v.Now(), zone, wanted)
		if len(again.Findings) > 0 && v.r.PostForm.Get("do") != "anyway" {
			return false, v.show("override_again", "Overrides", "Probably not meant", again)
		}
		_, err = write(service.WithReason(v.r.Context(), wanted.Reason), wanted, "")
	}
	if errors.Is(err, service.ErrInvalid) {
		return false, v.showAgain(again, err)
	}
	return err == nil, err
}

// showAgain shows a form for an override that is wrong.
func (v *visit) showAgain(again overrideAgain, wrong error) error {
	again.Fault, again.Findings = sentenceOfField(wrong), nil
	return v.showAs(http.StatusBadRequest, "override_again", "Overrides", "The override was not saved", again)
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
		return v.showAgain(overrideAgain{Override: o, Form: overrideForm{form, false}}, err)
	}
	if isDone, err := v.writeOverride(zone, o, v.api.AddOverride); !isDone {
		return err
	}
	return v.goTo(fmt.Sprintf("overrides?zone=%d&done=override", id))
}

// changeOverride changes an override. Its key or network stays.
func (v *visit) changeOverride(p overridePage) error {
	if isDone, err := v.writeOverride(p.Zone, p.Override, v.api.SetOverride); !isDone {
		return err
	}
	return v.goTo(fmt.Sprintf("overrides/%d/%d?done=override", p.Zone.ID, p.Override.ID))
}

func (v *visit) dropOverride(p overridePage) error {
	why, err := v.withReason()
	if err != nil {
		p.Fault = sentenceOfField(err)
		return v.override(p)
	}
	if err := v.api.DeleteOverride(why, p.Zone.ID, p.Override.ID, ""); err != nil {
		return err
	}
	return v.goTo("overrides?done=dropoverride")
}
