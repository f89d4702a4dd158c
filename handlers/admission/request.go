package admission

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"

	"velocityd/service"
)

// maxLoggedZones bounds the zones that a caller can bring into a line of the log.
const maxLoggedZones = 16

// Request is the checks of one call and their decisions, for the log.
type Request struct {
	Checks    []service.Check
	Decisions []service.Decision // one for each of Checks, or none
	// RefusedReport is the error of the first report that was refused, or nil.
	RefusedReport error
}

// Faults returns the faults of a call that an operator must know of, of kind None where there is none. If the call
// failed as a whole with err, that is the only one. Otherwise they are the worst fault of its parts, the first of
// several, and one for the checks that were answered without the database. judge returns how the protocol answers an
// error. If all calls are refused, no user is limited or none can log in, and only the operator can find out why.
func (a Request) Faults(err error, judge func(error) Fault) (faults [2]Fault) {
	if err != nil {
		return [2]Fault{faultOf(err, judge)}
	}
	worst, degraded := &faults[0], &faults[1]
	if a.RefusedReport != nil {
		*worst = faultOf(a.RefusedReport, judge)
	}
	for _, d := range a.Decisions {
		if d.Err != nil {
			if f := faultOf(d.Err, judge); f.Kind > worst.Kind {
				*worst = f
			}
		}
		if d.Degraded && degraded.Kind == None {
			*degraded = Fault{Kind: Degraded, Code: "degraded", Text: degradedText(d)}
		}
	}
	return faults
}

// faultOf returns the fault of err in any protocol. A caller that has left is no fault. The database's refusal of the
// service's own account is one, also where the protocol answers with 403.
func faultOf(err error, judge func(error) Fault) Fault {
	f := judge(err)
	switch {
	case errors.Is(err, context.Canceled):
		f.Kind = None
	case errors.Is(err, service.ErrForbidden) && f.Kind < Busy:
		f.Kind = Failed
	}
	return f
}

func degradedText(d service.Decision) string {
	switch {
	case !d.Blocked:
		return "allowed by on_failure, and recorded nowhere"
	case d.HasCause():
		return "blocked, because a bucket is full, locked or denied as far as this instance knows, and recorded nowhere"
	}
	return "blocked by on_failure, or because this instance can remember no more buckets, and recorded nowhere"
}

// AppendAttrs appends the zones that were asked about, and the decisions.
func (a Request) AppendAttrs(attrs []slog.Attr) []slog.Attr {
	if len(a.Checks) == 0 {
		return attrs
	}
	attrs = append(attrs, slog.Any("zone_ids", a.ZoneIDs()))
	if len(a.Checks) > 1 {
		return a.appendCounts(attrs)
	}
	if len(a.Decisions) != 1 || a.Decisions[0].Err != nil {
		return attrs
	}
	d := a.Decisions[0]
	if d.Degraded {
		return append(attrs, slog.Bool("degraded", true), slog.Bool("blocked", d.Blocked))
	}
	return append(attrs, slog.String("txn_id", strconv.FormatUint(d.TxnID(), 10)), slog.Bool("blocked", d.Blocked))
}

// appendCounts appends how many checks there were, and how many of each kind of decision.
func (a Request) appendCounts(attrs []slog.Attr) []slog.Attr {
	blocked, refused, degraded := 0, 0, 0
	for _, d := range a.Decisions {
		if d.Degraded {
			degraded++
		}
		if d.Blocked {
			blocked++
		}
		if d.Err != nil {
			refused++
		}
	}
	attrs = append(attrs, slog.Int("checks", len(a.Checks)),
		slog.Int("blocked_checks", blocked), slog.Int("refused_checks", refused))
	if degraded > 0 {
		attrs = append(attrs, slog.Int("degraded_checks", degraded))
	}
	return attrs
}

// ZoneIDs returns the first zones that were asked about, each once.
func (a Request) ZoneIDs() []int64 {
	ids := make([]int64, 0, 2)
	for _, check := range a.Checks {
		for _, b := range check.Buckets {
			ids = appendZones(ids, []int64{b.ZoneID})
		}
	}
	return ids
}

// appendZones appends the zones that list does not have, while it is short enough for a line.
func appendZones(list, zones []int64) []int64 {
	for _, id := range zones {
		if len(list) < maxLoggedZones && !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return list
}
