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
	Column
	zone *service.Zone
}

var errMisfit = errors.New("not a value of the column")

// Scan reads the value into the zone. The error does NOT quote it.
func (d destination) Scan(value any) error {
	if !d.Read(d.zone, value) {
		return errMisfit
	}
	return nil
}

// text is a column of words. T is string or one of its kind.
func text[T ~string](name string, of func(*service.Zone) *T) Column {
	return Column{
		Name: name,
		Read: func(zone *service.Zone, value driver.Value) bool {
			raw, fits := value.([]byte)
			*of(zone) = T(raw)
			return fits
		},
		Write: func(zone *service.Zone) any { return string(*of(zone)) },
	}
}

// number is a column of whole numbers.
func number(name string, of func(*service.Zone) *int) Column {
	return Column{
		Name: name,
		Read: func(zone *service.Zone, value driver.Value) bool {
			n, fits := value.(int64)
			*of(zone) = int(n)
			return fits
		},
		Write: func(zone *service.Zone) any { return *of(zone) },
	}
}

// flag is a column of TRUE or FALSE.
func flag(name string, of func(*service.Zone) *bool) Column {
	return Column{
		Name: name,
		Read: func(zone *service.Zone, value driver.Value) bool {
			n, fits := value.(int64)
			*of(zone) = n != 0
			return fits
		},
		Write: func(zone *service.Zone) any { return *of(zone) },
	}
}

// seconds is a column of whole seconds.
func seconds(name string, of func(*service.Zone) *time.Duration) Column {
	return Column{
		Name: name,
		Read: func(zone *service.Zone, value driver.Value) bool {
			n, fits := value.(int64)
			*of(zone) = service.Seconds(n)
			return fits
		},
		Write: func(zone *service.Zone) any { return service.WholeSeconds(*of(zone)) },
	}
}

// A ReserveTTL that equals the window is NULL, so that it follows the window when a DBA changes the
// window.
func writeReserve(zone *service.Zone) any {
	if zone.ReserveTTL == zone.Window {
		return nil
	}
	return service.WholeSeconds(zone.ReserveTTL)
}

func readReserve(zone *service.Zone, value driver.Value) bool {
	if value == nil {
		zone.ReserveTTL = zone.Window
		return true
	}
	n, fits := value.(int64)
	zone.ReserveTTL = service.Seconds(n)
	return fits
}

// The factor is a DECIMAL of two digits, which a float would be rounded to with a warning.
func writeFactor(zone *service.Zone) any {
	return strconv.FormatFloat(zone.LockoutFactor, 'f', 2, 64)
}

func readFactor(zone *service.Zone, value driver.Value) bool {
	raw, fits := value.([]byte)
	factor, err := strconv.ParseFloat(string(raw), 64)
	zone.LockoutFactor = factor
	return fits && err == nil
}
