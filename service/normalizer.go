package service

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// ZoneLister tells the zones there are.
type ZoneLister interface {
	Zones(ctx context.Context) ([]Zone, error)
}

// Normalizer is a CheckStore that brings the keys of checks into the form that
// their zones want, in front of a store that keeps keys as they come.
//
// It remembers the zones' key rules but decides nothing by them: each check
// tells the store by which rules it was normalised, and a store whose zone has
// another rule by now fails the call with ErrStaleKey and has decided nothing.
// Then the rules are read anew: an edited zone takes effect at the next check.
type Normalizer struct {
	store CheckStore
	zones ZoneLister
	rules atomic.Pointer[map[int64]KeyRule]
}

var _ CheckStore = (*Normalizer)(nil)

// NewNormalizer returns a Normalizer in front of store. Nothing is read yet.
func NewNormalizer(store CheckStore, zones ZoneLister) *Normalizer {
	n := &Normalizer{store: store, zones: zones}
	n.rules.Store(&map[int64]KeyRule{})
	return n
}

// maxRuleReads bounds how often one call may find that a rule has changed.
const maxRuleReads = 3

// CheckAll implements CheckStore. The verdicts name the normalised keys.
func (n *Normalizer) CheckAll(ctx context.Context, checks []Check) ([]Decision, error) {
	for reads := 0; ; reads++ {
		decisions := make([]Decision, len(checks))
		normal, places := normalizeAll(checks, *n.rules.Load(), decisions)
		var err error
		switch {
		case len(normal) < len(checks) && reads == 0:
			err = ErrStaleKey // perhaps: nobody is refused by a rule that may be old
		case len(normal) > 0:
			err = n.ask(ctx, normal, places, decisions)
		}
		switch {
		case err == nil:
			return decisions, nil
		case !errors.Is(err, ErrStaleKey):
			return nil, err
		}
		if reads == maxRuleReads {
			return nil, fmt.Errorf("%w: key rules changed %d times during the check", ErrBusy, reads)
		}
		if err := n.reload(ctx); err != nil {
			return nil, err
		}
	}
}

// normalizeAll returns the checks whose keys fit their zones, and their places;
// the others are refused in decisions.
func normalizeAll(checks []Check, rules map[int64]KeyRule, decisions []Decision) (normal []Check, places []int) {
	normal, places = make([]Check, 0, len(checks)), make([]int, 0, len(checks))
	for i, check := range checks {
		check, err := normalize(check, rules)
		if err != nil {
			decisions[i].Err = err
			continue
		}
		normal, places = append(normal, check), append(places, i)
	}
	return normal, places
}

func (n *Normalizer) ask(ctx context.Context, checks []Check, places []int, decisions []Decision) error {
	answers, err := n.store.CheckAll(ctx, checks)
	if err != nil {
		return err
	}
	if len(answers) != len(checks) {
		return fmt.Errorf("%w: store answered %d of %d checks", ErrUndecided, len(answers), len(checks))
	}
	for i, place := range places {
		decisions[place] = answers[i]
	}
	return nil
}

// normalize returns check with normal keys, which are validated anew: they may
// be longer than the caller's, and two of them may have become one.
func normalize(check Check, rules map[int64]KeyRule) (Check, error) {
	normal := Check{
		Buckets:   make([]Bucket, len(check.Buckets)),
		AttemptID: check.AttemptID,
		KeyRules:  make([]KeyRule, len(check.Buckets)),
	}
	for i, b := range check.Buckets {
		rule := rules[b.ZoneID]
		key, err := rule.Normalize(b.Key)
		if err != nil {
			return Check{}, &BucketError{Bucket: i, cause: fmt.Errorf("bucket %d: %w", i, err)}
		}
		normal.Buckets[i], normal.KeyRules[i] = Bucket{ZoneID: b.ZoneID, Key: key}, rule
	}
	return normal, normal.Validate()
}

func (n *Normalizer) reload(ctx context.Context) error {
	zones, err := n.zones.Zones(ctx)
	if err != nil {
		return fmt.Errorf("read key rules: %w", err)
	}
	rules := make(map[int64]KeyRule, len(zones))
	for _, zone := range zones {
		if zone.Keys.withDefaults().Kind != KeyOpaque {
			rules[zone.ID] = zone.Keys
		}
	}
	n.rules.Store(&rules)
	return nil
}
