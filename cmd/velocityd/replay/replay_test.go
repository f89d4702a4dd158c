package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/memory"
	"velocityd/service/servicetest"
)

// storeFunc is a store of a test's own.
type storeFunc func(context.Context, []service.Check) ([]service.Decision, error)

func (f storeFunc) CheckAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	return f(ctx, checks)
}

// memory is a reference store with a zone for users (1) and for addresses (2).
func zonesOf(t *testing.T, userRate, ipRate int) *memory.Store {
	t.Helper()
	m := memory.New()
	m.SetZone(t, service.Zone{ID: 1, Rate: userRate, Window: time.Hour})
	m.SetZone(t, service.Zone{ID: 2, Rate: ipRate, Window: time.Hour})
	return m
}

// asking returns a replayer of zones that no test has told it of.
func asking(store service.Checker, userZone, ipZone int64, batch int) *Replayer {
	return &Replayer{store: store, userZone: userZone, ipZone: ipZone, batch: batch, tally: newTally()}
}

// failed is the line of a failed attempt.
func failed(user, ip string) string {
	return stamp + "Failed password for invalid user " + user + " from " + ip + " port 22 ssh2\r\n"
}

func TestReplayAsksInOrderAndCounts(t *testing.T) {
	t.Parallel()
	log := failed("ann", "192.0.2.1") + // allowed
		"noise\n" +
		stamp + "message repeated 3 times: [ Failed password for ann from 192.0.2.1 port 22 ssh2]\n" + // 1 allowed, 2 blocked by the user
		failed("bob", "192.0.2.1") + // allowed: the blocked ones charged no address
		failed("eve", "192.0.2.1") + // blocked by the address
		failed("", "192.0.2.1") + // the user is no key: asked about the address alone, and blocked
		failed(strings.Repeat("x", 256), "192.0.2.1") + // this one, too
		failed("joe", "UNKNOWN") + // the address is no key: asked about the user alone, and allowed
		strings.Repeat("y", 2*maxLine) + "\n" +
		strings.TrimRight(failed("ann", "192.0.2.2"), "\r\n") // blocked by the user
	for _, batch := range []int{1, 2, 3, 100} {
		var asked []service.Check
		m := zonesOf(t, 2, 3)
		r := asking(storeFunc(func(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
			if len(checks) > batch {
				t.Errorf("asked %d checks at once, want at most %d", len(checks), batch)
			}
			asked = append(asked, checks...)
			return m.CheckAll(ctx, service.Call{Checks: checks})
		}), 1, 2, batch)
		if err := r.run(t.Context(), strings.NewReader(log)); err != nil {
			t.Fatal(err)
		}
		got := r.tally.summary(time.Second, true)
		want := Summary{
			Attempts: 10, Allowed: 4, Blocked: 6, WouldBlock: 6, Reasons: map[service.Reason]int{service.ReasonFull: 6}, PartlyAsked: 3,
			SkippedLines: 2, Complete: true, ElapsedSeconds: 1, ChecksPerSecond: 10,
			MostWouldBlock: []FullKey{{1, "ann", 3}, {2, "192.0.2.1", 3}},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("batch %d:\n got %+v\nwant %+v", batch, got, want)
		}
		var users []string
		for _, check := range asked {
			users = append(users, check.Buckets[0].Key)
		}
		if got := strings.Join(users, " "); got != "ann ann ann ann bob eve 192.0.2.1 192.0.2.1 joe ann" {
			t.Errorf("batch %d: asked about %s", batch, got)
		}
	}
}

