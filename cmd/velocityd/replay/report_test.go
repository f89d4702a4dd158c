package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"velocityd/service"
	"velocityd/service/memory"
)

// reportFunc is a store of outcomes of a test's own.
type reportFunc func(context.Context, []service.Report) ([]error, error)

func (f reportFunc) ReportAll(ctx context.Context, reports []service.Report) ([]error, error) {
	return f(ctx, reports)
}

// reporting returns the same, with outcomes.
func reporting(t *testing.T, m *memory.Store, batch int) Options {
	t.Helper()
	o := asking(t, m, batch)
	o.Outcomes = m
	return o
}

func TestReplayReportsBeforeNextAttemptInBucket(t *testing.T) {
	t.Parallel()
	log := failed("ann", "192.0.2.1") + accepted("bob", "192.0.2.2") + // together
		failed("ANN", "192.0.2.3") + accepted("eve", "2001:db8::1") + // the first shares a user with those before
		failed("joe", "2001:db8::2") + // and this one a network
		failed("ann", "192.0.2.9") + accepted("ann", "192.0.2.8") // the fourth is blocked, and has no outcome
	m := loginZones(t)
	o := reporting(t, m, 100)
	var events []string
	store := o.Store
	o.Store = storeFunc(func(ctx context.Context, asked []service.Check) ([]service.Decision, error) {
		events = append(events, fmt.Sprintf("ask %d", len(asked)))
		return store.CheckAll(ctx, asked)
	})
	o.Outcomes = reportFunc(func(ctx context.Context, reports []service.Report) ([]error, error) {
		text := "report"
		for _, report := range reports {
			text += fmt.Sprintf(" %d=%s", report.TxnID, report.Outcome)
		}
		events = append(events, text)
		return m.ReportAll(ctx, reports)
	})
	result, err := Run(t.Context(), strings.NewReader(log), o)
	want := []string{
		"ask 2", "report 1=failure 3=success", "ask 2", "report 5=failure 7=success", "ask 2", "report 9=failure 11=failure",
		"ask 1",
	}
	if err != nil || !reflect.DeepEqual(events, want) || result.Happened.Successes != 1 ||
		!slices.Contains(result.Assumptions, "The outcomes of 6 attempts that passed were reported.") {
		t.Errorf("%v: got %q\nwant %q\n%+v", err, events, want, result)
	}
}

// TestReplayReportsAgainWhatMayHaveBeenLost also reports until it gives up, and is refused.
func TestReplayReportsAgainWhatMayHaveBeenLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind   error
		mends  int // after so many calls
		calls  int
		refuse error
		want   error
	}{
		{service.ErrBusy, 5, 6, nil, nil},
		{service.ErrUndecided, 5, 6, nil, nil},
		{io.ErrUnexpectedEOF, 1, 1, nil, io.ErrUnexpectedEOF},
		{service.ErrBusy, 99, 6, nil, service.ErrBusy},
		{nil, 0, 1, service.ErrConflict, service.ErrConflict},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, calls := loginZones(t), 0
			o := reporting(t, m, 100)
			o.Outcomes = reportFunc(func(ctx context.Context, reports []service.Report) ([]error, error) {
				if calls++; calls <= c.mends {
					return nil, fmt.Errorf("%w: on purpose", c.kind)
				}
				results, err := m.ReportAll(ctx, reports)
				if c.refuse != nil {
					results[0] = c.refuse
				}
				return results, err
			})
			result, err := Run(t.Context(), strings.NewReader(accepted("ann", "192.0.2.1")+accepted("bob", "192.0.2.2")), o)
			if calls != c.calls || !errors.Is(err, c.want) || (err == nil) != (c.want == nil) || result.Attempts != 2 {
				t.Errorf("%+v: got %v after %d calls, %+v", c, err, calls, result)
			}
		})
	}
}
