package service

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// OverrideAction is the effect of an override on its buckets.
type OverrideAction string

// The actions of an override.
const (
	OverrideAllow OverrideAction = "allow" // always room; the attempt does not count
	OverrideDeny  OverrideAction = "deny"  // never room
	OverrideLimit OverrideAction = "limit" // its own rate, not the zone's; and its own window or day, if it has one
)

// Limits of an override's texts, in characters.
const (
	MaxReasonLength = 255
	MaxNameLength   = 128
)

// The years in which an override may expire. The time that is left until then must
// fit into a time.Duration, which holds 292 years. The schema's CHECK
// zone_override_expiry has the same bounds.
const (
	minExpiryYear = 1970
	maxExpiryYear = 2199
)

// Override is an exception from a zone's limit, for one bucket or for a network
// of addresses. Of several that fit, the exact key wins, then the longest
// prefix.
type Override struct {
	ID     uint64 `json:"id,string"` // set by the store
	ZoneID int64  `json:"zone_id"`
	// Key is the normalised key of one bucket. Exactly one of Key and Prefix is
	// set.
	Key string `json:"bucket_key,omitzero"`
	// Prefix is a masked network of several buckets, in zones whose keys are addresses: see
	// KeyRule.Target.
	Prefix netip.Prefix   `json:"prefix,omitzero"`
	Action OverrideAction `json:"action"`
	// Rate, Window and PeriodAnchor belong to OverrideLimit alone. With a Window the limit slides, whatever the
	// zone does. Without one it counts as the zone does, in its window or period.
	Rate   int      `json:"rate"`
	Window Duration `json:"window,omitzero"`
	// PeriodAnchor is the day on which the bucket's months begin, 1 to 31, such as that of a subscription. 0 is the
	// zone's. It has an effect in zones with PeriodMonth alone, and belongs to a limit without Window.
	PeriodAnchor int `json:"period_anchor,omitzero"`
	// ExpiresAt is the first instant, by the engine's clock, at which the override has no
	// effect any more. The zero time means that it never expires.
	ExpiresAt Instant `json:"expires_at,omitzero"`
	Reason    string  `json:"reason"`
	CreatedBy string  `json:"created_by"`
}

// Validate returns an ErrInvalid that names the field, or nil.
func (o Override) Validate() error {
	if err := ValidateZoneID(o.ZoneID); err != nil {
		return err
	}
	switch {
	case (o.Key == "") == !o.Prefix.IsValid():
		return fmt.Errorf("%w: give either bucket_key or prefix", ErrInvalid)
	case o.Key != "":
		if err := (Bucket{ZoneID: o.ZoneID, Key: o.Key}).Validate(); err != nil {
			return err
		}
	case o.Prefix != o.Prefix.Masked() || o.Prefix.Addr().Is4In6():
		return NewFieldError("prefix", "must be a network without host bits, such as 203.0.113.0/24")
	}
	if err := o.validateAction(); err != nil {
		return err
	}
	if !o.ExpiresAt.IsZero() {
		if err := ValidateExpiry(o.ExpiresAt.Time); err != nil {
			return err
		}
	}
	return cmp.Or(validateText("reason", o.Reason, MaxReasonLength),
		validateText("created_by", o.CreatedBy, MaxNameLength))
}

// ValidateExpiry returns an ErrInvalid for an instant at which no override can expire, or
// nil. It takes the zero time for the year 1, and not for never as Validate does.
func ValidateExpiry(at time.Time) error {
	if y := at.UTC().Year(); y < minExpiryYear || y > maxExpiryYear {
		return NewFieldError("expires_at", "must be in the years %d to %d; leave it out for never", minExpiryYear,
			maxExpiryYear)
	}
	return nil
}

