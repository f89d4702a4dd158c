package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/backtest"
	"velocityd/service/memory"
)

// storeFunc is a store of a test's own.
type storeFunc func(context.Context, []service.Check) ([]service.Decision, error)

func (f storeFunc) CheckAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	return f(ctx, checks)
}

// failed is the line of a failed attempt.
func failed(user, ip string) string {
	return stamp + "Failed password for invalid user " + user + " from " + ip + " port 22 ssh2\r\n"
}

// accepted is the line of a login.
func accepted(user, ip string) string {
	return stamp + "Accepted password for " + user + " from " + ip + " port 22 ssh2\n"
}

// loginZones are a zone of users (1) and one of addresses (2) in which every outcome matters, and several spellings are
// one bucket.
func loginZones(t *testing.T) *memory.Store {
	t.Helper()
	m := memory.New()
	m.SetZone(t, service.Zone{
		ID: 1, Rate: 3, Window: time.Hour, Counts: service.CountsFailures, ResetOnSuccess: true,
		Keys: service.KeyRule{Kind: service.KeyUsername},
	})
	m.SetZone(t, service.Zone{
		ID: 2, Rate: 5, Window: time.Hour, Counts: service.CountsFailures, Keys: service.KeyRule{Kind: service.KeyIP},
	})
	return m
}

// asking returns the options of a replay in both zones of a store.
func asking(t *testing.T, m *memory.Store, batch int) Options {
	t.Helper()
	zones, err := m.Zones(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	proposals, err := backtest.Grid{}.Proposals(zones[0])
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Setup:    backtest.Setup{ZoneID: zones[0].ID, Proposals: proposals, Past: backtest.Past{Zones: zones}},
		UserZone: 1, IPZone: 2, Latest: time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC), Batch: batch,
		Store: service.NewLimiter(m, service.LimiterOptions{Zones: m, Timeout: time.Minute}),
	}
}

// randomLog is a log of few users in several spellings, from few networks.
func randomLog(random *rand.Rand, lines int) string {
	var log strings.Builder
	for range lines {
		user := []string{"ann", "ANN", "Ann ", "bob", "eve", "zoë", "ZOË", "root"}[random.IntN(8)]
		ip := []string{"192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"}[random.IntN(5)]
		switch random.IntN(4) {
		case 0:
			log.WriteString(accepted(user, ip))
		case 1:
			fmt.Fprintf(&log, "%smessage repeated %d times: [ Failed password for %s from %s port 22 ssh2]\n", stamp,
				random.IntN(3)+1, user, ip)
		default:
			log.WriteString(failed(user, ip))
		}
	}
	return log.String()
}

// TestReplayInBatchesIsReplayOneByOne holds the replay against a loop that asks
// and reports each attempt by itself.
func TestReplayInBatchesIsReplayOneByOne(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		log := randomLog(rand.New(rand.NewPCG(seed, 3)), 120)
		var want []bool // which attempts were blocked
		plain, lines := loginZones(t), &reader{}
		single := asking(t, plain, 1).Store
		for line := range strings.Lines(log) {
			a := lines.read(line)
			for range a.times {
				decisions, err := single.CheckAll(t.Context(),
					[]service.Check{{Buckets: []service.Bucket{{ZoneID: 1, Key: a.user}, {ZoneID: 2, Key: a.addr.String()}}}})
				if err != nil || decisions[0].Err != nil {
					t.Fatal(decisions, err)
				}
				if want = append(want, decisions[0].Blocked); decisions[0].Blocked {
					continue
				}
				if results, err := plain.ReportAll(t.Context(),
					[]service.Report{{TxnID: decisions[0].TxnID(), Outcome: a.outcome}}); err != nil || results[0] != nil {
					t.Fatal(results, err)
				}
			}
		}
		for _, batch := range []int{1, 2, 7, 1000} {
			o, got := reporting(t, loginZones(t), batch), []bool{}
			store := o.Store
			o.Store = storeFunc(func(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
				decisions, err := store.CheckAll(ctx, checks)
				for _, d := range decisions {
					got = append(got, d.Blocked)
				}
				return decisions, err
			})
			result, err := Run(t.Context(), strings.NewReader(log), o)
			blocked := int64(len(slices.DeleteFunc(slices.Clone(want), func(b bool) bool { return !b })))
			if err != nil || !slices.Equal(got, want) || result.Attempts != int64(len(want)) ||
				result.Happened.Blocked != blocked || result.IsCut {
				t.Errorf("seed %d, batch %d: %v\n got %v\nwant %v\n%+v", seed, batch, err, got, want, result)
			}
		}
	}
}

