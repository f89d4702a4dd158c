package console

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"velocityd/api"
	"velocityd/service"
	"velocityd/service/access"
)

// keyActions are the changes that a reader may make about one key in one zone.
type keyActions struct {
	keyStatus
	Path        string // of the page of the key
	Sealed      string // the bucket
	MayRelease  bool
	MayOverride bool
}

// keyActionsOf returns the actions about a key, whose page has the address sealed.
func (v *visit) keyActionsOf(sealed string, s keyStatus) keyActions {
	return keyActions{
		keyStatus: s, Path: Path + "keys/" + sealed, Sealed: v.keys.seal(s.Peek.Bucket),
		MayRelease: v.may(access.ScopeRelease), MayOverride: v.may(access.ScopeOverrides),
	}
}

// Form is that of the key's override, or of a new one.
func (d keyActions) Form() overrideForm {
	if own := d.Own(); own != nil {
		return formOf(*own)
	}
	return formOf(service.Override{Rate: d.Peek.Rate})
}

// wrong returns the error of a form whose field is wrong, as a sentence.
func wrong(sentence string) error {
	return &api.Problem{Title: "This form cannot be taken as it is", Status: http.StatusBadRequest, Detail: sentence}
}

// keyForm returns the bucket and the reason of a form. ctx records the reason.
func (v *visit) keyForm() (ctx context.Context, bucket service.Bucket, reason string, err error) {
	bucket, ok := v.openKey(v.r.PostForm.Get("bucket"))
	if !ok {
		return nil, bucket, "", wrong("The form is older than this start of the console. Search for the key again.")
	}
	reason = v.r.PostForm.Get("reason")
	if service.ValidateReason(reason) != nil {
		return nil, bucket, "",
			wrong("Say why, in 1 to 255 characters on one line: the reason stands in the audit under your name.")
	}
	return service.WithReason(v.r.Context(), reason), bucket, reason, nil
}

// done leads back to the page of the key, which names the action.
func (v *visit) done(word string) error {
	return v.goTo("keys/" + url.PathEscape(v.r.PathValue("key")) + "?done=" + word)
}

// release empties a bucket and ends its lockout.
func (v *visit) release() error {
	ctx, bucket, reason, err := v.keyForm()
	if err != nil {
		return err
	}
	if err := v.api.Release(ctx, bucket, "", reason); err != nil {
		return err
	}
	return v.done("released")
}

// setOverride makes an exception for one key, or changes the one that the form names.
func (v *visit) setOverride() error {
	_, bucket, _, err := v.keyForm()
	if err != nil {
		return err
	}
	o, write := service.Override{ZoneID: bucket.ZoneID, Key: bucket.Key}, v.api.AddOverride
	if v.r.PostForm.Has("override") {
		if o, err = v.formOverride(bucket); err != nil {
			return err
		}
		write = v.api.SetOverride
	}
	zone, err := v.api.Zone(v.r.Context(), bucket.ZoneID)
	if err != nil {
		return err
	}
	if isDone, err := v.writeOverride(zone, o, write); !isDone {
		return err
	}
	return v.done("override")
}

// formOverride returns the override of a bucket that a form names, as it is now.
func (v *visit) formOverride(bucket service.Bucket) (o service.Override, err error) {
	id, err := strconv.ParseUint(v.r.PostForm.Get("override"), 10, 64)
	if err != nil {
		return o, wrong("The form names no override. Load the page of the key again.")
	}
	return v.api.Override(v.r.Context(), bucket.ZoneID, id)
}

func (v *visit) endOverride() error {
	ctx, bucket, _, err := v.keyForm()
	if err != nil {
		return err
	}
	o, err := v.formOverride(bucket)
	if err != nil {
		return err
	}
	if err := v.api.DeleteOverride(ctx, bucket.ZoneID, o.ID, ""); err != nil {
		return err
	}
	return v.done("dropoverride")
}
