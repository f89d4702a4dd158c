package zonereport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"velocityd/service"
)

// log is a Source of attempts, which are checks of a user in zone 1 and an address in zone 2.
type log struct {
	txns []service.Txn
	end  time.Time
}

func (*log) Zone(_ context.Context, id int64) (service.Zone, error) {
	return service.Zone{ID: id, Rate: 5, Window: time.Minute}, nil
}

func (*log) ZoneTotals(context.Context, int64, service.TotalsQuery) (t service.ZoneTotals, err error) {
	return t, fmt.Errorf("no totals: %w", service.ErrNotFound)
}

func (*log) TotalsWithin(context.Context, int64, time.Time, time.Time) (t service.Totals, err error) {
	return t, nil
}

func (l *log) MostTxns(context.Context, time.Time, time.Time) (int, error) { return len(l.txns), nil }

func (l *log) ReadTxns(
	_ context.Context, _ []int64, since, _ time.Time, _ int, take func(service.Txn) bool,
) (from time.Time, passed int, err error) {
	for _, txn := range slices.Backward(l.txns) {
		take(txn)
	}
	return since, len(l.txns), nil
}

func (*log) Oldest(context.Context) (t service.Txn, err error) { return t, nil }

// Ways in which an attempt may end.
const (
	succeeds = "success"
	fails    = "failure"
	isOpen   = ""
	isLocked = "locked"
)

// attempt adds an attempt so long before the end, which stands for some others, the last one a length later.
func (l *log) attempt(ago time.Duration, user, address, end string, others int, length time.Duration) {
	at, id := service.At(l.end.Add(-ago)), uint64(len(l.txns)+1)
	for zone, key := range []string{1: user, 2: address} {
		if key != "" {
			txn := service.Txn{
				ID: uint64(len(l.txns) + 1), Bucket: service.Bucket{ZoneID: int64(zone), Key: key}, CreatedAt: at,
				LastAt: service.At(at.Add(length)), CheckID: id, Attempts: 1 + others, Blocked: end == isLocked,
			}
			if end == succeeds || end == fails {
				txn.Outcome = service.Outcome(end)
			}
			l.txns = append(l.txns, txn)
		}
	}
}

// steady adds tries at a pace with some jitter, from some time before the end on.
func (l *log) steady(ago time.Duration, n int, pace, jitter time.Duration, user, address string) {
	random := rand.New(rand.NewPCG(1, 2))
	for range n {
		l.attempt(ago, user, address, fails, 0, 0)
		ago -= pace + time.Duration(random.Int64N(int64(jitter)+1)) - jitter/2
	}
}

func (l *log) report(t *testing.T) Report {
	t.Helper()
	report, err := Make(t.Context(), service.Zone{ID: 1, Rate: 5, Window: time.Minute}, Query{
		Since: service.At(l.end.Add(-24 * time.Hour)), Until: service.At(l.end), UsersZone: 1, AddressesZone: 2,
	}, l)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestDevicesAreToldFromGuesses(t *testing.T) {
	t.Parallel()
	const phone, home = "greta", "198.51.100.23"
	for name, c := range map[string]struct {
		fill                   func(l *log)
		devices, guesses, into int
	}{
		"a try a minute": {func(l *log) { l.steady(12*time.Hour, 300, time.Minute, 5*time.Second, phone, home) }, 1, 0, 0},
		"a try in 15 minutes, bursts where it is woken": {func(l *log) {
			l.steady(20*time.Hour, 60, 15*time.Minute, 2*time.Minute, phone, home)
			for i := range 8 {
				l.steady(18*time.Hour-time.Duration(i)*137*time.Minute, 7, 3*time.Second, 0, phone, home)
			}
		}, 1, 0, 0},
		"lockouts of an hour after three tries": {func(l *log) {
			for i := range 12 {
				l.steady(20*time.Hour-time.Duration(i)*75*time.Minute, 3, 5*time.Minute, 0, phone, home)
			}
		}, 1, 0, 0},
		"a lockout whose attempts are one row": {func(l *log) {
			l.steady(20*time.Hour, 20, 4*time.Minute, time.Minute, phone, home)
			l.attempt(18*time.Hour, phone, home, isLocked, 200, 14*time.Hour)
		}, 1, 0, 0},
		"two devices behind one address, of people who log in": {func(l *log) {
			l.steady(9*time.Hour, 60, 5*time.Minute, time.Minute, phone, home)
			l.steady(9*time.Hour, 90, 4*time.Minute, time.Minute, "hana", home)
			for i := range 30 {
				l.attempt(9*time.Hour-time.Duration(i)*time.Minute, fmt.Sprint("colleague", i), home, succeeds, 0, 0)
			}
		}, 2, 0, 0},
		"the owner types the new password": {func(l *log) {
			l.steady(9*time.Hour, 60, 5*time.Minute, time.Minute, phone, home)
			l.attempt(time.Hour, phone, home, succeeds, 0, 0)
		}, 1, 0, 0},
		"as fast as it can": {func(l *log) { l.steady(9*time.Hour, 500, time.Second, 0, phone, home) }, 0, 1, 0},
		"one in ten seconds for hours": {
			func(l *log) { l.steady(9*time.Hour, 2000, 10*time.Second, time.Second, phone, home) }, 0, 1, 0,
		},
		"by hand, at any time": {func(l *log) {
			random, ago := rand.New(rand.NewPCG(3, 4)), 20*time.Hour
			for range 100 {
				l.attempt(ago, phone, home, fails, 0, 0)
				ago -= time.Duration(random.ExpFloat64() * float64(10*time.Minute))
			}
		}, 0, 1, 0},
		"a minute apart at five users": {func(l *log) {
			for i := range 5 {
				l.steady(9*time.Hour, 200, time.Minute, time.Second, fmt.Sprint("user", i), home)
			}
		}, 0, 5, 0},
		"a minute apart from five addresses": {func(l *log) {
			for i := range 5 {
				l.steady(9*time.Hour, 200, time.Minute, time.Second, phone, fmt.Sprint("192.0.2.", i))
			}
		}, 0, 5, 0},
		"a steady half an hour, and in": {func(l *log) {
			l.steady(9*time.Hour, 30, time.Minute, time.Second, phone, home)
			l.attempt(8*time.Hour, phone, home, succeeds, 0, 0)
		}, 0, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &log{end: time.Date(2026, 8, 24, 20, 0, 0, 0, time.UTC)}
			c.fill(l)
			r := l.report(t)
			if len(r.Devices) != c.devices || len(r.Guesses) != c.guesses || len(r.Entered) != c.into {
				t.Errorf("devices %+v, guesses %+v, entered %+v; want %d, %d, %d", r.Devices, r.Guesses, r.Entered, c.devices,
					c.guesses, c.into)
			}
		})
	}
}