func TestReplayAsksInOrderAndTellsOmissions(t *testing.T) {
	t.Parallel()
	log := failed("ann", "192.0.2.1") + "noise\n" +
		stamp + "message repeated 3 times: [ Failed password for ann from 192.0.2.1 port 22 ssh2]\n" +
		// No key, and too long once it is spelt out.
		failed("", "192.0.2.1") + failed(strings.Repeat("\ufdfa", 250), "192.0.2.1") +
		failed(`a\nb`, "2001:DB8::0:1") + failed("", "UNKNOWN") + failed("joe", "UNKNOWN") + strings.Repeat("y", 2*maxLine) +
		"" +
		"\n[  1.5] gate sshd[1]: Failed password for eve from 192.0.2.1 port 22 ssh2\n" +
		strings.TrimRight(failed("bob", "192.0.2.2"), "\r\n")
	for zones, want := range map[[2]int64][]string{
		{1, 2}: {
			"ann ann ann ann 192.0.2.1 192.0.2.1 2001:db8::1 joe bob", "4 attempts are replayed in one zone alone",
			"1 attempts have no user or address",
			"1 attempts of the log have no time",
		},
		{1, 0}: {"ann ann ann ann joe bob", "4 attempts have no user or address", "1 attempts of the log have no time"},
		{0, 2}: {
			"192.0.2.1 192.0.2.1 192.0.2.1 192.0.2.1 192.0.2.1 192.0.2.1 2001:db8::1 192.0.2.2",
			"2 attempts have no user or address",
			"1 attempts of the log have no time",
		},
	} {
		for _, batch := range []int{1, 2, 3, 100} {
			o := asking(t, loginZones(t), batch)
			o.UserZone, o.IPZone = zones[0], zones[1]
			var keys []string
			store := o.Store
			o.Store = storeFunc(func(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
				if len(checks) > batch {
					t.Errorf("asked %d checks at once, want at most %d", len(checks), batch)
				}
				for _, check := range checks {
					keys = append(keys, check.Buckets[0].Key)
				}
				return store.CheckAll(ctx, checks)
			})
			result, err := Run(t.Context(), strings.NewReader(log), o)
			if got := strings.Join(keys, " "); err != nil || got != want[0] {
				t.Errorf("zones %v, batch %d: %v, asked about %s", zones, batch, err, got)
			}
			for _, sentence := range want[1:] {
				if !strings.Contains(strings.Join(result.Assumptions, "\n"), sentence) {
					t.Errorf("zones %v: %q lacks %q", zones, result.Assumptions, sentence)
				}
			}
		}
	}
}

func TestReplayTellsPresentAndPastAnswers(t *testing.T) {
	t.Parallel()
	m := memory.New()
	m.SetZone(t, service.Zone{ID: 1, Rate: 2, Window: time.Hour, Mode: service.ModeShadow})
	m.SetZone(t, service.Zone{ID: 2, Rate: 4, Window: time.Hour})
	var log strings.Builder
	for hour := range 6 {
		fmt.Fprintf(&log, "2026-11-22T%02d:00:00Z gate sshd[1]: Failed password for ann from 192.0.2.1 port 22 ssh2\n",
			10+hour/2)
	}
	result, err := Run(t.Context(), strings.NewReader(log.String()), asking(t, m, 3))
	happened, then := result.Happened, result.Proposals[0]
	if err != nil || result.Attempts != 6 || happened.Blocked != 2 || happened.Buckets != 1 || then.Blocked != 0 ||
		then.NewlyPassed != 2 ||
		result.First.Hour() != 10 || result.Last.Hour() != 12 {
		t.Errorf("%v: %+v", err, result)
	}
	if told := strings.Join(result.Assumptions, "\n"); !strings.Contains(
		told, "2 attempts passed that a zone would have blocked") ||
		!strings.Contains(told, "as if they came now") {
		t.Errorf("%s", told)
	}
}

