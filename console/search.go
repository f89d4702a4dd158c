package console

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"velocityd/client"
	"velocityd/service"
	"velocityd/service/access"
)

// search is the content of the page of all that a text may mean.
type search struct {
	Asked  bool
	Text   string
	Sealed string // the text, for links
	// Txn is the attempt whose id it is, or nil, and Attempt are the txns of the attempt whose id it is.
	Txn     *service.Txn
	Attempt []service.Txn
	// IsFar says that the newest attempts are looked through for an id that is not remembered any more, which takes a
	// while. ScannedUntil is how far back that went, or the zero time if it went through all.
	IsFar        bool
	ScannedUntil time.Time
	// Zones are those of this number or with it in their names.
	Zones []service.Zone
	// Keys are the zones in which it may be a key, and Left how many zones could not be looked at in time.
	Keys []keyStatus
	Left int
}

// mostSearched is the longest text that is looked for, in bytes: no id or key is longer.
const mostSearched = 4 * service.MaxKeyLength

// postSearch leads to the answer by an address that shows no key.
func (v *visit) postSearch() error {
	text := strings.TrimSpace(v.r.PostForm.Get("text"))
	if text == "" {
		return v.goTo("search")
	}
	if len(text) > mostSearched {
		return service.NewFieldError("text", "is too long: a key has at most 255 characters, and an id has fewer")
	}
	return v.goTo("search?key=" + v.sealedKey(service.Bucket{Key: text}))
}

// search leads to the decision or the key that a text means, or shows all that it may mean.
func (v *visit) search() error {
	sealed := v.r.URL.Query().Get("key")
	found := search{Sealed: sealed, IsFar: v.r.URL.Query().Has("far")}
	if sealed == "" {
		return v.show("search", "", "Search", found)
	}
	asked, ok := v.openKey(sealed)
	if !ok {
		return v.failSealed()
	}
	found.Asked, found.Text = true, asked.Key
	if err := v.find(&found); err != nil {
		return err
	}
	if path, isOne := found.only(); isOne {
		return v.goTo(path)
	}
	return v.show("search", "", "Search", found)
}

// failSealed says that a link with a key is not one of this console.
func (v *visit) failSealed() error {
	return v.fail(http.StatusNotFound, "This link does not name a key any more.",
		"The keys in links are sealed, and this one was sealed by another console or before the last start. Search for the "+
			"key again.")
}

// find looks for all that a text may mean.
func (v *visit) find(found *search) (err error) {
	mayHistory := v.may(access.ScopeHistory)
	if mayHistory {
		if found.Txn, err = v.findTxn(found.Text); err != nil {
			return err
		}
		if found.Attempt, err = v.findAttempt(found.Text); err != nil {
			return err
		}
	}
	zones, err := v.api.Zones(v.r.Context())
	if statusOf(err) == http.StatusForbidden {
		return nil
	}
	if err != nil {
		return err
	}
	found.Zones = client.ZonesNamed(zones, found.Text)
	if v.may(access.ScopePeek) {
		if found.Keys, found.Left, err = v.keyStatuses(zones, service.Bucket{Key: found.Text}); err != nil {
			return err
		}
	}
	if found.IsFar && mayHistory && found.Txn == nil && found.Attempt == nil && !found.IsKey() {
		found.Attempt, found.ScannedUntil, err = v.findForgotten(found.Text)
	}
	return err
}

// findTxn returns the txn whose id a text spells, or nil.
func (v *visit) findTxn(text string) (*service.Txn, error) {
	id, ok := v.spelling.txnID(text)
	if !ok {
		return nil, nil //nolint:nilnil // most texts are no id
	}
	txn, err := v.api.Txn(v.r.Context(), id)
	if errors.Is(err, service.ErrNotFound) {
		return nil, nil //nolint:nilnil // there is none
	}
	return &txn, err
}

// findAttempt returns the txns of the attempt whose id a text spells, if it is remembered.
func (v *visit) findAttempt(text string) ([]service.Txn, error) {
	for _, id := range v.spelling.attemptIDs(text) {
		recall, err := v.api.Attempt(v.r.Context(), id)
		switch {
		case err == nil && len(recall.Txns) > 0:
			return recall.Txns, nil
		case errors.Is(err, service.ErrNotFound), errors.Is(err, service.ErrConflict): // several shards may remember one id
		case err != nil:
			return nil, err
		}
	}
	return nil, nil
}

// findForgotten looks through the newest attempts for an id that is not remembered any more, in its likeliest spelling.
func (v *visit) findForgotten(text string) (txns []service.Txn, scannedUntil time.Time, err error) {
	ids := v.spelling.attemptIDs(text)
	if len(ids) == 0 {
		return nil, time.Time{}, nil
	}
	page, err := v.api.History(
		v.r.Context(), service.HistoryQuery{AttemptID: ids[0], Order: service.NewestFirst, Limit: service.MaxBuckets})
	if err == nil && page.Next != 0 && len(page.Txns) == 0 {
		scannedUntil = page.ScannedUntil.Time
	}
	return page.Txns, scannedUntil, err
}

// Checks returns the lines of the attempt.
func (s search) Checks() []checkLine {
	page := (&service.HistoryQuery{}).CheckPage(service.HistoryPage{Txns: s.Attempt}, nil)
	return linesOf(page.Checks)
}

// only returns the path of the one thing that was found. isOne is false for none and for several.
func (s search) only() (path string, isOne bool) {
	var paths []string
	if s.Txn != nil {
		paths = append(paths, relative(txnPath(s.Txn.ID)))
	}
	if len(s.Attempt) > 0 {
		paths = append(paths, relative(txnPath(s.Attempt[0].ID)))
	}
	if s.IsKey() {
		paths = append(paths, "keys/"+s.Sealed)
	}
	for _, zone := range s.Zones {
		paths = append(paths, relative(zonePath(zone.ID)))
	}
	if len(paths) != 1 {
		return "", false
	}
	return paths[0], true
}

func relative(path string) string { return strings.TrimPrefix(path, Path) }

// IsKey reports whether some zone has seen the text as a key.
func (s search) IsKey() bool { return slices.ContainsFunc(s.Keys, keyStatus.IsSeen) }

// IsFound reports whether the text means something.
func (s search) IsFound() bool {
	return s.Txn != nil || len(s.Attempt)+len(s.Zones) > 0 || s.IsKey()
}

// IsNetwork reports whether the text is a network of addresses.
func (s search) IsNetwork() bool {
	_, ok := service.NetworkOf(s.Text)
	return ok && strings.Contains(s.Text, "/")
}

// Seen returns the zones that know the text as a key or, if there is none, those that take it.
func (s search) Seen() (seen []keyStatus) {
	for _, k := range s.Keys {
		if k.IsSeen() || k.Refused == "" && !s.IsKey() {
			seen = append(seen, k)
		}
	}
	return seen
}

// Folded returns the zones that keep the key in another spelling than it was typed, or do not take it.
func (s search) Folded() []folding { return foldings(s.Keys) }
