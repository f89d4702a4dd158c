package timeline

import (
	"errors"
	"testing"

	"velocityd/service"
)

func (l *timeline) compare(t *testing.T, check service.Check, got, want service.Decision) {
	t.Helper()
	for _, kind := range []error{service.ErrInvalid, service.ErrNotFound, service.ErrConflict} {
		if errors.Is(got.Err, kind) != errors.Is(want.Err, kind) {
			t.Errorf("check %+v:\n got %+v\nwant %+v", check, got, want)
			return
		}
	}
	sameTime := got.CheckedAt.Equal(want.CheckedAt.Time) || l.hasAged[check.AttemptID]
	if got.Blocked != want.Blocked || got.WouldBlock != want.WouldBlock || !sameTime ||
		len(got.Verdicts) != len(want.Verdicts) {
		t.Errorf("check %+v:\n got %+v\nwant %+v", check, got, want)
		return
	}
	for i := range want.Verdicts {
		mine := got.Verdicts[i].TxnID
		if _, known := l.ids[mine]; !known {
			l.ids[mine] = want.Verdicts[i].TxnID
		}
		theirs := got.Verdicts[i]
		theirs.TxnID = l.ids[mine]
		theirs.OverrideID = l.deny(theirs.OverrideID, want.Verdicts[i].OverrideID)
		if theirs != want.Verdicts[i] {
			t.Errorf("check %+v, bucket %d:\n got %+v\nwant %+v\nzone %+v", check, i, theirs, want.Verdicts[i],
				l.zones[theirs.Bucket.ZoneID])
		}
	}
}

func at(zone int64, key string) service.Bucket { return service.Bucket{ZoneID: zone, Key: key} }

func one(zone int64, key string) service.Check {
	return service.Check{Buckets: []service.Bucket{at(zone, key)}}
}
