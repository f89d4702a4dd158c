package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"velocityd/service"
	"velocityd/service/memory"
	"velocityd/service/servicetest"
)

// reportFunc is a store of outcomes of a test's own.
type reportFunc func(context.Context, []service.Report) ([]error, error)

func (f reportFunc) ReportAll(ctx context.Context, reports []service.Report) ([]error, error) {
	return f(ctx, reports)
}

// accepted is the line of a login.
func accepted(user, ip string) string {
	return stamp + "Accepted password for " + user + " from " + ip + " port 22 ssh2\n"
}

// loginZones are zones in which every outcome matters, and several spellings are
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

// reporting returns a Replayer that reports outcomes and knows m's key rules.
func reporting(t *testing.T, m *memory.Store, batch int) *Replayer {
	t.Helper()
	zones, err := m.Zones(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := asking(service.NewLimiter(m, service.LimiterOptions{Zones: m, Timeout: time.Minute}), 1, 2, batch)
	r.outcomes, r.rules = m, map[int64]service.KeyRule{}
	for _, zone := range zones {
		r.rules[zone.ID] = zone.Keys
	}
	return r
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
			fmt.Fprintf(&log, "%smessage repeated %d times: [ Failed password for %s from %s port 22 ssh2]\n", stamp, random.IntN(3)+1, user, ip)
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
		random := rand.New(rand.NewPCG(seed, 3))
		log := randomLog(random, 120)
		want, plain, lines := newTally(), loginZones(t), &reader{}
		single := service.NewLimiter(plain, service.LimiterOptions{Zones: plain, Timeout: time.Minute})
		for line := range strings.Lines(log) {
			a := lines.read(line)
			if a.times == 0 {
				t.Fatalf("no attempt: %q", line)
			}
			for range a.times {
				decisions, err := single.CheckAll(t.Context(),
					[]service.Check{{Buckets: []service.Bucket{{ZoneID: 1, Key: a.user}, {ZoneID: 2, Key: a.addr.String()}}}})
				if err != nil || want.count(decisions) != nil {
					t.Fatal(decisions, err)
				}
				if decisions[0].Blocked {
					continue
				}
				reports := []service.Report{{TxnID: decisions[0].TxnID(), Outcome: a.outcome}}
				results, err := plain.ReportAll(t.Context(), reports)
				if err != nil || want.countReports(reports, results) != nil {
					t.Fatal(results, err)
				}
			}
		}
		for _, batch := range []int{1, 2, 7, 1000} {
			m := loginZones(t)
			r := reporting(t, m, batch)
			if err := r.run(t.Context(), strings.NewReader(log)); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(r.tally, want) {
				t.Errorf("seed %d, batch %d:\n got %+v\nwant %+v", seed, batch, r.tally, want)
			}
		}
	}
}

func TestReplayReportsBeforeTheNextAttemptInABucket(t *testing.T) {
	t.Parallel()
	log := failed("ann", "192.0.2.1") + accepted("bob", "192.0.2.2") + // together
		failed("ANN", "192.0.2.3") + accepted("eve", "2001:db8::1") + // the first shares a user with those before
		failed("joe", "2001:db8::2") // and this one a network
	m := loginZones(t)
	r := reporting(t, m, 100)
	var events []string
	checks := r.store
	r.store = storeFunc(func(ctx context.Context, asked []service.Check) ([]service.Decision, error) {
		events = append(events, fmt.Sprintf("ask %d", len(asked)))
		return checks.CheckAll(ctx, asked)
	})
	r.outcomes = reportFunc(func(ctx context.Context, reports []service.Report) ([]error, error) {
		text := "report"
		for _, report := range reports {
			text += fmt.Sprintf(" %d=%s", report.TxnID, report.Outcome)
		}
		events = append(events, text)
		return m.ReportAll(ctx, reports)
	})
	if err := r.run(t.Context(), strings.NewReader(log)); err != nil {
		t.Fatal(err)
	}
	want := []string{"ask 2", "report 1=failure 3=success", "ask 2", "report 5=failure 7=success", "ask 1", "report 9=failure"}
	if !reflect.DeepEqual(events, want) {
		t.Errorf("got %q\nwant %q", events, want)
	}
}

func TestReplayReportsNothingOfWhatWasBlocked(t *testing.T) {
	t.Parallel()
	m := loginZones(t)
	r := reporting(t, m, 100)
	log := strings.Repeat(failed("ann", "192.0.2.1"), 3) + accepted("ann", "192.0.2.1") + accepted("ann", "192.0.2.1")
	if err := r.run(t.Context(), strings.NewReader(log)); err != nil {
		t.Fatal(err)
	}
	if want := (map[service.Outcome]int{service.OutcomeFailure: 3}); !maps.Equal(r.tally.reported, want) || r.tally.blocked != 2 {
		t.Errorf("reported %v, blocked %d", r.tally.reported, r.tally.blocked)
	}
}

func TestReplayReportsAgainWhatMayHaveBeenLost(t *testing.T) {
	t.Parallel()
	for kind, tries := range map[error]int{
		service.ErrBusy: busyTries, service.ErrUndecided: busyTries, io.ErrUnexpectedEOF: 1,
	} {
		synctest.Test(t, func(t *testing.T) {
			m, calls := loginZones(t), 0
			r := reporting(t, m, 100)
			r.outcomes = reportFunc(func(ctx context.Context, reports []service.Report) ([]error, error) {
				if calls++; calls%busyTries != 0 {
					return nil, fmt.Errorf("%w: on purpose", kind)
				}
				return m.ReportAll(ctx, reports)
			})
			err := r.run(t.Context(), strings.NewReader(failed("ann", "192.0.2.1")))
			if calls != tries || (tries == 1) != errors.Is(err, kind) || r.tally.allowed != 1 {
				t.Errorf("%v: got %v after %d calls, %+v", kind, err, calls, r.tally)
			}
		})
	}
}

