package session

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
			if kind := FaultOf(fmt.Errorf("%w: no connection: %w", ErrUnsent, &mysql.MySQLError{Number: n})).Kind; errors.Is(kind,
				service.ErrUndecided) {
				t.Errorf("%d while connecting: %v", n, kind)
			}
		}
	}
}
