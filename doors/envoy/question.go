package envoy

import (
	"fmt"
	"strconv"
	"strings"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"velocityd/handlers/gate"
	"velocityd/service"
)

// zonePrefix begins the key of an entry that names a zone, in a domain that the file of gates does not have.
const zonePrefix = "zone_"

// question is a request as a check and peeks.
type question struct {
	attempt string
	parts   []part // one for each descriptor
}

// part is the question of one descriptor, and its answer.
type part struct {
	bucket    service.Bucket
	isLimited bool // without it the descriptor names no bucket
	isPeek    bool // the bucket is looked at, and not charged
	verdict   service.Verdict
}

// naming returns the bucket that the entries of a descriptor name, if they name one.
type naming func(entries []gate.Entry) (bucket service.Bucket, ok bool, err error)

// questionOf returns the question of a request. The errors wrap service.ErrInvalid and repeat no value of an entry.
func questionOf(request *ratelimit.RateLimitRequest, names naming) (*question, error) {
	q := &question{}
	switch {
	case request.GetDomain() == "":
		return q, invalid("the domain must not be empty")
	case len(request.GetDescriptors()) == 0:
		return q, invalid("there must be a descriptor")
	case request.GetHitsAddend() > 1:
		return q, errHits()
	}
	for i, descriptor := range request.GetDescriptors() {
		if err := q.add(descriptor, names); err != nil {
			return q, fmt.Errorf("descriptor %d: %w", i+1, err)
		}
	}
	if n := len(q.buckets()); n > service.MaxBuckets {
		return q, invalid("the descriptors name %d buckets, and may name %d", n, service.MaxBuckets)
	}
	return q, nil
}

// add adds a descriptor to the question.
func (q *question) add(descriptor *common.RateLimitDescriptor, names naming) (err error) {
	hits := descriptor.GetHitsAddend()
	switch {
	case descriptor.GetIsNegativeHits() || hits.GetValue() > 1:
		return errHits()
	case descriptor.GetLimit() != nil:
		return invalid("it has a limit, and the limit is that of the zone: use an override of the zone")
	}
	var entries []gate.Entry
	for _, entry := range descriptor.GetEntries() {
		switch {
		case entry.GetKey() != gate.AttemptEntry:
			entries = append(entries, gate.Entry{Key: entry.GetKey(), Value: entry.GetValue()})
		case entry.GetValue() == "" || q.attempt != "" && q.attempt != entry.GetValue():
			return invalid("%s is empty, or another one than in a descriptor before", gate.AttemptEntry)
		default:
			q.attempt = entry.GetValue()
		}
	}
	p := part{isPeek: hits != nil && hits.GetValue() == 0}
	p.bucket, p.isLimited, err = names(entries)
	q.parts = append(q.parts, p)
	return err
}

// byZone names the bucket of a descriptor with the one entry zone_N: its value is the key.
func byZone(entries []gate.Entry) (bucket service.Bucket, ok bool, err error) {
	for _, entry := range entries {
		digits, isZone := strings.CutPrefix(entry.Key, zonePrefix)
		if !isZone {
			continue
		}
		id, err := strconv.ParseInt(digits, 10, 32)
		if err != nil || id < 1 || len(entries) > 1 {
			return bucket, false, invalid("an entry %sN names a zone by its number, and is the only entry besides %s",
				zonePrefix, gate.AttemptEntry)
		}
		bucket, ok = service.Bucket{ZoneID: id, Key: entry.Value}, true
	}
	return bucket, ok, nil
}

func errHits() error {
	return invalid("hits_addend must be 1 or left out, because a check is one attempt: ask once for each; that of a " +
		"descriptor can be 0, too: its bucket is looked at, and not charged")
}

func invalid(text string, args ...any) error {
	return fmt.Errorf("%w: "+text, append([]any{service.ErrInvalid}, args...)...)
}

// places returns the places of the parts that name a bucket and are peeks, or are not.
func (q *question) places(isPeek bool) (places []int) {
	for i, p := range q.parts {
		if p.isLimited && p.isPeek == isPeek {
			places = append(places, i)
		}
	}
	return places
}

// buckets returns all buckets of the question.
func (q *question) buckets() (buckets []service.Bucket) {
	for _, p := range q.parts {
		if p.isLimited {
			buckets = append(buckets, p.bucket)
		}
	}
	return buckets
}
