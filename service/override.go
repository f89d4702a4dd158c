package service

import (
	"fmt"
	"net/netip"
	"time"
	"unicode/utf8"
)

// OverrideAction is what an override does to its buckets.
type OverrideAction string

// The actions of an override.
const (
	OverrideAllow OverrideAction = "allow" // always room; the attempt does not count
	OverrideDeny  OverrideAction = "deny"  // never room
	OverrideLimit OverrideAction = "limit" // a rate and window of its own
)

// Limits of an override's texts, in characters.
const (
	MaxReasonLength = 255
	MaxNameLength   = 128
)

// The years in which an override may expire: what is left until then is a
// time.Duration for whoever asks, which ends at 292 years.
const (
	minExpiryYear = 1970
	maxExpiryYear = 2199
)

// Override is an exception from a zone's limit, for one bucket or for a network
// of addresses. Of several that fit, the exact key wins, then the longest
// prefix.
type Override struct {
	ID     uint64 // set by the store
	ZoneID int64
	// Key is the normalised key of one bucket. Exactly one of Key and Prefix is
	// set.
	Key string
	// Prefix is a masked network, in zones whose keys are addresses.
	Prefix netip.Prefix
	Action OverrideAction
	// Rate and Window belong to OverrideLimit alone.
	Rate   int
	Window time.Duration
	// ExpiresAt is the first instant, by the engine's clock, at which the override
	// is no more. The zero time is never.
	ExpiresAt time.Time
	Reason    string
	CreatedBy string
}

// Validate returns an ErrInvalid that names the field, or nil.
func (o Override) Validate() error {
	if err := validateZoneID(o.ZoneID); err != nil {
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
		return fieldError("prefix", "must be a network without host bits, such as 203.0.113.0/24")
	}
	if err := o.validateAction(); err != nil {
		return err
	}
	if y := o.ExpiresAt.UTC().Year(); !o.ExpiresAt.IsZero() && (y < minExpiryYear || y > maxExpiryYear) {
		return fieldError("expires_at", "must be in the years %d to %d; leave it out for never", minExpiryYear, maxExpiryYear)
	}
	if err := validateText("reason", o.Reason, MaxReasonLength); err != nil {
		return err
	}
	return validateText("created_by", o.CreatedBy, MaxNameLength)
}

func validateText(field, text string, most int) error {
	if !utf8.ValidString(text) || utf8.RuneCountInString(text) > most {
		return fieldError(field, "must be valid UTF-8 of at most %d characters", most)
	}
	return nil
}

func (o Override) validateAction() error {
	switch o.Action {
	case OverrideAllow, OverrideDeny:
		if o.Rate != 0 || o.Window != 0 {
			return fieldError("rate", "and window belong to action limit alone")
		}
		return nil
	case OverrideLimit:
		return validateLimit(o.Rate, o.Window)
	}
	return fieldError("action", "must be allow, deny or limit, is %q", o.Action)
}

// covers says that the override speaks for a bucket at now.
func (o Override) covers(now time.Time, bucket Bucket) bool {
	if o.ZoneID != bucket.ZoneID || (!o.ExpiresAt.IsZero() && !now.Before(o.ExpiresAt)) {
		return false
	}
	if o.Key != "" {
		return o.Key == bucket.Key
	}
	network, err := netip.ParsePrefix(bucket.Key)
	if err != nil {
		addr, err := netip.ParseAddr(bucket.Key)
		return err == nil && o.Prefix.Contains(addr)
	}
	return network.Bits() >= o.Prefix.Bits() && o.Prefix.Contains(network.Addr())
}
