package servicetest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"velocityd/service"
)

// attempt is what is remembered of a check that had an AttemptID.
type attempt struct {
	decision service.Decision
	expires  time.Time // the first instant at which the id is free again
}

func (m *Memory) remember(check service.Check, d service.Decision) {
	life := service.MinAttemptLife
	for _, v := range d.Verdicts {
		life = max(life, v.Window)
	}
	d.Verdicts = slices.Clone(d.Verdicts)
	m.attempts[check.AttemptID] = attempt{decision: d, expires: d.CheckedAt.Add(life)}
}

// replay answers check as the first one of its attempt was answered, with the
// verdicts in the order of check. It refuses other buckets.
func (a attempt) replay(check service.Check) service.Decision {
	first := make([]service.Bucket, len(a.decision.Verdicts))
	for i, v := range a.decision.Verdicts {
		first[i] = v.Bucket
	}
	if !slices.Equal(sorted(first), sorted(check.Buckets)) {
		return service.Decision{Err: fmt.Errorf("attempt_id was used with other buckets: %w", service.ErrConflict)}
	}
	d := a.decision
	d.Verdicts = make([]service.Verdict, len(check.Buckets))
	for i, b := range check.Buckets {
		d.Verdicts[i] = a.decision.Verdicts[slices.Index(first, b)]
	}
	return d
}

func sorted(buckets []service.Bucket) []service.Bucket {
	return slices.SortedFunc(slices.Values(buckets), func(a, b service.Bucket) int {
		return cmp.Or(cmp.Compare(a.ZoneID, b.ZoneID), cmp.Compare(a.Key, b.Key))
	})
}
