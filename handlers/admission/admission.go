// Package admission finds the caller of a request and its rights, for every protocol, and owns the reasons of refusals
// and the log of faults. It must not know any protocol, SQL, or how a check is decided.
package admission

import (
	"context"
	"slices"

	"velocityd/service"
	"velocityd/service/access"
)

// Admission says which callers are answered. The zero value answers all of them.
type Admission struct {
	// Callers knows callers by their credentials. Nil means that callers need none, and that none is looked at.
	Callers *access.Cache
	// Txns tells the zones of txns. It is needed if Callers is set.
	Txns TxnZones
}

// TxnZones tells the zones of all buckets of a check, for each of these txns that exists and for each of these
// attempt ids that is remembered.
type TxnZones interface {
	TxnZones(ctx context.Context, ids []uint64) (map[uint64][]int64, error)
	AttemptZones(ctx context.Context, ids []string) (map[string][]int64, error)
}

// IsOpen reports whether callers need no credential.
func (a Admission) IsOpen() bool { return a.Callers == nil }

// Identify returns the caller whose credential has a digest; given is false if there is none. The error wraps
// access.ErrUnauthenticated, or service.ErrBusy if the answer is not known now. The admission must not be open.
func (a Admission) Identify(ctx context.Context, digest access.Digest, given bool) (access.Caller, error) {
	if !given {
		return access.Caller{}, access.ErrUnauthenticated
	}
	caller, known, err := a.Callers.Caller(ctx, digest)
	if err == nil && !known {
		err = access.ErrUnauthenticated
	}
	return caller, err
}

// Reachable tells, for each of these checks, named as in reports, whether a caller may read it and report about it. To
// a caller that is bound to zones, a check with other zones does not exist.
func (a Admission) Reachable(ctx context.Context, caller access.Caller, named ...service.Report) ([]bool, error) {
	reached := make([]bool, len(named))
	if !caller.IsBound() {
		for i := range reached {
			reached[i] = true
		}
		return reached, nil
	}
	zones, err := a.zonesOf(ctx, named)
	for i := range zones {
		outside := func(zone int64) bool { return !caller.Reaches(zone) }
		reached[i] = len(zones[i]) > 0 && !slices.ContainsFunc(zones[i], outside)
	}
	return reached, err
}

// zonesOf returns the zones of each of these checks, or none of one that is not known.
func (a Admission) zonesOf(ctx context.Context, named []service.Report) ([][]int64, error) {
	var txns []uint64
	var attempts []string
	for _, n := range named {
		if n.AttemptID != "" {
			attempts = append(attempts, n.AttemptID)
		} else {
			txns = append(txns, n.TxnID)
		}
	}
	ofTxns, err := a.Txns.TxnZones(ctx, txns)
	if err != nil {
		return nil, err
	}
	ofAttempts, err := a.Txns.AttemptZones(ctx, attempts)
	if err != nil {
		return nil, err
	}
	zones := make([][]int64, len(named))
	for i, n := range named {
		if zones[i] = ofTxns[n.TxnID]; n.AttemptID != "" {
			zones[i] = ofAttempts[n.AttemptID]
		}
	}
	return zones, nil
}
