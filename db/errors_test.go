package db

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"

	"velocityd/service"
)

func TestWhatWasNeverSentIsNeverUndecided(t *testing.T) {
	t.Parallel()
	for _, f := range faults() {
		for _, n := range f.numbers {
			if kind := faultOf(fmt.Errorf("%w: no connection: %w", errUnsent, &mysql.MySQLError{Number: n})).kind; errors.Is(kind, service.ErrUndecided) {
				t.Errorf("%d while connecting: %v", n, kind)
			}
		}
	}
}
