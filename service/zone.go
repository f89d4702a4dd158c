package service

import (
	"fmt"
	"math"
	"time"
	"unicode/utf8"
)

// Limits of a zone. The schema's CHECK constraints hold the same numbers, so
// that they bind whoever writes a zone.
const (
	MaxZoneID            = math.MaxInt32
	MaxRate              = 1_000_000
	MinWindow            = time.Second
	MaxWindow            = 366 * 24 * time.Hour
	MaxDescriptionLength = 255
)

// Zone is a use case with a limit: at most Rate allowed attempts in any
// interval of length Window, for each bucket by itself. Window is a whole
// number of seconds. A Rate of 0 admits nothing.
type Zone struct {
	ID          int64
	Description string
	Rate        int
	Window      time.Duration
}

// Validate returns an ErrInvalid that names the field and its bounds, or nil.
func (z Zone) Validate() error {
	if err := validateZoneID(z.ID); err != nil {
		return err
	}
	if z.Rate < 0 || z.Rate > MaxRate {
		return fmt.Errorf("%w: rate must be 0 to %d, is %d", ErrInvalid, MaxRate, z.Rate)
	}
	if z.Window < MinWindow || z.Window > MaxWindow || z.Window%time.Second != 0 {
		return fmt.Errorf("%w: window must be 1 to %d whole seconds, is %s",
			ErrInvalid, MaxWindow/time.Second, z.Window)
	}
	if !utf8.ValidString(z.Description) || utf8.RuneCountInString(z.Description) > MaxDescriptionLength {
		return fmt.Errorf("%w: description must be valid UTF-8 of at most %d characters",
			ErrInvalid, MaxDescriptionLength)
	}
	return nil
}

func validateZoneID(id int64) error {
	if id < 1 || id > MaxZoneID {
		return fmt.Errorf("%w: zone_id must be 1 to %d, is %d", ErrInvalid, MaxZoneID, id)
	}
	return nil
}
