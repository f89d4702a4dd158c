package handlers

import (
	"fmt"
	"time"

	"velocityd/service"
)

// fields reads optional members of a request body. It keeps the first error.
type fields struct{ err error }

// duration returns a member's seconds, or 0 if it is absent. It refuses what is
// not 1 second to service.MaxWindow, before the multiplication could overflow.
func (f *fields) duration(field string, given *int64) time.Duration {
	n := orZero(given)
	if given != nil && (n < 1 || n > service.WholeSeconds(service.MaxWindow)) {
		f.refuse(field, fmt.Sprintf("%s must be 1 to %d whole seconds, is %d.", field, service.WholeSeconds(service.MaxWindow), n))
		return 0
	}
	return service.Seconds(n)
}

func (f *fields) refuse(field, detail string) {
	if f.err == nil {
		f.err = invalidField(field, detail)
	}
}

func orZero[T any](given *T) T {
	if given == nil {
		var zero T
		return zero
	}
	return *given
}
