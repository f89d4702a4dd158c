package session

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"velocityd/internal/engine"
)

const (
	// lookTimeout bounds one look at a server's sessions.
	lookTimeout = 2 * time.Second
	// blindTime is how long a session that cannot be looked for counts as there.
	blindTime = 10 * time.Second
	// firstLook and lastLook are the first and the longest time between two looks that nothing hurries.
	firstLook, lastLook = 5 * time.Millisecond, time.Second
	// killTries is how many connections are made to reach one server of several.
	killTries = 8
)

// Killer ends the sessions of callers that have gone by KILL, because a closed socket alone would
// leave their statements running (go-sql-driver/mysql#731), and says when they are gone.
//
// A session in its COMMIT is left to end by itself. If the volume of the binary log is full, the
// COMMIT waits for space; MySQL treats its KILL as an error of the binary log, and then aborts the
// server (binlog_error_action). A session may also go on for long after its KILL was answered.
type Killer struct {
	pool *sql.DB // of which it uses one connection; apart, because the sessions that are ended may have all others

	mu       sync.Mutex
	sessions []*endedSession
	isAtWork bool
	isClosed bool
	soon     chan struct{} // asks for the next look to be soon; has room for one
}

// endedSession is a session that has to end.
type endedSession struct {
	*Conn
	gone     func()
	seen     time.Time
	isKilled bool
}

// NewKiller returns a Killer that works by one connection of a pool at a time. The pool's owner closes it after the
// Killer.
func NewKiller(pool *sql.DB) *Killer { return &Killer{pool: pool, soon: make(chan struct{}, 1)} }

// end ends the session of a connection, and calls gone when its server no longer lists it. It does
// not wait for that.
func (k *Killer) end(conn *Conn, gone func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sessions = append(k.sessions, &endedSession{Conn: conn, gone: gone, seen: time.Now()})
	if !k.isAtWork {
		k.isAtWork = true
		go k.work()
		return
	}
	k.lookSoon()
}

// Release gives a connection back to its pool. A connection that is not clean is closed. If
// the engine may still be working on its statement, the session is ended first, and the
// connection keeps its place in the pool until it is gone. Then left is called, if it is not nil.
func (k *Killer) Release(ctx context.Context, conn *sql.Conn, clean bool, left func()) {
	if left == nil {
		left = func() {}
	}
	if clean {
		_ = conn.Close()
		left()
		return
	}
	abandon := func() {
		Discard(conn)
		left()
	}
	if own, err := Of(conn); ctx.Err() != nil && err == nil && own.id != 0 {
		k.end(own, abandon)
		return
	}
	abandon() // the engine has answered, or is away
}

// lookSoon makes the pauses short again.
func (k *Killer) lookSoon() {
	select {
	case k.soon <- struct{}{}:
	default:
	}
}

// Close lets all sessions go, also those that are not gone.
func (k *Killer) Close() {
	k.mu.Lock()
	k.isClosed = true
	k.mu.Unlock()
	k.lookSoon()
}

// work looks at the servers until no session is left to end.
func (k *Killer) work() {
	for pause := firstLook; ; pause = min(2*pause, lastLook) {
		k.mu.Lock()
		gone, isClosed := slices.Clone(k.sessions), k.isClosed
		k.mu.Unlock()
		if !isClosed {
			gone = k.look(gone)
		}
		k.mu.Lock()
		k.sessions = slices.DeleteFunc(k.sessions, func(s *endedSession) bool { return slices.Contains(gone, s) })
		k.isAtWork = len(k.sessions) > 0
		isOver := !k.isAtWork
		k.mu.Unlock()
		for _, s := range gone {
			s.gone()
		}
		if isOver {
			return
		}
		select {
		case <-k.soon:
			pause = firstLook
		case <-time.After(pause):
		}
	}
}

// look kills the sessions that are not in their COMMIT, and returns those that are gone.
func (k *Killer) look(sessions []*endedSession) (gone []*endedSession) {
	for len(sessions) > 0 {
		first := sessions[0].Conn
		var here, elsewhere []*endedSession
		for _, s := range sessions {
			if s.sharesServer(first) {
				here = append(here, s)
			} else {
				elsewhere = append(elsewhere, s)
			}
		}
		sessions = elsewhere
		gone = append(gone, k.lookAt(first, here)...)
	}
	return gone
}

