package zonereport

import (
	"slices"
	"time"

	"velocityd/service"
)

// Part is a part of a report's time: all instants from Since on and before Until.
type Part struct {
	Since service.Instant `json:"since"`
	Until service.Instant `json:"until"`
}

// Within returns the piece of the part that is between two instants. It may be empty.
func (p Part) Within(since, until time.Time) Part {
	if since.After(p.Since.Time) {
		p.Since.Time = since
	}
	if until.Before(p.Until.Time) {
		p.Until.Time = until
	}
	return p
}

// isEmpty reports whether the part has no instant.
func (p Part) isEmpty() bool { return !p.Since.Before(p.Until.Time) }

// Holds reports whether an instant is in the part.
func (p Part) Holds(at time.Time) bool { return !at.Before(p.Since.Time) && at.Before(p.Until.Time) }

// merged returns parts in order, with those in one that touch each other.
func merged(parts []Part) (all []Part) {
	parts = slices.Clone(parts)
	slices.SortFunc(parts, func(x, y Part) int { return x.Since.Compare(y.Since.Time) })
	for _, part := range parts {
		last := len(all) - 1
		switch {
		case part.isEmpty():
		case last >= 0 && !part.Since.After(all[last].Until.Time):
			all[last] = Part{all[last].Since, service.At(later(all[last].Until.Time, part.Until.Time))}
		default:
			all = append(all, part)
		}
	}
	return all
}

// indexOf returns the index of the one of some parts that holds an instant, or -1.
func indexOf(parts []Part, at time.Time) int {
	i, isBegin := slices.BinarySearchFunc(parts, at, func(p Part, at time.Time) int { return p.Since.Compare(at) })
	if !isBegin {
		i--
	}
	if i < 0 || !parts[i].Holds(at) {
		return -1
	}
	return i
}

func later(x, y time.Time) time.Time {
	if x.After(y) {
		return x
	}
	return y
}