// TestReplayAsksABusyStoreAgain asks a store that is busy for a call, for a check of it, or away, and once for too
// long.
func TestReplayAsksABusyStoreAgain(t *testing.T) {
	t.Parallel()
	busy := []service.Decision{{Err: service.ErrBusy}}
	for name, c := range map[string]struct {
		decisions []service.Decision // of the last check
		err       error
		ends      bool
	}{
		"busy": {err: service.ErrBusy}, "one check is busy": {decisions: busy},
		"one check is degraded": {decisions: []service.Decision{{Degraded: true}}},
		"undecided":             {err: service.ErrUndecided, ends: true}, "broken": {err: io.ErrUnexpectedEOF, ends: true},
		"without keys": {err: fmt.Errorf("%w: %w", service.ErrBusy, service.ErrNoKeys), ends: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			for _, tries := range []int{2, busyTries, busyTries + 1} {
				m, calls, began := loginZones(t), 0, time.Now()
				o := asking(t, m, 2)
				store := o.Store
				o.Store = storeFunc(func(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
					switch calls++; {
					case calls == tries:
						return store.CheckAll(ctx, checks)
					case c.err != nil:
						return nil, c.err
					}
					decisions, err := store.CheckAll(ctx, checks[:len(checks)-1])
					return append(decisions, c.decisions...), err
				})
				result, err := Run(t.Context(), strings.NewReader(failed("ann", "192.0.2.1")+failed("bob", "192.0.2.1")), o)
				switch {
				case c.ends:
					if !errors.Is(err, c.err) || calls != 1 || result.Attempts != 0 {
						t.Errorf("%s: %v after %d calls", name, err, calls)
					}
				case tries > busyTries:
					if !errors.Is(err, service.ErrBusy) || calls != busyTries || !result.IsCut ||
						result.Attempts != int64(len(c.decisions)) {
						t.Errorf("%s: %v after %d calls: %+v", name, err, calls, result)
					}
				case err != nil || calls != tries || result.Attempts != 2 ||
					len(m.Txns(service.Bucket{ZoneID: 2, Key: "192.0.2.1"})) != 2:
					t.Errorf("%s: %v after %d of %d calls: %+v", name, err, calls, tries, result)
				case time.Since(began) != time.Duration(tries-1)*service.BusyRetryAfter:
					t.Errorf("%s: waited %s", name, time.Since(began))
				}
			}
		})
	}
}

func TestReplayDoesNotBeginInMissingZone(t *testing.T) {
	t.Parallel()
	for _, zones := range [][2]int64{{55, 2}, {1, 55}} {
		o := asking(t, loginZones(t), 1)
		o.UserZone, o.IPZone = zones[0], zones[1]
		o.Store = nil
		if _, err := Run(t.Context(), strings.NewReader(failed("ann", "192.0.2.1")), o); !errors.Is(
			err, service.ErrNotFound) ||
			!strings.Contains(err.Error(), "zone 55") {
			t.Errorf("zones %v: %v", zones, err)
		}
	}
}

func TestReplayOfPartlyReadLogIsAnError(t *testing.T) {
	t.Parallel()
	const unread = "Nov/26 gate sshd[1]: Failed password for bob from 192.0.2.2 port 22 ssh2\n"
	o := asking(t, loginZones(t), 9)
	result, err := Run(t.Context(), strings.NewReader(failed("ann", "192.0.2.1")+unread+unread), o)
	if !errors.Is(err, ErrUnread) || errors.Is(err, ErrNoAttempt) || result.Attempts != 1 || result.IsCut {
		t.Errorf("got %+v, %v", result, err)
	}
	o.Store = nil
	if result, err = Run(t.Context(), strings.NewReader(failed("ann", "192.0.2.1")+unread), o); err != nil ||
		!strings.Contains(strings.Join(result.Assumptions, "\n"), "1 lines of the log look like attempts") {
		t.Errorf("a back-test: %v, %q", err, result.Assumptions)
	}
	o.UserZone, o.IPZone = 0, 2
	if _, err = Run(t.Context(), strings.NewReader("noise\n"+failed("ann", "UNKNOWN")), o); !errors.Is(
		err, ErrNoAttempt) ||
		!strings.Contains(err.Error(), "of its 2 lines 1 are attempts") {
		t.Errorf("without a key: %v", err)
	}
}

