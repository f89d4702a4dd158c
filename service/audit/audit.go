// Package audit owns the entries of zone_audit: changes, releases, exports and erasures, and the questions about them.
// It must not know how they are written or stored.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"velocityd/service"
)

// Edit is a change of a zone or an override, as zone_audit has it, with the state before and after it: nil where
// there was none. Or it is a release, and has Released alone: a bucket whose lockout ended, and whose places were given
// back.
type Edit struct {
	ID                            uint64
	At                            time.Time // by the engine's clock
	ZoneBefore, ZoneAfter         *service.Zone
	OverrideBefore, OverrideAfter *service.Override
	Released                      *service.Bucket
}

// Undo takes the edit back from zones and overrides, which are by their ids.
func (e Edit) Undo(zones map[int64]service.Zone, overrides map[uint64]service.Override) {
	undo(zones, e.ZoneBefore, e.ZoneAfter, func(z service.Zone) int64 { return z.ID })
	undo(overrides, e.OverrideBefore, e.OverrideAfter, func(o service.Override) uint64 { return o.ID })
}

func undo[K comparable, T any](of map[K]T, before, after *T, id func(T) K) {
	if after != nil {
		delete(of, id(*after))
	}
	if before != nil {
		of[id(*before)] = *before
	}
}

// ChangeGroup is some changes of the same kind: of one zone or of its overrides, by the same account, in the same
// minute.
type ChangeGroup struct {
	ID         uint64    // of the first of them
	At         time.Time // likewise
	By         string    // the account of the session
	Principal  string    // on whose behalf; may be empty
	Action     string    // insert, update or delete
	ZoneID     int64
	OfOverride bool
	Number     int
}

// Entry is a row of zone_audit: one change, release, export or erasure.
type Entry struct {
	ID        uint64          `json:"id,string"`
	At        service.Instant `json:"at"`               // by the engine's clock
	Account   string          `json:"account"`          // of the session
	Principal string          `json:"by,omitzero"`      // on whose behalf; may be empty
	Reason    string          `json:"reason,omitzero"`  // as the caller gave it; may be empty
	Subject   string          `json:"subject"`          // one of Subjects
	Action    string          `json:"action"`           // one of Actions
	ZoneID    int64           `json:"zone_id,omitzero"` // 0 for a token, a webhook, and an export of several zones
	// OverrideID is 0 unless the entry is about an override.
	OverrideID uint64 `json:"override_id,string,omitzero"`
	// Before and After are objects in JSON with a member for each column, or nil: there is no Before of an insert, and no
	// After of a delete. A release, an export and an erasure have their details in After.
	Before json.RawMessage `json:"before,omitzero"`
	After  json.RawMessage `json:"after,omitzero"`
}

// Edit returns the entry as a change of a zone or an override, or as a release. Of anything else it has id and time
// alone. The error does NOT quote a state.
func (e Entry) Edit() (edit Edit, err error) {
	edit.ID, edit.At = e.ID, e.At.Time
	switch {
	case e.Subject == "zone":
		edit.ZoneBefore, edit.ZoneAfter, err = statesOf(
			e, func(state []byte) (service.Zone, error) { return service.ZoneOfState(e.ZoneID, state) })
	case e.Subject == "override":
		edit.OverrideBefore, edit.OverrideAfter, err = statesOf(e, func(state []byte) (service.Override, error) {
			return service.OverrideOfState(e.ZoneID, e.OverrideID, state)
		})
	case e.Action == "release":
		edit.Released, err = e.released()
	}
	return edit, err
}

// statesOf reads the states before and after a change: nil where there is none.
func statesOf[T any](e Entry, read func(state []byte) (T, error)) (before, after *T, err error) {
	for _, of := range []struct {
		state []byte
		into  **T
	}{{e.Before, &before}, {e.After, &after}} {
		if len(of.state) == 0 {
			continue
		}
		was, err := read(of.state)
		if err != nil {
			return nil, nil, err
		}
		*of.into = &was
	}
	return before, after, nil
}

// released returns the bucket of a release, or nil if its key is not there any more.
func (e Entry) released() (*service.Bucket, error) {
	state, err := keyedOf(e.After)
	if err != nil {
		return nil, fmt.Errorf("release %d cannot be read", e.ID) // the text holds a key
	}
	if state.Key == "" {
		return nil, nil
	}
	return &service.Bucket{ZoneID: e.ZoneID, Key: state.Key}, nil
}

// Subjects returns everything that an entry can be about.
func Subjects() []string {
	return []string{"zone", "override", "bucket", "history", "token", "webhook"}
}

