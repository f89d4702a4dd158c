package event

import (
	"context"
	"slices"
	"strings"

	"velocityd/service"
)

const (
	// MaxPage is the most events that one page holds.
	MaxPage = 1000
	// MaxScan is the most events that one page looks at, whether or not they match.
	MaxScan = 1000
)

// Query asks for events. The zero value of a filter lets all events pass.
type Query struct {
	// Types are those of the events. One that ends in .* stands for all types of that subject, such as zone.*.
	Types []Type
	// Zones are the zones of the events. Those of tokens have none, and pass only without this filter.
	Zones []int64
	// Keys are the forms of one bucket's key, as they are recorded. Keys need exactly one zone.
	Keys  []string
	Order service.HistoryOrder
	// Cursor is the id of an event, from which on the page looks, without that event itself: at lower ids if the newest
	// come first, and otherwise at higher ones. 0 begins at the end to which Order points.
	Cursor uint64
	// Limit is how many events the page may hold, 1 to MaxPage.
	Limit int
}

// Validate returns an ErrInvalid that names the field, or nil.
func (q *Query) Validate() error {
	switch {
	case len(q.Keys) > 0 && len(q.Zones) != 1:
		return service.NewFieldError("key", "needs the one zone that it belongs to")
	case q.Order != service.NewestFirst && q.Order != service.OldestFirst:
		return service.NewFieldError("order", "must be desc or asc")
	case q.Limit < 1 || q.Limit > MaxPage:
		return service.NewFieldError("limit", "must be 1 to %d", MaxPage)
	}
	return ValidateTypes(q.Types)
}

// ValidateTypes returns an ErrInvalid for a type, or a subject with .*, that no event has.
func ValidateTypes(types []Type) error {
	for _, wanted := range types {
		if !slices.ContainsFunc(Types(), wanted.covers) {
			return service.NewFieldError("type", "must be one of %v, or such as zone.*", Types())
		}
	}
	return nil
}

// covers reports whether an event of a type is one that t asks for.
func (t Type) covers(of Type) bool {
	subject, isAll := strings.CutSuffix(string(t), "*")
	return t == of || isAll && strings.HasSuffix(subject, ".") && strings.HasPrefix(string(of), subject)
}

// Matches reports whether an event passes all filters. It does NOT look at Cursor and Limit.
func (q *Query) Matches(e Event) bool {
	return (len(q.Types) == 0 || slices.ContainsFunc(q.Types, func(t Type) bool { return t.covers(e.Type) })) &&
		(len(q.Zones) == 0 || slices.Contains(q.Zones, e.Bucket.ZoneID)) &&
		(len(q.Keys) == 0 || slices.Contains(q.Keys, e.Bucket.Key))
}

// Page is a part of the events.
type Page struct {
	Events []Event `json:"events"`
	// Next is the Cursor of the following page, the id of the last event that was looked at. 0 says that there is no
	// following page.
	Next uint64 `json:"next,string,omitzero"`
	// Last is the id of the last event that was looked at, or the query's Cursor if there was none. A reader that follows
	// the events, the oldest first, goes on from it later.
	Last uint64 `json:"last,string,omitzero"`
}

// Store reads events page by page.
type Store interface {
	// Events returns one page. It looks at MaxScan events at most. Ascending pages end service.HistoryLag behind the
	// engine's clock, because events are committed a little after their instant, and not in the order of their ids. The
	// error wraps ErrInvalid for a query that is not valid, and ErrBusy if the engine is away.
	Events(ctx context.Context, query Query) (Page, error)
}
