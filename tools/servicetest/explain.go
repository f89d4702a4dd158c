package servicetest

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"velocityd/service"
	"velocityd/service/explain"
)

// Explainer says why an attempt was decided as it was.
type Explainer interface {
	Explain(ctx context.Context, txnID uint64) (explain.Explanation, error)
}

// mostExplained is how many attempts of a claim a store on an engine explains, the first ones. Each costs some twenty
// statements, and claims of contention block hundreds. The reference store explains all, by the same package explain.
const mostExplained = 6

// explaining returns a subject that explains each attempt without room as soon as it is decided, if it is an Explainer,
// and fails the test if the explanation contradicts the record or the answer. Later would be too late: tests move rows
// into the past, and no change of a zone with them.
func explaining(tb testing.TB, b Subject) Subject {
	tb.Helper()
	explains, is := b.(Explainer)
	if !is {
		return b
	}
	most := mostExplained
	if _, is := b.(reference); is {
		most = math.MaxInt
	}
	return &explainer{Subject: b, explains: explains, tb: tb, most: most, explained: map[uint64]bool{}}
}

type explainer struct {
	Subject
	explains Explainer
	tb       testing.TB
	most     int

	mu        sync.Mutex
	explained map[uint64]bool // by txn id: a retry has the txn of the first attempt, whose rows may have been moved since
}

// CheckAll implements service.Checker.
func (e *explainer) CheckAll(ctx context.Context, checks []service.Check) ([]service.Decision, error) {
	decisions, err := e.Subject.CheckAll(ctx, checks)
	for _, d := range decisions {
		for _, v := range d.Verdicts {
			if d.Err == nil && !d.Degraded && (d.Blocked || v.WouldBlock) && e.isNew(v.TxnID) {
				e.explain(d, v)
			}
		}
	}
	return decisions, err
}

// isNew says that a txn was not explained before and may be now, and takes note of it.
func (e *explainer) isNew(id uint64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	isNew := !e.explained[id] && len(e.explained) < e.most
	e.explained[id] = true
	return isNew
}

// explain explains one verdict.
func (e *explainer) explain(d service.Decision, v service.Verdict) {
	e.tb.Helper()
	x, err := e.explains.Explain(context.WithoutCancel(e.tb.Context()), v.TxnID)
	switch {
	case errors.Is(err, service.ErrNotFound): // the test has deleted it
		return
	case err != nil:
		e.tb.Errorf("explain txn %d: %v", v.TxnID, err)
		return
	case !x.Txn.CreatedAt.Equal(d.CheckedAt.Time):
		return // an attempt that an earlier txn counts, or one whose rows were moved meanwhile
	case !x.Agrees || slices.ContainsFunc(x.Unknown, func(g explain.Gap) bool { return !mayBeUnknown(g.Part, x) }):
		e.tb.Errorf("txn %d, %+v:\nexplained as %+v", v.TxnID, v, x)
		return
	}
	if opens, isSaid := v.RetryAfter.Duration, v.Blocked && !x.OpensAt.IsZero(); isSaid {
		wait := (x.OpensAt.Sub(d.CheckedAt.Time) + time.Second - 1).Truncate(time.Second)
		if wait != opens {
			e.tb.Errorf("txn %d opens %s after the attempt as explained, and %s as answered: %+v", v.TxnID, wait, opens, x)
		}
	}
}

// mayBeUnknown says that a part of an explanation may be unknown in a test: the answers that a retry gave the other
// buckets of a check, and rows from more than a day ago, because tests move the oldest rows there.
func mayBeUnknown(part explain.Part, x explain.Explanation) bool {
	return part == explain.PartCheck || part == explain.PartRows && x.Txn.CreatedAt.Sub(x.Since.Time) > 24*time.Hour
}
