package private

import (
	"context"
	"time"

	"velocityd/db/private/demo"
)

// FillDemo records a day of plausible log-ins that ends at end. The error wraps demo.ErrNotEmpty if there are zones or attempts.
func (d Database) FillDemo(ctx context.Context, end time.Time) (attempts int, err error) {
	conns, err := d.open(databaseName)
	if err != nil {
		return 0, err
	}
	defer conns.Close()
	return demo.Fill(ctx, conns, end)
}
