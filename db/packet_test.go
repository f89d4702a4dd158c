package db

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"velocityd/db/dbtest"
	"velocityd/db/session"
	"velocityd/service"
)

func TestChecksBeyondTheSmallestPacketAreSplitOrRefused(t *testing.T) {
	t.Parallel()
	const smallest, callsOfAll, rate = 1024, 3, 2
	dbtest.One(t, func(t *testing.T, engine *dbtest.Engine) {
		d := migrated(t, engine.Private(t, t.TempDir()), zone(1, rate, time.Hour))
		dbtest.Exec(t, d.SQL, "SET GLOBAL max_allowed_packet = ?", smallest)
		store := connect(t, d, session.Options{MaxConns: session.LeastMaxConns}) // one session for all
		var checks []service.Check
		for i := range 60 {
			checks = append(checks, check(user(fmt.Sprint("key-", i)))...)
		}
		tooLong := len(checks)
		checks = append(checks, check(user(strings.Repeat("é", 255)), user("x"))[0])
		for call := range callsOfAll {
			decisions := decide(t, store, checks)
			for i, decision := range decisions[:tooLong] {
				if decision.Err != nil || decision.Blocked != (call >= rate) {
					t.Errorf("call %d, check %d: %+v", call, i, decision)
				}
			}
			if err := decisions[tooLong].Err; !errors.Is(err, session.ErrTooLong) || !errors.Is(err, service.ErrBusy) ||
				errors.Is(err, service.ErrUndecided) {
				t.Errorf("call %d, a check that fits no packet: %+v", call, decisions[tooLong])
			}
		}
		d.WantCount(t, callsOfAll*tooLong, "SELECT COUNT(*) FROM zone_txn")
		dbtest.Exec(t, d.SQL, "SET GLOBAL max_allowed_packet = ?", 1<<20)
		if _, err := ask(t.Context(), store, checks[tooLong:]); err != nil {
			t.Errorf("the limit is higher now: %v", err)
		}
		wantSettled(t, d, zone(1, rate, time.Hour))
	})
}
