package db

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
)

const (
	// lookTimeout bounds one look at a server's sessions.
	lookTimeout = 2 * time.Second
	// blindTime is how long a session that nobody can look for counts as there.
	blindTime = 10 * time.Second
	// firstLook and lastLook are the least and the longest time between two looks.
	firstLook, lastLook = 5 * time.Millisecond, time.Second
	// killTries is how many connections are made to reach one server of several.
	killTries = 8
)

// killer ends the sessions of callers who have gone by KILL, because a closed socket alone would
// leave their statements running (go-sql-driver/mysql#731), and says when they are gone.
//
// A session in its COMMIT is left to end by itself. If the volume of the binary log is full, the
// COMMIT waits for space; MySQL takes its KILL for an error of the binary log, and then aborts the
// server (binlog_error_action). A session may also go on for long after its KILL was answered.
type killer struct {
	pool *sql.DB // one connection; apart, because those who are ended may have all others

	mu       sync.Mutex
	sessions []*endedSession
	isAtWork bool
	isClosed bool
	soon     chan struct{} // asks for the next look to be soon; has room for one
}

// endedSession is a session that has to end.
type endedSession struct {
	*connection
	gone     func()
	seen     time.Time
	isKilled bool
}

func newKiller(pool *sql.DB) *killer { return &killer{pool: pool, soon: make(chan struct{}, 1)} }

// end ends the session of a connection, and calls gone when its server no longer lists it. It does
// not wait for that.
func (k *killer) end(conn *connection, gone func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sessions = append(k.sessions, &endedSession{connection: conn, gone: gone, seen: time.Now()})
	if !k.isAtWork {
		k.isAtWork = true
		go k.work()
		return
	}
	k.lookSoon()
}

// lookSoon makes the pauses short again.
func (k *killer) lookSoon() {
	select {
	case k.soon <- struct{}{}:
	default:
	}
}

// Close lets all sessions go, also those that are not gone.
func (k *killer) Close() error {
	k.mu.Lock()
	k.isClosed = true
	k.mu.Unlock()
	k.lookSoon()
	return k.pool.Close()
}

// work looks at the servers until no session is left to end.
func (k *killer) work() {
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
func (k *killer) look(sessions []*endedSession) (gone []*endedSession) {
	for len(sessions) > 0 {
		address := sessions[0].address
		var here, elsewhere []*endedSession
		for _, s := range sessions {
			if s.address == address {
				here = append(here, s)
			} else {
				elsewhere = append(elsewhere, s)
			}
		}
		sessions = elsewhere
		gone = append(gone, k.lookAt(address, here)...)
	}
	return gone
}

// lookAt is look for sessions of one server.
func (k *killer) lookAt(address string, sessions []*endedSession) (gone []*endedSession) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	err := k.at(ctx, address, func(ctx context.Context, conn *connection) (err error) {
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
func (k *killer) lookBy(ctx context.Context, conn *connection, sessions []*endedSession) (gone []*endedSession, err error) {
	if conn.dialect.isSharded { // vtgate lists no sessions of its own
		for _, s := range sessions {
			if err := s.kill(ctx, conn); err != nil {
				return gone, err
			}
			gone = append(gone, s)
		}
		return gone, nil
	}
	uptime, err := uptimeBy(ctx, conn)
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
		case !isThere, s.isOlderThan(uptime):
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

// isOlderThan says that the session was there before its server was started for the last time.
// Then its id may be that of another session now. uptime is in whole seconds, and may be one too few.
func (s *endedSession) isOlderThan(uptime time.Duration) bool {
	return time.Since(s.since) > uptime+time.Second
}

// kill ends a session, unless it has ended by itself.
func (s *endedSession) kill(ctx context.Context, conn *connection) error {
	_, err := conn.ExecContext(ctx, fmt.Sprint("KILL ", s.id), nil)
	if err != nil && !isNumber(err, errNoSuchThread) {
		return err
	}
	s.isKilled = true
	return nil
}

// at calls do with a connection to the server at an address. If the DSN names several, a connection
// may lead to another one, where an id is somebody else's: then the next one is tried.
func (k *killer) at(ctx context.Context, address string, do func(context.Context, *connection) error) error {
	for range killTries {
		conn, err := k.pool.Conn(ctx)
		if err != nil {
			return err
		}
		if own := ownOf(conn); own != nil && own.address == address {
			defer conn.Close()
			return onConnection(ctx, conn, do)
		}
		discard(conn)
	}
	return fmt.Errorf("no connection to %s in %d tries", address, killTries)
}

// statementsBy returns what the sessions of the account are doing, by their ids. It does not read
// information_schema.processlist, which on MySQL fails with 3854 while any session runs a statement
// with a character beyond utf8mb3.
func statementsBy(ctx context.Context, conn *connection) (map[int64]string, error) {
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
	return statements, readRows(rows, func(row []driver.Value) error {
		statements[asInt(row[id])] = text(row[info])
		return nil
	})
}

// uptimeBy returns for how long the server has been running, in whole seconds.
func uptimeBy(ctx context.Context, conn *connection) (uptime time.Duration, err error) {
	rows, err := conn.QueryContext(ctx, "SHOW GLOBAL STATUS LIKE 'Uptime'", nil)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	err = readRows(rows, func(row []driver.Value) error {
		seconds, err := strconv.Atoi(text(row[1]))
		uptime = time.Duration(seconds) * time.Second
		return err
	})
	return uptime, err
}
