package console

import (
	"fmt"
	"net/url"

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
	sent        *form
}

// keyActionsOf returns the actions about a key, whose page has the address sealed.
func (v *visit) keyActionsOf(sealed string, s keyStatus) keyActions {
	return keyActions{
		keyStatus: s, Path: Path + "keys/" + sealed, Sealed: v.keys.seal(s.Peek.Bucket),
		MayRelease: v.may(access.ScopeRelease), MayOverride: v.may(access.ScopeOverrides), sent: v.sent,
	}
}

// Form is the form of one of the changes.
func (d keyActions) Form(change string) form {
	action := fmt.Sprintf("%s/%s?zone=%d", d.Path, change, d.Zone.ID)
	return d.sent.at(action, valuesOf(service.Override{Rate: d.Peek.Rate}))
}

// formBucket returns the bucket of a form.
func (v *visit) formBucket() (service.Bucket, error) {
	bucket, ok := v.openKey(v.r.PostForm.Get("bucket"))
	if !ok || bucket.ZoneID == 0 {
		return bucket, invalid("The form is older than this start of the console. Search for the key again.")
	}
	return bucket, nil
}

// done leads back to the page of the key, which names the action.
func (v *visit) done(word string) error {
	return v.goTo("keys/" + url.PathEscape(v.r.PathValue("key")) + "?done=" + word)
}

// release empties a bucket and ends its lockout.
func (v *visit) release() error {
	bucket, err := v.formBucket()
	if err != nil {
		return err
	}
	ctx, err := v.withReason()
	if err != nil {
		return err
	}
	if err := v.api.Release(ctx, bucket, "", v.r.PostForm.Get("reason")); err != nil {
		return err
	}
	return v.done("released")
}

// setOverride makes an exception for one key. The page of an exception changes it.
func (v *visit) setOverride() error {
	bucket, err := v.formBucket()
	if err != nil {
		return err
	}
	zone, err := v.api.Zone(v.r.Context(), bucket.ZoneID)
	if err != nil {
		return err
	}
	o := service.Override{ZoneID: bucket.ZoneID, Key: bucket.Key}
	if err := v.writeOverride(zone, o, v.api.AddOverride); err != nil {
		return err
	}
	return v.done("override")
}