// Actions returns everything that an entry can say was done.
func Actions() []string {
	return []string{"insert", "update", "delete", "release", "export", "erase"}
}

const (
	// MaxPage is the most entries that one page holds.
	MaxPage = 1000
	// MaxScan is the most entries that one page looks at, whether or not they match.
	MaxScan = 1000
	// Slack is how far the times of entries may be from the order of their ids: as long as a transaction may take.
	Slack = time.Hour
)

// Query asks for entries, the newest first. The zero value of a filter lets all pass.
type Query struct {
	Zones []int64 // entries of no zone pass only without this filter
	// Keys are those of buckets that were released, and of overrides, as they are recorded. They need one zone.
	Keys     []string
	Subjects []string
	Actions  []string
	By       string // the principal, a part of it on one side of " via ", or the account
	// Since is the first instant of the entries, and Until the first one behind them.
	Since, Until time.Time
	Cursor       uint64 // only lower ids; 0 means all
	Limit        int    // 1 to MaxPage
}

// Validate returns an ErrInvalid that names the field, or nil.
func (q *Query) Validate() error {
	for _, subject := range q.Subjects {
		if !slices.Contains(Subjects(), subject) {
			return service.NewFieldError("subject", "must be one of %s", strings.Join(Subjects(), ", "))
		}
	}
	for _, action := range q.Actions {
		if !slices.Contains(Actions(), action) {
			return service.NewFieldError("action", "must be one of %s", strings.Join(Actions(), ", "))
		}
	}
	if len(q.Keys) > 0 && len(q.Zones) != 1 {
		return service.NewFieldError("key", "needs one zone")
	}
	if q.Limit < 1 || q.Limit > MaxPage {
		return service.NewFieldError("limit", "must be 1 to %d", MaxPage)
	}
	return nil
}

// Matches reports whether an entry passes all filters. It does NOT look at Cursor and Limit.
func (q *Query) Matches(e Entry) bool {
	passes := func(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
	return (len(q.Zones) == 0 || slices.Contains(q.Zones, e.ZoneID)) && passes(q.Subjects, e.Subject) &&
		passes(q.Actions, e.Action) && (q.Since.IsZero() || !e.At.Before(q.Since)) &&
		(q.Until.IsZero() || e.At.Before(q.Until)) && q.isBy(e) &&
		(len(q.Keys) == 0 || slices.Contains(q.Keys, e.Key())) // the last, because it reads the states
}

func (q *Query) isBy(e Entry) bool {
	user, through, _ := strings.Cut(e.Principal, " via ")
	return q.By == "" || q.By == e.Principal || q.By == e.Account || q.By == user || q.By == through
}

// Page is a part of the audit.
type Page struct {
	Entries []Entry `json:"entries"`
	// Next is the Cursor of the following page, the id of the last entry that was looked at. 0 says that there is no
	// following page. A page with a Next may have no entry.
	Next uint64 `json:"next,string,omitzero"`
	// ScannedUntil is the time of that entry.
	ScannedUntil service.Instant `json:"scanned_until,omitzero"`
}

// NewPage returns the page of a query, of the entries behind its cursor, the newest first. If there are as many as
// most, more may follow.
func NewPage(q Query, entries []Entry, most int) (page Page) {
	last := Entry{}
	for _, e := range entries {
		switch {
		case !q.Since.IsZero() && e.At.Before(q.Since.Add(-Slack)):
			return page
		case len(page.Entries) == q.Limit:
			page.Next, page.ScannedUntil = last.ID, last.At
			return page
		}
		if last = e; q.Matches(e) {
			page.Entries = append(page.Entries, e)
		}
	}
	if len(entries) == most {
		page.Next, page.ScannedUntil = last.ID, last.At
	}
	return page
}

// Collect asks for pages until they have as many entries as the query wants, all were looked at, or goesOn returns
// false. It returns them as one page.
func Collect(ctx context.Context, from Reader, q Query, goesOn func() bool) (all Page, err error) {
	for most := q.Limit; ; {
		page, err := from.AuditEntries(ctx, q)
		if err != nil {
			return Page{}, err
		}
		page.Entries = append(all.Entries, page.Entries...)
		all, q.Cursor, q.Limit = page, page.Next, most-len(page.Entries)
		if q.Cursor == 0 || q.Limit == 0 || !goesOn() {
			return all, nil
		}
	}
}

// Reader reads the audit.
type Reader interface {
	// AuditEntries returns a page of the audit. The error wraps ErrInvalid if the query is wrong.
	AuditEntries(ctx context.Context, q Query) (Page, error)
}
