package zonerow

import (
	"database/sql/driver"
	"errors"
	"strconv"
	"time"

	"velocityd/service"
)

// destination is a sql.Scanner for the value of a column.
type destination struct {
	*service.Setting
	zone *service.Zone
}

var errMisfit = errors.New("not a value of the column")

// Scan reads the value into the zone. The error does NOT quote it.
func (d destination) Scan(value any) error {
	if !read(d.Setting, d.zone, value) {
		return errMisfit
	}
	return nil
}

// read takes a setting from a value as the driver hands it out, into a zone that has the settings of the columns
// before, and says whether the value fits the column.
func read(s *service.Setting, zone *service.Zone, value driver.Value) (fits bool) {
	switch at := s.At(zone).(type) {
	case *int:
		var n int64
		n, fits = value.(int64)
		*at = int(n)
	case *service.Length:
		var n int64
		if n, fits = value.(int64); value == nil && !s.Required {
			n, fits = service.WholeSeconds(zone.Window), true
		}
		*at = service.Length(service.Seconds(n))
	case *bool:
		var n int64
		n, fits = value.(int64)
		*at = n != 0
	case *string:
		var raw []byte
		raw, fits = value.([]byte)
		*at = string(raw)
	case *float64:
		raw, isText := value.([]byte)
		n, err := strconv.ParseFloat(string(raw), 64)
		*at, fits = n, isText && err == nil
	}
	return fits
}

// write returns the value of a setting of a zone whose defaults are spelt out.
func write(s *service.Setting, zone *service.Zone) any {
	switch at := s.At(zone).(type) {
	case *int:
		return *at
	case *service.Length:
		// A ReserveTTL that equals the window is NULL, so that it follows the window when a DBA changes that.
		if s.Otherwise != "" && !s.Required && time.Duration(*at) == zone.Window {
			return nil
		}
		return service.WholeSeconds(time.Duration(*at))
	case *bool:
		return *at
	case *string:
		return *at
	case *float64: // a DECIMAL of two digits, which a float would be rounded to with a warning
		return strconv.FormatFloat(*at, 'f', 2, 64)
	}
	return nil
}