func TestReplayTellsWhatZonesInShadowModeWouldHaveBlocked(t *testing.T) {
	t.Parallel()
	m := memory.New()
	m.SetZone(t, service.Zone{ID: 1, Rate: 2, Window: time.Hour, Mode: service.ModeShadow})
	m.SetZone(t, service.Zone{ID: 2, Rate: 4, Window: time.Hour})
	r := asking(servicetest.Asking(m), 1, 2, 3)
	log := strings.Repeat(failed("ann", "192.0.2.1"), 5) + failed("bob", "192.0.2.2") // the fifth is blocked by the address
	if err := r.run(t.Context(), strings.NewReader(log)); err != nil {
		t.Fatal(err)
	}
	got := r.tally.summary(0, true)
	want := Summary{
		Attempts: 6, Allowed: 5, Blocked: 1, WouldBlock: 3, Reasons: map[service.Reason]int{service.ReasonFull: 4}, Complete: true,
		MostWouldBlock: []FullKey{{1, "ann", 3}, {2, "192.0.2.1", 1}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestReplayAsksInTheNamedZonesAlone(t *testing.T) {
	t.Parallel()
	log := failed("ann", "192.0.2.1") + failed("", "192.0.2.1") + failed("ann", "2001:DB8::0:1")
	for _, c := range []struct {
		user, ip int64
		keys     string
		skipped  int
		partly   int
	}{
		{1, 0, "ann ann", 1, 0},
		{0, 2, "192.0.2.1 192.0.2.1 2001:db8::1", 0, 0}, // an empty user harms nobody here
		{1, 2, "ann 192.0.2.1 192.0.2.1 ann 2001:db8::1", 0, 1},
	} {
		m := zonesOf(t, 9, 9)
		var keys []string
		r := asking(storeFunc(func(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
			for _, check := range checks {
				for _, b := range check.Buckets {
					keys = append(keys, b.Key)
				}
			}
			return m.CheckAll(ctx, service.Call{Checks: checks})
		}), c.user, c.ip, 10)
		if err := r.run(t.Context(), strings.NewReader(log)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(keys, " "); got != c.keys || r.tally.skipped != c.skipped || r.tally.partly != c.partly {
			t.Errorf("zones %d and %d: asked %s, %+v", c.user, c.ip, got, r.tally)
		}
	}
}

func TestReplayAsksABusyStoreAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, calls, began := zonesOf(t, 9, 9), 0, time.Now()
		r := asking(storeFunc(func(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
			if calls++; calls%busyTries != 0 {
				return nil, fmt.Errorf("%w: away", service.ErrBusy)
			}
			return m.CheckAll(ctx, service.Call{Checks: checks})
		}), 1, 2, 1)
		err := r.run(t.Context(), strings.NewReader(failed("ann", "192.0.2.1")+failed("bob", "192.0.2.1")))
		if err != nil || calls != 2*busyTries || r.tally.allowed != 2 {
			t.Errorf("%v after %d calls, allowed %d", err, calls, r.tally.allowed)
		}
		if got, want := time.Since(began), 2*(busyTries-1)*service.BusyRetryAfter; got != want {
			t.Errorf("waited %s, want %s", got, want)
		}
	})
}

func TestReplayEndsAtAnErrorThatAskingAgainWouldNotMend(t *testing.T) {
	t.Parallel()
	for kind, tries := range map[error]int{
		service.ErrBusy: busyTries, service.ErrUndecided: 1, io.ErrUnexpectedEOF: 1,
	} {
		synctest.Test(t, func(t *testing.T) {
			m, calls := zonesOf(t, 9, 9), 0
			r := asking(storeFunc(func(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
				if calls++; calls > 1 {
					return nil, fmt.Errorf("%w: on purpose", kind)
				}
				return m.CheckAll(ctx, service.Call{Checks: checks})
			}), 1, 0, 2)
			err := r.run(t.Context(), strings.NewReader(strings.Repeat(failed("ann", "192.0.2.1"), 9)))
			if !errors.Is(err, kind) || calls != 1+tries || r.tally.allowed != 2 {
				t.Errorf("%v: got %v after %d calls, allowed %d", kind, err, calls, r.tally.allowed)
			}
		})
	}
}

func TestReplayEndsAtAnUnknownZone(t *testing.T) {
	t.Parallel()
	m := zonesOf(t, 9, 9)
	r := asking(servicetest.Asking(m), 1, 7, 2)
	err := r.run(t.Context(), strings.NewReader(strings.Repeat(failed("ann", "192.0.2.1"), 9)))
	if !errors.Is(err, service.ErrNotFound) || r.tally.allowed+r.tally.blocked != 0 {
		t.Errorf("got %v, %+v", err, r.tally)
	}
}

func TestReplayDoesNotBeginInAZoneThatDoesNotExist(t *testing.T) {
	t.Parallel()
	zones := []service.Zone{{ID: 1}, {ID: 2}}
	for _, c := range []struct {
		user, ip int64
		missing  string
	}{
		{1, 2, ""}, {1, 0, ""}, {0, 2, ""}, {55, 2, "zone 55"}, {1, 56, "zone 56"}, {57, 0, "zone 57"},
	} {
		_, err := New(Options{UserZone: c.user, IPZone: c.ip, Zones: zones, Batch: 1})
		if errors.Is(err, service.ErrNotFound) != (c.missing != "") || err != nil && !strings.Contains(err.Error(), c.missing) {
			t.Errorf("zones %d and %d: got %v, want it to name %q", c.user, c.ip, err, c.missing)
		}
	}
}

func TestReplayOfALogWithoutAnAttemptIsAnError(t *testing.T) {
	t.Parallel()
	m := memory.New()
	users, addresses := service.Zone{ID: 1, Rate: 9, Window: time.Hour},
		service.Zone{ID: 2, Rate: 9, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP}}
	m.SetZone(t, users)
	m.SetZone(t, addresses)
	for log, want := range map[string]string{
		"": "the log is empty",
		"Dec 10 06:55:48 gate cron[1]: job\nnoise\n": "its 2 lines hold no",
		"noise\n" + failed("ann", "192.0.2.1"):       "of its 2 lines 1 are attempts",
		"noise\n" + failed("ann", "192.0.2.1")[21:]: "1 lines look like login attempts, and their form is not known; the first is " +
			"\"sshd[24200]: Failed",
		"\xfd7zXZ\x00\x00\x04noise":                            "it is no text",
		failed("192.0.2.9", "192.0.2.1") + failed("ann", "::"): "",
	} {
		r, err := New(Options{Store: servicetest.Asking(m), UserZone: 2, Zones: []service.Zone{users, addresses}, Batch: 9}) // users as addresses
		if err != nil {
			t.Fatal(err)
		}
		s, err := r.Run(t.Context(), strings.NewReader(log))
		if errors.Is(err, ErrNoAttempt) != (want != "") || s.Complete == (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %+v, %v, want %q", log, s, err, want)
		}
	}
}

