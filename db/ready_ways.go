package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"velocityd/db/session"
)

// errRowsLocked says that a rehearsal was given up, because somebody else has locked rows beside its own.
var errRowsLocked = errors.New("rows beside those of the rehearsal are locked")

// rehearsalEnd returns when a rehearsal is to end: after half of the time that ctx has left. The rest is for
// whatever else is proved before.
func rehearsalEnd(ctx context.Context) time.Time {
	now := time.Now()
	deadline, limited := ctx.Deadline()
	if !limited {
		return now.Add(time.Minute)
	}
	return now.Add(deadline.Sub(now) / 2)
}

// rehearseWay writes the rows of a way, and takes them back, see the procedure. depth is by how many
// calls the way is deeper than the rehearsal. A session that has locked rows beside those, such as a
// reader who locks the end of a table, holds up the rehearsal, and may hold up no check at all. So a
// rehearsal that waits for a lock, or does not end by until, proves nothing, and ends in errRowsLocked.
func rehearseWay(ctx context.Context, conn *session.Conn, until time.Time, way string, depth int) error {
	short, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	err := conn.Within(short, func(ctx context.Context) error {
		return proveCall(ctx, conn, "rehearse", fmt.Sprintf("CALL rehearse('%s', %d)", way, depth))
	})
	if session.IsNumber(err, session.NumberLockWait) || err != nil && short.Err() != nil {
		return fmt.Errorf("%w: %w", errRowsLocked, err)
	}
	var o obstacle
	if errors.As(err, &o) {
		o.way = map[string]string{"check": "checks", "report": "reports of outcomes", "release": "releases", "edit": "edits of zones"}[way]
		return o
	}
	return err
}

// ProveReleases goes the way of a release, and ProveEdits that of an edit of a zone and an override.
// Neither is part of Prove, since checks are decided without. Where there are no procedures, both do
// nothing. Errors are those of Prove.
func (p *Probe) ProveReleases(ctx context.Context) error { return p.proveProcedures(ctx, proveRelease) }

// ProveEdits goes the way of an edit, as ProveReleases goes that of a release.
func (p *Probe) ProveEdits(ctx context.Context) error { return p.proveProcedures(ctx, proveEdit) }

func (p *Probe) proveProcedures(ctx context.Context, prove func(context.Context, *session.Conn, time.Time) error) error {
	until := rehearsalEnd(ctx)
	err := p.onConn(ctx, func(ctx context.Context, conn *session.Conn) error {
		if !dialectOf(conn.Engine).hasRoutines {
			return nil
		}
		return prove(ctx, conn, until)
	})
	if errors.Is(err, errRowsLocked) {
		return nil
	}
	return Unready(ctx, err)
}

// proveRelease calls what releases a bucket.
func proveRelease(ctx context.Context, conn *session.Conn, until time.Time) error {
	err := proveCall(ctx, conn, "release_bucket", "CALL release_bucket(0, '0.0.0.0', NULL, 'doctor')")
	if err != nil && !session.IsNumber(err, session.NumberUnknown) {
		return err
	}
	return rehearseWay(ctx, conn, until, "release", 0)
}

// proveEdit lets the owner edit a zone and an override, whose triggers run with the owner's rights.
func proveEdit(ctx context.Context, conn *session.Conn, until time.Time) error {
	return rehearseWay(ctx, conn, until, "edit", 0)
}