// TestInterruptedReplayFinishesItsCurrentCall also holds that outcomes of that call are reported.
func TestInterruptedReplayFinishesItsCurrentCall(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	m := loginZones(t)
	o := reporting(t, m, 2)
	store := o.Store
	o.Store = storeFunc(func(ctx context.Context, asked []service.Check) ([]service.Decision, error) {
		cancel()
		return store.CheckAll(context.WithoutCancel(ctx), asked)
	})
	log := accepted("ann", "192.0.2.1") + accepted("bob", "192.0.2.2") + accepted("eve", "192.0.2.3") +
		accepted("joe", "192.0.2.4")
	result, err := Run(ctx, strings.NewReader(log), o)
	if !errors.Is(err, context.Canceled) || result.Attempts != 2 || !result.IsCut ||
		!slices.Contains(result.Assumptions, "The outcomes of 2 attempts that passed were reported.") {
		t.Errorf("got %v, %+v", err, result)
	}
}

func TestReplayNoticesThatItsBucketsChanged(t *testing.T) {
	t.Parallel()
	m := loginZones(t)
	o := reporting(t, m, 100)
	m.SetZone(
		t, service.Zone{ID: 2, Rate: 5, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP, IPv4Prefix: 24}})
	result, err := Run(t.Context(), strings.NewReader(failed("ann", "192.0.2.1")+failed("bob", "192.0.2.2")), o)
	if !errors.Is(err, errRulesChanged) ||
		!slices.Contains(result.Assumptions, "The outcomes of 2 attempts that passed were reported.") {
		t.Errorf("got %v, %+v", err, result)
	}
}

// TestReplayHasTheKeysOfLiveChecks replays the lines of a real sshd (OpenSSH 9.2, UsePAM) about password and
// keyboard-interactive logins.
func TestReplayHasTheKeysOfLiveChecks(t *testing.T) {
	t.Parallel()
	const log = `Nov 26 09:07:57 gate sshd[100]: error: PAM: Authentication failure for carol from 127.0.0.1
Nov 26 09:07:59 gate sshd[108]: error: PAM: Authentication failure for illegal user oracle from 127.0.0.1
Nov 26 09:07:59 gate sshd[108]: Failed keyboard-interactive/pam for invalid user oracle from 127.0.0.1 port 46288 ssh2
Nov 26 09:08:10 gate sshd[156]: Accepted keyboard-interactive/pam for carol from 127.0.0.1 port 49706 ssh2
Nov 26 09:08:19 gate sshd[189]: Failed password for invalid user zo\303\253 from ::1 port 47104 ssh2
Nov 26 09:08:23 gate sshd[196]: Failed password for invalid user ZO\303\213 from ::1 port 54118 ssh2
Nov 26 09:08:27 gate sshd[203]: Failed password for invalid user CORP\\zoe from 127.0.0.1 port 60130 ssh2
Nov 26 09:08:32 gate sshd[217]: Failed password for carol from fe80::1234%lo port 48732 ssh2
`
	m := loginZones(t)
	result, err := Run(t.Context(), strings.NewReader(log), reporting(t, m, 100))
	if err != nil || result.Attempts != 7 || result.Successes != 1 || result.Failures != 6 {
		t.Errorf("got %v, %+v", err, result)
	}
	for key, want := range map[service.Bucket]int{
		{ZoneID: 1, Key: "carol"}: 3, {ZoneID: 1, Key: "oracle"}: 1, {ZoneID: 1, Key: "zoë"}: 2,
		{ZoneID: 1, Key: `corp\zoe`}:  1,
		{ZoneID: 2, Key: "127.0.0.1"}: 4, {ZoneID: 2, Key: "::/64"}: 2, {ZoneID: 2, Key: "fe80::/64"}: 1,
	} {
		if got := len(m.Txns(key)); got != want {
			t.Errorf("%+v: %d txns, want %d", key, got, want)
		}
	}
}
