package api

import (
	"slices"
	"strconv"

	"velocityd/service"
)

// RateLimit returns the values of RateLimit-Policy and RateLimit by draft-ietf-httpapi-ratelimit-headers-11, or ""
// twice if there is nothing to say.
//
// In the draft's terms a zone is a quota policy, named by the zone's id, and a
// bucket is a partition of it. Partition keys are left out, because they would
// have to be made from bucket keys, which must not be in a header. Without them the
// items of two buckets of one zone would look the same. So a zone has one item, that
// of its strictest bucket. The body has every bucket.
//
// A degraded answer has no RateLimit: the rest is unknown. A bucket of which no limit decided is in no item: a caller
// that obeys RateLimit would hold back users that would pass.
func RateLimit(d service.Decision) (policy, limit string) {
	if d.Degraded {
		return "", ""
	}
	strictest := make([]service.Verdict, 0, service.MaxBuckets)
	for _, v := range d.Verdicts {
		if v.Unmetered {
			continue
		}
		i := slices.IndexFunc(strictest, func(s service.Verdict) bool { return s.Bucket.ZoneID == v.Bucket.ZoneID })
		switch {
		case i < 0:
			strictest = append(strictest, v)
		case v.RetryAfter.Duration > strictest[i].RetryAfter.Duration,
			v.RetryAfter == strictest[i].RetryAfter && v.Remaining() < strictest[i].Remaining():
			strictest[i] = v
		}
	}
	if len(strictest) == 0 {
		return "", ""
	}
	text := make([]byte, 0, 256)
	for i, v := range strictest {
		text = appendPolicy(text, i, v)
	}
	policies := len(text)
	for i, v := range strictest {
		text = appendLimit(text, i, v)
	}
	both := string(text) // one allocation for the two
	return both[:policies], both[policies:]
}

// appendPolicy appends a zone's item of RateLimit-Policy: its quota and window. The window of a limit by a period is
// the length of the longest one.
func appendPolicy(text []byte, i int, v service.Verdict) []byte {
	text = appendZone(text, i, v)
	text = strconv.AppendInt(append(text, ";q="...), int64(v.Rate), 10)
	return strconv.AppendInt(append(text, ";w="...), service.WholeSeconds(v.Window.Duration), 10)
}

// appendLimit appends a zone's item of RateLimit: the rest, and the time until there is more: until the bucket has room
// if it is blocked, and otherwise until its period ends. If a window slides there is no such instant.
func appendLimit(text []byte, i int, v service.Verdict) []byte {
	text = appendZone(text, i, v)
	text = strconv.AppendInt(append(text, ";r="...), int64(v.Remaining()), 10)
	until := v.ResetAfter.Duration
	if v.Blocked {
		until = v.RetryAfter.Duration
	}
	if until > 0 {
		text = strconv.AppendInt(append(text, ";t="...), service.WholeSeconds(until), 10)
	}
	return text
}

// appendZone appends the name of item i of a list: the zone's id in quotes.
func appendZone(text []byte, i int, v service.Verdict) []byte {
	if i > 0 {
		text = append(text, ", "...)
	}
	return append(strconv.AppendInt(append(text, '"'), v.Bucket.ZoneID, 10), '"')
}
