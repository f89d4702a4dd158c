package console

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"velocityd/api"
	"velocityd/service"
	"velocityd/service/lockout"
)

// mostPages bounds the pages of lockouts that one action looks at.
const mostPages = 10

// releaseSelected releases the buckets of the lockouts that the reader has marked on a page. A lockout that has ended
// meanwhile, or has begun anew, is left alone: the reader has not seen that one.
func (v *visit) releaseSelected() error {
	form := v.r.PostForm
	zone, ids, err := selection(form.Get("zone"), form["txn"])
	if err != nil {
		return err
	}
	if _, err := v.withReason(); err != nil {
		return err
	}
	if len(ids) == 0 {
		return invalid("No key is marked. Mark the keys to release.")
	}
	keys, err := v.keysOfLockouts(zone, ids)
	if err != nil {
		return err
	}
	released, refused, err := v.releaseKeys(zone, keys, form.Get("reason"))
	if err != nil {
		return err
	}
	if refused != nil {
		return &api.Problem{
			Status: http.StatusConflict,
			Detail: fmt.Sprintf("%d of %d buckets were released. %s", released, len(keys), sentenceOf(refused)),
		}
	}
	return v.goTo("locked?done=released&zone=" + strconv.FormatInt(zone, 10))
}

// selection reads a zone and the txns with which lockouts began, the newest first.
func selection(zone string, txns []string) (zoneID int64, ids []uint64, err error) {
	malformed := invalid("The form is not one of this page. Load the page again.")
	if zoneID, err = strconv.ParseInt(zone, 10, 64); err != nil || len(txns) > service.MaxReleases {
		return 0, nil, malformed
	}
	for _, text := range txns {
		id, err := strconv.ParseUint(text, 10, 64)
		if err != nil || id == 0 {
			return 0, nil, malformed
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	slices.Reverse(ids)
	return zoneID, slices.Compact(ids), nil
}

// keysOfLockouts returns the keys of those of the lockouts that hold still. They were on one page, so there are few
// between the first and the last.
func (v *visit) keysOfLockouts(zone int64, ids []uint64) (keys []string, err error) {
	query := lockout.Query{ZoneID: zone, Cursor: ids[0] + 1, Limit: lockout.MaxLimit}
	for range mostPages {
		page, err := v.api.Locked(v.r.Context(), query)
		if err != nil {
			return nil, err
		}
		for _, lockout := range page.Lockouts {
			if slices.Contains(ids, lockout.TxnID) {
				keys = append(keys, lockout.Key)
			}
		}
		if page.Next == 0 || page.Next <= ids[len(ids)-1] {
			break
		}
		query.Cursor = page.Next
	}
	return keys, nil
}

// releaseKeys releases buckets of a zone, and returns how many were, and an error of the last that was not.
func (v *visit) releaseKeys(zone int64, keys []string, reason string) (released int, refused, err error) {
	if len(keys) == 0 {
		return 0, nil, nil
	}
	errs, err := v.api.ReleaseMany(v.r.Context(), zone, keys, "", strings.TrimSpace(reason))
	for _, err := range errs {
		if err != nil {
			refused = err
			continue
		}
		released++
	}
	return released, refused, err
}

// releasing is the content of the page of a release of all lockouts of a zone: how far it is.
type releasing struct {
	Zone            service.Zone
	Confirm, Reason string
	// Total is how many lockouts there were when it began, and IsMore says that there were more than were counted.
	Total  int
	IsMore bool
	// Released and Refused are how many buckets were released, and were not. Fault is the sentence of the last that was
	// not.
	Released, Refused int
	Fault             string
	// Next is from where on it goes on: lockouts that began at this txn or later are left alone. It comes from the page on
	// which the reader saw the list.
	Next   uint64
	IsDone bool
}

// Left returns how many lockouts are left.
func (r releasing) Left() int { return max(0, r.Total-r.Released-r.Refused) }

// releaseAll releases the next lockouts of a zone, as many as one request may, and shows how far it is. The reader must
// have typed the zone's id or description. The page sends its form again, by itself or by a button.
func (v *visit) releaseAll() error {
	r, err := v.releasing()
	if err != nil {
		return err
	}
	page, err := v.api.Locked(v.r.Context(), lockout.Query{ZoneID: r.Zone.ID, Cursor: r.Next, Limit: service.MaxReleases})
	if err != nil {
		return err
	}
	keys := make([]string, len(page.Lockouts))
	for i, lockout := range page.Lockouts {
		keys[i] = lockout.Key
	}
	released, refused, err := v.releaseKeys(r.Zone.ID, keys, r.Reason)
	if err != nil {
		return err
	}
	r.Released, r.Refused = r.Released+released, r.Refused+len(keys)-released
	r.Next, r.IsDone = page.Next, page.Next == 0
	if refused != nil {
		r.Fault = sentenceOf(refused)
	}
	return v.show("releasing", "Locked", "Release all", r)
}

// releasing reads the form of a release of all lockouts of a zone. The first one has no numbers, and they are counted.
func (v *visit) releasing() (r releasing, err error) {
	zones, err := v.api.Zones(v.r.Context())
	if err != nil {
		return r, err
	}
	form := v.r.PostForm
	zone, err := zoneOf(zones, form.Get("zone"))
	if err != nil {
		return r, err
	}
	r = releasing{
		Zone: *zone, Confirm: strings.TrimSpace(form.Get("confirm")), Reason: form.Get("reason"),
		IsMore: form.Get("more") != "",
	}
	_, err = v.withReason()
	if r.Confirm != strconv.FormatInt(zone.ID, 10) && (zone.Description == "" || r.Confirm != zone.Description) {
		err = faults{service.NewFieldError("confirm", "is neither the id nor the description of the zone"), err}
	}
	if err != nil {
		return r, err
	}
	r.Next, _ = strconv.ParseUint(form.Get("next"), 10, 64) // without it all are released
	if form.Get("total") == "" {
		r.Total, r.IsMore, err = v.countLocked(zone.ID, r.Next, mostPages)
		return r, err
	}
	for name, number := range map[string]*int{"total": &r.Total, "released": &r.Released, "refused": &r.Refused} {
		*number, _ = strconv.Atoi(form.Get(name)) // they are for the reader alone
	}
	return r, nil
}