// sharesServer says that two sessions are of one server.
func (s *Conn) sharesServer(other *Conn) bool {
	return s.address == other.address && s.serverID == other.serverID
}

// lookAt is look for sessions of one server, which are beside first.
func (k *Killer) lookAt(first *Conn, sessions []*endedSession) (gone []*endedSession) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	err := k.at(ctx, first, func(ctx context.Context, conn *Conn) (err error) {
		gone, err = k.lookBy(ctx, conn, sessions)
		return err
	})
	if err == nil {
		return gone
	}
	return slices.DeleteFunc(slices.Clone(sessions), func(s *endedSession) bool {
		return !slices.Contains(gone, s) && time.Since(s.seen) < blindTime
	})
}

// lookBy is look by one connection to the server of the sessions. After an error it returns those
// of which it is known that they are gone.
func (k *Killer) lookBy(ctx context.Context, conn *Conn, sessions []*endedSession) (gone []*endedSession, err error) {
	if conn.Engine == engine.Vitess { // vtgate lists no sessions of its own
		for _, s := range sessions {
			if err := s.kill(ctx, conn); err != nil {
				return gone, err
			}
			gone = append(gone, s)
		}
		return gone, nil
	}
	started, err := startBy(ctx, conn)
	if err != nil {
		return nil, err
	}
	statements, err := statementsBy(ctx, conn)
	if err != nil {
		return nil, err
	}
	for _, s := range sessions {
		statement, isThere := statements[s.id]
		switch {
		case !isThere, s.since.Before(started): // or its id is that of another session now
			gone = append(gone, s)
		case !s.isKilled && !strings.HasPrefix(statement, "COMMIT"):
			if err := s.kill(ctx, conn); err != nil {
				return gone, err
			}
			k.lookSoon()
		}
		s.seen = time.Now()
	}
	return gone, nil
}

// kill ends a session, unless it has ended by itself.
func (s *endedSession) kill(ctx context.Context, conn *Conn) error {
	_, err := conn.ExecContext(ctx, fmt.Sprint("KILL ", s.id), nil)
	if err != nil && !IsNumber(err, NumberNoSuchThread) {
		return err
	}
	s.isKilled = true
	return nil
}

// at calls do with a connection to the server of another one. If the DSN names several addresses, or a
// name leads to several servers, a connection may lead to another server, where the id belongs to
// another session: then the next one is tried.
func (k *Killer) at(ctx context.Context, other *Conn, do func(context.Context, *Conn) error) error {
	for range killTries {
		conn, err := k.pool.Conn(ctx)
		if err != nil {
			return err
		}
		if own, err := Of(conn); err == nil && own.sharesServer(other) {
			defer conn.Close()
			return own.Within(ctx, do)
		}
		Discard(conn)
	}
	return fmt.Errorf("no connection to the server at %s in %d tries", other.address, killTries)
}

// statementsBy returns the statements of the account's sessions, by their ids. It does not read
// information_schema.processlist, which on MySQL fails with 3854 while any session runs a statement
// with a character beyond utf8mb3.
func statementsBy(ctx context.Context, conn *Conn) (map[int64]string, error) {
	rows, err := conn.QueryContext(ctx, "SHOW PROCESSLIST", nil)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	id, info := slices.Index(rows.Columns(), "Id"), slices.Index(rows.Columns(), "Info")
	if id < 0 || info < 0 {
		return nil, fmt.Errorf("SHOW PROCESSLIST has no columns Id and Info, but %v", rows.Columns())
	}
	statements := map[int64]string{}
	return statements, ReadAll(rows, func(row []driver.Value) error {
		statements[AsInt(row[id])] = Text(row[info])
		return nil
	})
}

// startBy returns when the server was started for the last time, or up to two seconds earlier:
// Uptime is in whole seconds.
func startBy(ctx context.Context, conn *Conn) (started time.Time, err error) {
	asked := time.Now()
	err = conn.Each(ctx, 2, "SHOW GLOBAL STATUS LIKE 'Uptime'", func(row []driver.Value) error {
		uptime, err := strconv.Atoi(Text(row[1]))
		started = asked.Add(-time.Duration(uptime+1) * time.Second)
		return err
	})
	return started, err
}
