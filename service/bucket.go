package service

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxKeyLength is the longest bucket key, in Unicode characters.
const MaxKeyLength = 255

// MaxReleases is how many buckets one request may release.
const MaxReleases = 100

// Bucket is one key inside a zone: a user, an address. Keys are compared byte
// by byte: case, accents and trailing spaces all tell buckets apart.
type Bucket struct {
	ZoneID int64  `json:"zone_id,omitzero"`    // left out only where a Bucket may be none, as in an event
	Key    string `json:"bucket_key,omitzero"` // likewise
}

// Compare orders buckets by zone and then key, byte by byte: the order in which
// stores lock them.
func (b Bucket) Compare(other Bucket) int {
	return cmp.Or(cmp.Compare(b.ZoneID, other.ZoneID), cmp.Compare(b.Key, other.Key))
}

// Validate returns an ErrInvalid that names the field, or nil. It never repeats
// the key, which may be a person's name, and does NOT ask whether the zone
// exists.
func (b Bucket) Validate() error {
	if err := ValidateZoneID(b.ZoneID); err != nil {
		return err
	}
	switch {
	case b.Key == "":
		return NewFieldError("bucket_key", "must not be empty")
	case !utf8.ValidString(b.Key):
		return NewFieldError("bucket_key", "must be valid UTF-8")
	case utf8.RuneCountInString(b.Key) > MaxKeyLength:
		return NewFieldError("bucket_key", "must be at most %d characters", MaxKeyLength)
	case strings.ContainsFunc(b.Key, unicode.IsControl):
		return NewFieldError("bucket_key", "must not contain control characters")
	}
	return nil
}
