package db

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"

	"velocityd/db/session"

	"github.com/jmoiron/sqlx"
)

// firstBackoff is the longest pause before the second try. The bound doubles with each try. Pauses
// are random, so that sessions which met in a deadlock do not meet again.
const firstBackoff = 10 * time.Millisecond

// byFault wraps err with the service error that it stands for.
func byFault(err error) error { return session.AsKind(session.FaultOf(err).Kind, err) }

// tries are the tries of one piece of work. As long as the engine's error says that nothing was recorded
// and that another try may help, there is another one after a pause.
type tries struct {
	store    *Store
	what     string
	classify func(error) error
	begun    int
	backoff  time.Duration
}

// tries returns the tries of work whose error begins with what, and is the last one as classify has it.
func (s *Store) tries(what string, classify func(error) error) tries {
	return tries{store: s, what: what, classify: classify, backoff: firstBackoff}
}

// next says whether there is a first or another try. err is the error of the try before; if no other one follows, next
// wraps it.
func (t *tries) next(ctx context.Context, err *error) bool {
	t.begun++
	if *err == nil {
		return t.begun == 1
	}
	s, f := t.store, session.FaultOf(*err)
	s.noteError(*err)
	if try := t.begun - 1; try >= f.Tries || !s.hasTime(ctx) || !pause(ctx, rand.N(t.backoff)) {
		*err = fmt.Errorf("%s, try %d: %w", t.what, try, t.classify(*err))
		return false
	}
	s.note(session.Retry)
	t.backoff *= 2
	*err = nil
	return true
}

// again calls once until it succeeds, or there is no other try.
func (s *Store) again(ctx context.Context, what string, classify func(error) error, once func() error) (err error) {
	for t := s.tries(what, classify); t.next(ctx, &err); {
		err = once()
	}
	return err
}

// call carries out one CALL that is not a check, and hands its result set to read. It tries
// again if the engine says that it gave up cleanly. After an error that may have left a
// transaction open the connection is closed and not pooled.
func (s *Store) call(ctx context.Context, what string, read func(*sql.Rows) error, query string, args ...any) error {
	return s.again(ctx, what, byFault, func() error {
		return s.lookUps.With(ctx, func(conn *sqlx.Conn) (clean bool, err error) {
			rows, err := conn.QueryContext(ctx, query, args...)
			if err != nil {
				return session.FaultOf(err).Clean, err
			}
			defer rows.Close()
			if err := cmp.Or(read(rows), rows.Err()); err != nil {
				return session.FaultOf(err).Clean, err
			}
			// Read the CALL's closing packet here: the driver's Close would wait for it
			// without a deadline. If it does not come, the answer holds all the same.
			for rows.Next() || rows.NextResultSet() { //nolint:revive // nothing is left to look at
			}
			return rows.Err() == nil, nil
		})
	})
}

// hasTime says that one more lock wait would end before ctx does. Without that time it is
// better to give up now, when the check is known not to be recorded, than to be cut off by
// ctx, when it is not known. Engines look at lock waits once a second, so a wait may take a
// second longer.
func (s *Store) hasTime(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return !limited || time.Until(deadline) > s.lockWait+time.Second
}

// pause waits for d. It returns false if ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
