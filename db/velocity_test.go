package db

import (
	"slices"
	"testing"
	"time"

	"velocityd/service"
)

func TestInstantsOfABucketAreGatheredInAnyOrderOfRows(t *testing.T) {
	t.Parallel()
	const first, second = 0, 1
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	of := make([]service.BucketState, 3)
	list := instants{of: of}
	for i, place := range []int{first, first, second, first, second, second} {
		list.add(place, at(i))
	}
	list.close()
	if want := []time.Time{at(0), at(1), at(3)}; !slices.Equal(of[first].Counted, want) {
		t.Errorf("first bucket has %v, want %v", of[first].Counted, want)
	}
	if want := []time.Time{at(2), at(4), at(5)}; !slices.Equal(of[second].Counted, want) {
		t.Errorf("second bucket has %v, want %v", of[second].Counted, want)
	}
	if of[2].Counted != nil {
		t.Errorf("another bucket has %v", of[2].Counted)
	}
}