func TestReplayOfALogThatIsReadInPartIsAnError(t *testing.T) {
	t.Parallel()
	m := zonesOf(t, 9, 9)
	r, err := New(Options{Store: servicetest.Asking(m), UserZone: 1, Zones: []service.Zone{{ID: 1}}, Batch: 9})
	if err != nil {
		t.Fatal(err)
	}
	const unread = "Nov/26 gate sshd[1]: Failed password for bob from 192.0.2.2 port 22 ssh2"
	s, err := r.Run(t.Context(), strings.NewReader(failed("ann", "192.0.2.1")+unread+"\n"+unread+"\n"+failed("eve", "192.0.2.3")))
	if !errors.Is(err, ErrUnread) || errors.Is(err, ErrNoAttempt) || s.Attempts != 2 || s.UnreadAttempts != 2 || s.FirstUnread != unread ||
		s.Complete {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestReplayAsksAgainForWhatTheStoreWasTooBusyFor(t *testing.T) {
	t.Parallel()
	for _, refused := range []service.Decision{{Err: service.ErrBusy}, {Degraded: true}} {
		synctest.Test(t, func(t *testing.T) {
			m := zonesOf(t, 9, 9)
			calls := 0
			r := asking(storeFunc(func(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
				calls++
				decisions, err := m.CheckAll(ctx, service.Call{Checks: checks[:len(checks)-min(calls%2, 1)]}) // the last one, each other time
				if len(decisions) < len(checks) {
					decisions = append(decisions, refused)
				}
				return decisions, err
			}), 1, 2, 4)
			if err := r.run(t.Context(), strings.NewReader(strings.Repeat(failed("ann", "192.0.2.1"), 4))); err != nil {
				t.Fatal(err)
			}
			txns := m.Txns(service.Bucket{ZoneID: 1, Key: "ann"})
			if r.tally.allowed != 4 || calls != 2 || len(txns) != 4 {
				t.Errorf("%+v: asked %d times for %d txns: %+v", refused, calls, len(txns), r.tally)
			}
		})
	}
}

func TestReplayEndsWhenToldTo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	m := zonesOf(t, 9, 9)
	r := asking(storeFunc(func(_ context.Context, checks []service.Check) ([]service.Decision, error) {
		cancel()
		return m.CheckAll(context.Background(), service.Call{Checks: checks}) // the call at work is finished
	}), 1, 2, 2)
	reader, writer := io.Pipe() // never ends, like a pipe from a command that goes on
	defer writer.Close()
	go func() { _, _ = io.WriteString(writer, strings.Repeat(failed("ann", "192.0.2.1"), 4)) }()
	if err := r.run(ctx, reader); !errors.Is(err, ErrInterrupted) || r.tally.allowed != 2 {
		t.Errorf("got %v, %+v", err, r.tally)
	}
	_ = reader.Close()
}

func TestReplaySummaryNamesTheKeysThatWouldBlockMost(t *testing.T) {
	t.Parallel()
	tally := newTally()
	for i := range 15 {
		tally.keys[service.Bucket{ZoneID: 1, Key: fmt.Sprintf("k%02d", i)}] = i / 2
		tally.keys[service.Bucket{ZoneID: 2, Key: "x"}] = 99
	}
	s := tally.summary(0, false)
	var got []string
	for _, key := range s.MostWouldBlock {
		got = append(got, fmt.Sprintf("%d/%s=%d", key.ZoneID, key.Key, key.WouldBlock))
	}
	want := "1/k14=7 1/k12=6 1/k13=6 1/k10=5 1/k11=5 1/k08=4 1/k09=4 1/k06=3 1/k07=3 1/k04=2 2/x=99"
	if strings.Join(got, " ") != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
