//go:build linux

package main

import (
	"reflect"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// The inputs and outputs of a history. Times are in microseconds of the wall clock, by which the engine decides.
type (
	checkIn struct {
		places []int // of the buckets in the state
		of     *attempt
	}
	checkOut struct {
		at      int64
		answers []answer
	}
	changeIn struct {
		kind   string
		places []int
		of     *attempt
		from   int64 // the call, in which it took effect
		until  int64
	}
	changeOut struct {
		isLate bool // refused, because the attempt is a failure by now
		isOpen bool // it may have taken effect or not
	}
)

// bucketState is a bucket in a model.
type bucketState struct {
	zone      zone
	last      int64 // the instant of the newest attempt
	places    []taken
	lockedTo  int64
	lockedFor int64
}

// taken is a place in the window.
type taken struct {
	of   *attempt
	at   int64
	open bool // has no outcome
}

// model is the sequential meaning of the limits, from docs/dba.md: each attempt is decided at its instant by the
// attempts, outcomes and releases before it.
func model(buckets []bucket, zones map[int]zone) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any {
			var state []bucketState
			for _, b := range buckets {
				state = append(state, bucketState{zone: zones[b.Zone]})
			}
			return []any{state}
		},
		Step: func(state, input, output any) []any {
			before := state.([]bucketState) //nolint:errcheck // of Init
			if in, ok := input.(checkIn); ok {
				return check(before, in, output.(checkOut)) //nolint:errcheck // they belong together
			}
			return carryOut(before, input.(changeIn), output.(changeOut)) //nolint:errcheck // they belong together
		},
		Equal: reflect.DeepEqual,
	}
	return m.ToModel()
}

// copied is a state to change.
func copied(state []bucketState) []bucketState {
	next := slices.Clone(state)
	for i := range next {
		next[i].places = slices.Clone(next[i].places)
	}
	return next
}

// check steps by an attempt, if the model answers as the service did. Instants of a bucket never go back.
func check(before []bucketState, in checkIn, out checkOut) []any {
	next := copied(before)
	reasons, isBlocked := make([]string, len(in.places)), false
	for i, place := range in.places {
		if b := &next[place]; out.at < b.last {
			return nil
		}
		reasons[i] = next[place].judge(out.at)
		isBlocked = isBlocked || reasons[i] != ""
	}
	for i, place := range in.places {
		b, told := &next[place], out.answers[i]
		velocity := b.velocity(out.at)
		if !isBlocked {
			velocity++
			b.places = append(b.places, taken{in.of, out.at, true})
		}
		if isBlocked && reasons[i] == "" {
			reasons[i] = "elsewhere"
		}
		if told.Reason != reasons[i] || told.velocity >= 0 && told.velocity != velocity {
			return nil
		}
		if b.last = out.at; reasons[i] == "lockout" {
			b.lock(out.at)
		}
	}
	return []any{next}
}

// velocity is how many places are taken at an instant.
func (b *bucketState) velocity(at int64) (n int) {
	begin := b.zone.begin(time.UnixMicro(at).UTC()).UnixMicro()
	for _, p := range b.places {
		if p.at > begin || b.zone.period != "" && p.at == begin {
			n++
		}
	}
	return min(n, b.zone.rate)
}

// judge returns the reason why there is no room, or "".
func (b *bucketState) judge(at int64) string {
	open := 0
	for _, p := range b.places {
		if p.open && p.at > at-b.zone.ttl.Microseconds() {
			open++
		}
	}
	isFull := b.velocity(at) >= b.zone.rate
	switch {
	case b.lockedTo > at:
		return "locked"
	case isFull && b.zone.lockout > 0:
		return "lockout"
	case isFull:
		return "full"
	case b.zone.concurrent > 0 && open >= b.zone.concurrent:
		return "concurrent"
	}
	return ""
}

// lock begins a lockout, twice as long as one that ended less than the zone's decay ago.
func (b *bucketState) lock(at int64) {
	length := b.zone.lockout.Microseconds()
	if b.lockedFor > 0 && at <= b.lockedTo+b.zone.decay.Microseconds() {
		length = min(2*b.lockedFor, b.zone.lockoutMax.Microseconds())
	}
	b.lockedTo, b.lockedFor = at+length, length
}

// carryOut steps by an outcome or a release. A success of a zone that counts failures is refused after reserve_ttl, and
// nothing else is.
func carryOut(before []bucketState, in changeIn, out changeOut) []any {
	next, mayBeLate, mayBeEarly := copied(before), false, true
	for _, place := range in.places {
		b := &next[place]
		if in.kind == "release" {
			b.places, b.lockedTo, b.lockedFor = nil, 0, 0
			continue
		}
		if b.zone.failures && in.kind == "success" {
			end := in.of.at.Add(b.zone.ttl).UnixMicro()
			mayBeLate, mayBeEarly = mayBeLate || in.until > end, mayBeEarly && in.from <= end
		}
		i := slices.IndexFunc(b.places, func(p taken) bool { return p.of == in.of })
		switch {
		case in.kind == "success" && b.zone.resets:
			b.places = nil
		case i < 0: // given back before, by a reset or a release
		case in.kind == "success" && b.zone.failures:
			b.places = slices.Delete(b.places, i, i+1)
		default:
			b.places[i].open = false
		}
	}
	switch {
	case out.isLate && mayBeLate:
		return []any{before}
	case out.isLate, !mayBeEarly:
		return nil
	case out.isOpen && in.kind == "release":
		return []any{before, next}
	}
	return []any{next}
}