// HasExpired says that an override or credential that expires at an instant, never for the zero time, has
// no effect at now.
func HasExpired(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// Extends reports whether o takes the place of before, an override of the same key or prefix that is in force: only if
// it ends later. So a ban never brings an earlier end to the ban of another source. A limit takes the place of one of
// the same reason. The error wraps ErrConflict if o would undo before.
func (o Override) Extends(before Override) (bool, error) {
	isLimit := o.Action == OverrideLimit
	switch {
	case o.Action != before.Action || isLimit && o.Reason != before.Reason:
		return false, fmt.Errorf("%w: override %d of zone %d does something else", ErrConflict, before.ID, before.ZoneID)
	case isLimit:
		return true, nil
	case before.ExpiresAt.IsZero():
		return false, nil
	}
	return o.ExpiresAt.IsZero() || o.ExpiresAt.After(before.ExpiresAt.Time), nil
}

// MayEnd returns an ErrConflict unless the override was made for the reason.
func (o Override) MayEnd(reason string) error {
	if o.Reason != reason {
		return fmt.Errorf("%w: override %d of zone %d was made for another reason", ErrConflict, o.ID, o.ZoneID)
	}
	return nil
}

// validateText refuses control characters, which would leave the line of a list or steer a terminal. Only
// the service refuses them: plain SQL may hold such texts already, and every program that prints them
// escapes them.
func validateText(field, text string, most int) error {
	if !utf8.ValidString(text) || utf8.RuneCountInString(text) > most || strings.ContainsFunc(text, unicode.IsControl) {
		return NewFieldError(field, "must be at most %d characters of valid UTF-8, and none of them a control character",
			most)
	}
	return nil
}

// Shortened returns the first characters of a text, at most so many, as valid UTF-8.
func Shortened(text string, most int) string {
	runes := []rune(strings.ToValidUTF8(text, "?"))
	return string(runes[:min(len(runes), most)])
}

// ValidateReason returns an ErrInvalid unless reason, why a bucket is released, says
// something in at most MaxReasonLength characters, without control characters.
func ValidateReason(reason string) error {
	if strings.TrimSpace(reason) == "" {
		return NewFieldError("reason", "must not be empty")
	}
	return validateText("reason", reason, MaxReasonLength)
}

// ValidateRelease returns an ErrInvalid unless reason is one by ValidateReason, and principal, which
// releases a bucket, has at most MaxNameLength characters; it may be empty.
func ValidateRelease(principal, reason string) error {
	return cmp.Or(validateText("principal", principal, MaxNameLength), ValidateReason(reason))
}

func (o Override) validateAction() error {
	switch o.Action {
	case OverrideAllow, OverrideDeny:
		if o.Rate != 0 || o.Window.Duration != 0 || o.PeriodAnchor != 0 {
			return NewFieldError("rate", "window and period_anchor belong to action limit alone")
		}
		return nil
	case OverrideLimit:
		return o.validateLimit()
	}
	return NewFieldError("action", "must be allow, deny or limit, is %q", o.Action)
}

func (o Override) validateLimit() error {
	err := Zone{Rate: o.Rate}.validateSetting("rate")
	switch {
	case err != nil:
		return err
	case o.Window.Duration != 0 && o.PeriodAnchor != 0:
		return NewFieldError("period_anchor", "must not be given beside window: a limit with a window slides")
	case o.Window.Duration != 0:
		return Zone{Window: o.Window.Duration}.validateSetting("window")
	case o.PeriodAnchor != 0:
		return Zone{Calendar: Calendar{Anchor: o.PeriodAnchor}}.validateSetting("period_anchor")
	}
	return nil
}

// OverrideIndex finds the override in force for a bucket.
type OverrideIndex struct {
	exact    map[Bucket]*Override
	prefixes []*Override
}

// IndexOverrides returns the index of those overrides that are in force at now.
func IndexOverrides(now time.Time, overrides []Override) OverrideIndex {
	if len(overrides) == 0 {
		return OverrideIndex{}
	}
	index := OverrideIndex{exact: make(map[Bucket]*Override, len(overrides))}
	for i := range overrides {
		switch o := &overrides[i]; {
		case HasExpired(o.ExpiresAt.Time, now):
		case o.Key != "":
			index.exact[Bucket{ZoneID: o.ZoneID, Key: o.Key}] = o
		default:
			index.prefixes = append(index.prefixes, o)
		}
	}
	return index
}

// Of returns the override of a bucket of zone, or nil: the one for the exact key or else, where keys are
// addresses, the one with the longest prefix.
func (x OverrideIndex) Of(zone Zone, bucket Bucket) *Override {
	if o, ok := x.exact[bucket]; ok || len(x.prefixes) == 0 || zone.Keys.Kind != KeyIP {
		return o
	}
	network, isAddress := NetworkOf(bucket.Key)
	if !isAddress {
		return nil
	}
	var found *Override
	for _, o := range x.prefixes {
		fits := o.ZoneID == bucket.ZoneID && o.Prefix.Bits() <= network.Bits() && o.Prefix.Contains(network.Addr())
		if fits && (found == nil || o.Prefix.Bits() > found.Prefix.Bits()) {
			found = o
		}
	}
	return found
}

// InForce returns the override in force for a bucket of zone at now, or nil. It is a copy of one of
// overrides.
func InForce(now time.Time, zone Zone, bucket Bucket, overrides []Override) *Override {
	o := IndexOverrides(now, overrides).Of(zone, bucket)
	if o == nil {
		return nil
	}
	found := *o
	return &found
}

// OverrideLister lists at most limit overrides of a zone with ids above after, by id.
type OverrideLister interface {
	Overrides(ctx context.Context, zoneID int64, after uint64, limit int) ([]Override, error)
}

// AllOverrides returns all overrides of a zone by id. It reads a thousand at once, which every lister gives.
func AllOverrides(ctx context.Context, store OverrideLister, zone int64) ([]Override, error) {
	const limit = 1000
	var all []Override
	for after := uint64(0); ; after = all[len(all)-1].ID {
		page, err := store.Overrides(ctx, zone, after, limit)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < limit {
			return all, nil
		}
	}
}
