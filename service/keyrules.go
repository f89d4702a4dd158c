package service

import (
	"fmt"
	"slices"
)

// keyRules holds the key rules of all zones as they were read. It is never changed, so checks
// can share its slices as their KeyRules.
type keyRules struct {
	opaque []KeyRule           // of as many buckets as a check can have
	byZone map[int64][]KeyRule // one rule each; zones with opaque keys that are kept clear are not here
	hides  bool                // some zone keeps pseudonyms
	known  map[int64]bool      // all zones
}

func newKeyRules(zones []Zone) *keyRules {
	rules := &keyRules{
		opaque: make([]KeyRule, MaxBuckets), byZone: map[int64][]KeyRule{},
		known: make(map[int64]bool, len(zones)),
	}
	for _, zone := range zones {
		rules.known[zone.ID] = true
		if zone.Keys.hides() || zone.Keys.withDefaults().Kind != KeyOpaque {
			rules.byZone[zone.ID] = []KeyRule{zone.Keys}
			rules.hides = rules.hides || zone.Keys.hides()
		}
	}
	return rules
}

// normalize returns a check with normal keys. It returns the check unchanged if r is nil. A
// check with changed keys is validated again, because keys may have become longer.
func (r *keyRules) normalize(check Check) (Check, error) {
	if r == nil {
		return check, nil
	}
	check.KeyRules = r.of(check.Buckets)
	changed := false
	for i, b := range check.Buckets {
		key, err := check.KeyRules[i].Normalize(b.Key)
		switch {
		case err != nil:
			return Check{}, &BucketError{Bucket: i, cause: fmt.Errorf("bucket %d: %w", i, err)}
		case key == b.Key:
			continue
		case !changed:
			check.Buckets, changed = slices.Clone(check.Buckets), true // the others are the caller's
		}
		check.Buckets[i].Key = key
	}
	if !changed {
		return check, nil
	}
	return check, check.Validate()
}

// lacks says that a check names a zone that the rules do not have.
func (r *keyRules) lacks(check Check) bool {
	return slices.ContainsFunc(check.Buckets, func(b Bucket) bool { return !r.known[b.ZoneID] })
}

// of returns the rule of each bucket.
func (r *keyRules) of(buckets []Bucket) []KeyRule {
	all := r.opaque[:len(buckets):len(buckets)]
	for i, b := range buckets {
		rule, ruled := r.byZone[b.ZoneID]
		switch {
		case !ruled:
			continue
		case len(buckets) == 1:
			return rule
		case &all[0] == &r.opaque[0]:
			all = slices.Clone(all)
		}
		all[i] = rule[0]
	}
	return all
}