func TestHonestUsersHaveEnteredNoAccount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fill func(l *log)
		want string // the causes
	}{
		"mistyped twice": {func(l *log) {
			l.steady(time.Hour, 2, 5*time.Second, 0, "ann", "198.51.100.1")
			l.attempt(50*time.Minute, "ann", "198.51.100.1", succeeds, 0, 0)
		}, ""},
		"forgot it, and was locked": {func(l *log) {
			l.steady(3*time.Hour, 6, 20*time.Second, 0, "ann", "198.51.100.1")
			l.attempt(170*time.Minute, "ann", "198.51.100.1", isLocked, 40, 20*time.Minute)
			l.steady(2*time.Hour, 3, 20*time.Second, 0, "ann", "198.51.100.1")
			l.attempt(time.Hour, "ann", "198.51.100.1", succeeds, 0, 0)
		}, ""},
		"at home while a botnet guesses": {func(l *log) {
			l.attempt(9*time.Hour, "ann", "198.51.100.1", succeeds, 0, 0)
			for i := range 90 {
				l.attempt(2*time.Hour-time.Duration(i)*10*time.Second, "ann", fmt.Sprint("192.0.2.", i), fails, 0, 0)
			}
			l.attempt(100*time.Minute, "ann", "198.51.100.1", succeeds, 0, 0)
		}, ""},
		"an office on Monday": {func(l *log) {
			for i := range 60 {
				ago := 9*time.Hour - time.Duration(i)*4*time.Second
				l.attempt(ago, fmt.Sprint("user", i), "198.51.100.9", fails, 0, 0)
				l.attempt(ago-2*time.Second, fmt.Sprint("user", i), "198.51.100.9", succeeds, 0, 0)
			}
		}, ""},
		"long after a spray": {func(l *log) {
			for i := range 40 {
				l.attempt(9*time.Hour-time.Duration(i)*time.Second, fmt.Sprint("user", i), "203.0.113.7", fails, 0, 0)
			}
			l.attempt(6*time.Hour, "ann", "203.0.113.7", succeeds, 0, 0)
		}, ""},
		"in a spray": {func(l *log) {
			for i := range 40 {
				l.attempt(9*time.Hour-time.Duration(i)*time.Second, fmt.Sprint("user", i), "203.0.113.7", fails, 0, 0)
			}
			l.attempt(8*time.Hour+30*time.Minute, "ann", "203.0.113.7", succeeds, 0, 0)
		}, "spray 40"},
		"by a botnet": {func(l *log) {
			for i := range 90 {
				l.attempt(2*time.Hour-time.Duration(i)*10*time.Second, "ann", fmt.Sprint("192.0.2.", i), isOpen, 0, 0)
			}
			l.attempt(100*time.Minute, "ann", "192.0.2.200", succeeds, 0, 0)
		}, "sources 90"},
		"by guesses, of which a lockout stopped most": {func(l *log) {
			for i := range 12 {
				l.attempt(9*time.Hour-time.Duration(i*i)*time.Minute, "ann", "203.0.113.7", fails, 0, 0)
				l.attempt(9*time.Hour-time.Duration(i*i)*time.Minute-time.Second, "ann", "203.0.113.7", isLocked, 0, 0)
			}
			l.attempt(time.Hour, "ann", "203.0.113.7", succeeds, 0, 0)
		}, "guesses 12"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &log{end: time.Date(2026, 8, 24, 20, 0, 0, 0, time.UTC)}
			c.fill(l)
			got := ""
			for _, e := range l.report(t).Entered {
				got += fmt.Sprintf("%s %d", e.Cause, e.After)
			}
			if got != c.want {
				t.Errorf("entered by %q, want %q", got, c.want)
			}
		})
	}
}
