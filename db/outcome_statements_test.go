package db

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"velocityd/db/session"
	"velocityd/service"
	"velocityd/tools/enginetest"
)

// TestReportFinishesHalfDoneEarlierReport makes the rows that are left when one shard commits
// and the other is lost.
func TestReportFinishesHalfDoneEarlierReport(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name           string
		said, reported service.Outcome
		want           error
		counted        bool // the txn that was left behind, in a zone where failures count
		outcome        service.Outcome
	}{
		{"a success", "success", "success", nil, false, "success"},
		{"a failure", "failure", "failure", nil, true, "failure"},
		{"the other outcome", "success", "failure", service.ErrConflict, true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d, store := form{}.stand(t, session.Options{}, failures(),
				service.Zone{ID: 2, Rate: 9, Window: time.Hour, ResetOnSuccess: true})
			reset := service.Bucket{ZoneID: 2, Key: "203.0.113.9"}
			decision := decided(t, store, user("alice"), reset)
			d.LeaveUnaudited()
			enginetest.Exec(t, d.SQL, "UPDATE zone_txn SET outcome = ?, counted = FALSE WHERE zone_id = 2", test.said)
			// A later attempt in the bucket whose shard has committed must not be reset again.
			decided(t, store, reset)
			// However late it comes: the outcome is decided.
			d.Age(t, user("alice"), 2*time.Hour)
			d.Age(t, reset, 2*time.Hour)
			for range 2 {
				receipts, err := store.ReportAll(t.Context(), []service.Report{{TxnID: decision.TxnID(), Outcome: test.reported}})
				if err != nil || !errors.Is(receipts[0], test.want) {
					t.Errorf("got %v, %v, want %v", receipts, err, test.want)
				}
			}
			if txn := d.Txns(t, user("alice"))[0]; txn.Outcome != test.outcome || txn.Counted != test.counted {
				t.Errorf("left behind: %+v", txn)
			}
			txns := d.Txns(t, reset)
			if txns[0].Outcome != test.said || !txns[1].Counted {
				t.Errorf("where it was recorded: %+v", txns)
			}
		})
	}
}

// TestCallEndingHalfWayIsUndecidedAndRepeatable has more txns than one transaction settles.
func TestCallEndingHalfWayIsUndecidedAndRepeatable(t *testing.T) {
	t.Parallel()
	d, store := form{}.stand(t, session.Options{LockWait: time.Second}, failures())
	checks := make([]service.Check, mostSettled)
	for i := range checks {
		checks[i] = check(user(fmt.Sprint("a-", i)), user(fmt.Sprint("b-", i)))[0]
	}
	decisions := decide(t, store, checks)
	reports := make([]service.Report, len(decisions))
	for i, decision := range decisions {
		reports[i] = service.Report{TxnID: decision.Verdicts[i%2].TxnID, Outcome: service.OutcomeSuccess}
	}
	successes := func() int {
		return d.Count(t, "SELECT COUNT(*) FROM zone_txn WHERE outcome = 'success' AND NOT counted")
	}
	release := d.Hold(t, checks[0].Buckets[1])
	if _, err := store.ReportAll(t.Context(), reports); !errors.Is(err, service.ErrBusy) ||
		errors.Is(err, service.ErrUndecided) ||
		successes() != 0 {
		t.Errorf("the first bucket is held: %v, want ErrBusy and nothing recorded", err)
	}
	release()
	release = d.Hold(t, checks[len(checks)-1].Buckets[0])
	if _, err := store.ReportAll(t.Context(), reports); !errors.Is(err, service.ErrUndecided) ||
		errors.Is(err, service.ErrBusy) {
		t.Errorf("the last bucket is held: %v, want ErrUndecided", err)
	}
	if n := successes(); n == 0 || n == 2*len(reports) {
		t.Errorf("%d txns are successes, want some", n)
	}
	release()
	if receipts, err := store.ReportAll(t.Context(), reports); err != nil || errors.Join(receipts...) != nil {
		t.Errorf("reported again: %v", err)
	}
	if n := successes(); n != 2*len(reports) {
		t.Errorf("%d txns are successes, want all %d", n, 2*len(reports))
	}
}

// TestAReportThatIsCutOffSaysTruly ends the session at different moments.
func TestAReportThatIsCutOffSaysTruly(t *testing.T) {
	t.Parallel()
	const end, clock, commit = "KILL CONNECTION_ID()", "SELECT UTC_TIMESTAMP(6) FROM schema_migrations;", "COMMIT"
	for name, test := range map[string]struct {
		at, instead string
		want        error
	}{
		"under the locks":   {clock, end + ";" + clock, service.ErrBusy},
		"before the COMMIT": {"SELECT 1;", end + ";SELECT 1;", service.ErrBusy},
		"after the COMMIT":  {commit, commit + ";" + end, service.ErrUndecided},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, store := form{}.stand(t, session.Options{}, failures())
			decision := decided(t, store, user("alice"))
			cut := form{}.connect(t, d, session.Options{MaxConns: 2})
			editPackets(t, cut, func(packet string) string { return strings.Replace(packet, test.at, test.instead, 1) })
			report := []service.Report{{TxnID: decision.TxnID(), Outcome: service.OutcomeSuccess}}
			if _, err := cut.ReportAll(t.Context(), report); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			d.AwaitNone(t, "the end of the session")
			wasRecorded := errors.Is(test.want, service.ErrUndecided)
			if txn := d.Txns(t, user("alice"))[0]; (txn.Outcome != "") != wasRecorded || txn.Counted == wasRecorded {
				t.Errorf("recorded %+v", txn)
			}
			if receipts, err := store.ReportAll(t.Context(), report); err != nil || receipts[0] != nil {
				t.Errorf("reported again: %v, %v", receipts, err)
			}
			if txn := d.Txns(t, user("alice"))[0]; txn.Outcome != service.OutcomeSuccess || txn.Counted {
				t.Errorf("got %+v", txn)
			}
		})
	}
}

func TestReportsBeyondOnePacketAreRecordedInParts(t *testing.T) {
	t.Parallel()
	d, store := form{}.stand(t, session.Options{MaxConns: session.LeastMaxConns}, zone(1, 100, time.Hour))
	reports := make([]service.Report, 60)
	for i := range reports {
		decision := decided(t, store, user(fmt.Sprint(i)))
		reports[i] = service.Report{TxnID: decision.TxnID(), Outcome: service.OutcomeFailure}
	}
	if err := store.onCheckConn(t.Context(), func(_ context.Context, conn *session.Conn) (clean bool, err error) {
		conn.MaxPacket = 4000
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
	receipts, err := store.ReportAll(t.Context(), reports)
	if err := errors.Join(append(receipts, err)...); err != nil {
		t.Error(err)
	}
	d.WantCount(t, len(reports), "SELECT COUNT(*) FROM zone_txn WHERE outcome = 'failure'")
}
