package db

import (
	"slices"

	"velocityd/service"
)

// normalise says by which rule keys were normalised: the zones' own, or one that
// some zone had once.
func (l *timeline) normalise(checks []service.Check, stale bool) {
	for i, check := range checks {
		rules := make([]service.KeyRule, len(check.Buckets))
		for j, b := range check.Buckets {
			rules[j] = l.zones[b.ZoneID].Keys
		}
		if stale && l.random.IntN(len(checks)) == 0 {
			rules[0] = service.KeyRule{Kind: service.KeyIP, IPv4Prefix: 8}
		}
		checks[i].KeyRules = rules
	}
}

func (l *timeline) randomCheck() service.Check {
	if len(l.attempts) > 0 && l.random.IntN(3) == 0 {
		retry := pick(l.random, l.attempts...)
		retry.Buckets = slices.Clone(retry.Buckets)
		slices.Reverse(retry.Buckets)
		if l.random.IntN(4) == 0 {
			others := l.randomBuckets()
			if l.twins[0].isSharded { // and knows the attempt where it has the buckets that it had
				others = slices.Compact(slices.SortedFunc(slices.Values(slices.Concat(retry.Buckets, others)), service.Bucket.Compare))
			}
			if len(others) <= service.MaxBuckets {
				retry.Buckets = others
			}
		}
		return retry
	}
	check := service.Check{Buckets: l.randomBuckets()}
	if l.random.IntN(2) == 0 {
		check.SecretHash = pick(l.random, "secret-1", "secret-2", "secret-3")
	}
	if l.random.IntN(3) == 0 {
		l.named++
		check.AttemptID = l.attemptName(l.named)
		l.attempts = append(l.attempts, check)
	}
	return check
}

func (l *timeline) randomBuckets() []service.Bucket {
	var buckets []service.Bucket
	for n := pick(l.random, 1, 1, 1, 2, 3, 5); len(buckets) < n; {
		if more := l.bucket(); !slices.Contains(buckets, more) {
			buckets = append(buckets, more)
		}
	}
	if l.random.IntN(25) == 0 {
		buckets = append(buckets, service.Bucket{ZoneID: 1<<31 - 1, Key: "x"})
	}
	return buckets
}
