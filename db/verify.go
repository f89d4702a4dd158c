package db

import (
	"context"
	"time"

	"velocityd/db/session"
	"velocityd/db/verify"
	"velocityd/service"
	limits "velocityd/service/proof"
)

// VerifyLimits reads all that is recorded, and calls found with each place where it breaks the limits. It waits for no
// lock, and checks go on beside it. An error says that it did not come to its end; it wraps service.ErrForbidden for an
// account that may not read a table, and service.ErrBusy if the engine is away.
func (s *Store) VerifyLimits(
	ctx context.Context, o verify.Options, found func(limits.Finding),
) (result verify.Result, err error) {
	o.Lag = service.HistoryLag
	o.FirstID = func(ctx context.Context, since time.Time) (low uint64, err error) {
		low, _, err = idsOn(s.database, s.History)(ctx, since, time.Time{})
		return low, err
	}
	// A statement whose caller leaves is a short one, so its session is not ended.
	if result, err = verify.Run(ctx, s.lookUps.Conns, o, found); err != nil {
		err = session.LookupError(err)
	}
	return result, err
}