func TestReplayEndsAtAReportThatIsRefused(t *testing.T) {
	t.Parallel()
	m := loginZones(t)
	r := reporting(t, m, 100)
	r.outcomes = reportFunc(func(_ context.Context, reports []service.Report) ([]error, error) {
		results := make([]error, len(reports))
		results[0] = fmt.Errorf("too late: %w", service.ErrConflict)
		return results, nil
	})
	log := accepted("ann", "192.0.2.1") + accepted("bob", "192.0.2.2") + accepted("bob", "192.0.2.2")
	err := r.run(t.Context(), strings.NewReader(log))
	if !errors.Is(err, service.ErrConflict) || !strings.Contains(err.Error(), "txn 1") || r.tally.reported[service.OutcomeSuccess] != 1 ||
		r.tally.allowed != 2 {
		t.Errorf("got %v, %+v", err, r.tally)
	}
}

func TestReplayReportsWhatWasAllowedWhenItIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	m := loginZones(t)
	r := reporting(t, m, 2)
	checks := r.store
	r.store = storeFunc(func(ctx context.Context, asked []service.Check) ([]service.Decision, error) {
		cancel()
		return checks.CheckAll(context.WithoutCancel(ctx), asked)
	})
	r.outcomes = reportFunc(func(ctx context.Context, reports []service.Report) ([]error, error) {
		return m.ReportAll(context.WithoutCancel(ctx), reports)
	})
	log := accepted("ann", "192.0.2.1") + accepted("bob", "192.0.2.2") + accepted("eve", "192.0.2.3") + accepted("joe", "192.0.2.4")
	err := r.run(ctx, strings.NewReader(log))
	if !errors.Is(err, ErrInterrupted) || r.tally.allowed != 2 || r.tally.reported[service.OutcomeSuccess] != 2 {
		t.Errorf("got %v, %+v", err, r.tally)
	}
}

func TestReplayNoticesThatBucketsAreOthersThanItKeptApart(t *testing.T) {
	t.Parallel()
	m := loginZones(t)
	r := reporting(t, m, 100)
	m.SetZone(t, service.Zone{ID: 2, Rate: 5, Window: time.Hour, Keys: service.KeyRule{Kind: service.KeyIP, IPv4Prefix: 24}})
	err := r.run(t.Context(), strings.NewReader(failed("ann", "192.0.2.1")+failed("bob", "192.0.2.2")))
	if !errors.Is(err, errRulesChanged) || r.tally.reported[service.OutcomeFailure] != 2 {
		t.Errorf("got %v, %+v", err, r.tally)
	}
}

func TestReplayLeavesOutTheZoneThatCannotHaveAKey(t *testing.T) {
	t.Parallel()
	m := loginZones(t)
	r := reporting(t, m, 100)
	log := failed(" ", "192.0.2.1") + // nothing is left of the user
		failed(strings.Repeat("\ufdfa", 250), "192.0.2.1") + // too long once it is spelt out
		failed(`a\nb`, "192.0.2.1") + // a control character
		failed("ann", "192.0.2.1") + failed("ann", "UNKNOWN") + failed("", "UNKNOWN")
	if err := r.run(t.Context(), strings.NewReader(log)); err != nil || r.tally.partly != 4 || r.tally.skipped != 1 ||
		r.tally.keyless != 1 || r.tally.allowed != 5 {
		t.Errorf("got %v, %+v", err, r.tally)
	}
	if users, addresses := len(m.Txns(service.Bucket{ZoneID: 1, Key: "ann"})),
		len(m.Txns(service.Bucket{ZoneID: 2, Key: "192.0.2.1"})); users != 2 || addresses != 4 {
		t.Errorf("%d txns of the user, %d of the address", users, addresses)
	}
	swapped := asking(servicetest.Asking(m), 2, 0, 100) // users in a zone of addresses
	swapped.rules = r.rules
	if err := swapped.run(t.Context(), strings.NewReader(log)); err != nil || swapped.tally.skipped != 6 {
		t.Errorf("got %v, %+v", err, swapped.tally)
	}
}

// TestReplayHasTheKeysOfLiveChecks replays what a real sshd (OpenSSH 9.2, UsePAM) writes of password and
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
	r := reporting(t, m, 100)
	if err := r.run(t.Context(), strings.NewReader(log)); err != nil || r.tally.skipped != 1 || r.tally.partly != 0 {
		t.Errorf("got %v, %+v", err, r.tally)
	}
	for key, want := range map[service.Bucket]int{
		{ZoneID: 1, Key: "carol"}: 3, {ZoneID: 1, Key: "oracle"}: 1, {ZoneID: 1, Key: "zoë"}: 2, {ZoneID: 1, Key: `corp\zoe`}: 1,
		{ZoneID: 2, Key: "127.0.0.1"}: 4, {ZoneID: 2, Key: "::/64"}: 2, {ZoneID: 2, Key: "fe80::/64"}: 1,
	} {
		if got := len(m.Txns(key)); got != want {
			t.Errorf("%+v: %d txns, want %d", key, got, want)
		}
	}
	if want := (map[service.Outcome]int{service.OutcomeFailure: 6, service.OutcomeSuccess: 1}); !maps.Equal(r.tally.reported, want) {
		t.Errorf("reported %v", r.tally.reported)
	}
}
