package db

import (
	"slices"
	"testing"
	"time"

	"velocityd/service"
)

func TestInstantsOfABucketAreGatheredInAnyOrderOfRows(t *testing.T) {
	t.Parallel()
	first, second := service.Bucket{ZoneID: 1, Key: "a"}, service.Bucket{ZoneID: 1, Key: "b"}
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	of := map[service.Bucket][]time.Time{}
	list := instants{of: of}
	for i, bucket := range []service.Bucket{first, first, second, first, second, second} {
		list.add(bucket, at(i))
	}
	list.close()
	if want := []time.Time{at(0), at(1), at(3)}; !slices.Equal(of[first], want) {
		t.Errorf("first bucket has %v, want %v", of[first], want)
	}
	if want := []time.Time{at(2), at(4), at(5)}; !slices.Equal(of[second], want) {
		t.Errorf("second bucket has %v, want %v", of[second], want)
	}
	if len(of) != 2 {
		t.Errorf("%d buckets, want 2", len(of))
	}
}
