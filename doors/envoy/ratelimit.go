package envoy

import (
	"context"
	"errors"
	"fmt"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"velocityd/handlers/admission"
	"velocityd/service"
	"velocityd/service/access"
)

// peekTimeout is the deadline of all peeks of a request.
const peekTimeout = 2 * time.Second

// limits is the Rate Limit Service.
type limits struct {
	ratelimit.UnimplementedRateLimitServiceServer
	*backend
}

// ShouldRateLimit answers one request by one check, which is all or nothing over the descriptors, and by peeks at the
// buckets of those with hits_addend 0. It never answers UNKNOWN. Its errors are statuses of gRPC.
func (l *limits) ShouldRateLimit(
	ctx context.Context, request *ratelimit.RateLimitRequest,
) (*ratelimit.RateLimitResponse, error) {
	c := &call{route: ratelimit.RateLimitService_ShouldRateLimit_FullMethodName, began: time.Now()}
	var response *ratelimit.RateLimitResponse
	err := l.identify(ctx, c)
	if err == nil {
		response, err = l.answer(ctx, c, request)
	}
	l.report(ctx, c, err)
	return response, statusOf(err)
}

func (l *limits) answer(
	ctx context.Context, c *call, request *ratelimit.RateLimitRequest,
) (*ratelimit.RateLimitResponse, error) {
	names := naming(byZone)
	if l.options.Gates != nil {
		if domain, ok := l.options.Gates.Domain(request.GetDomain()); ok {
			names = domain.Bucket
		}
	}
	q, err := questionOf(request, names)
	if err != nil {
		return nil, err
	}
	if err := mayCheck(c.caller, q); err != nil {
		return nil, err
	}
	decision, err := l.decide(ctx, c, q)
	if err != nil {
		return nil, err
	}
	return q.response(decision), nil
}

// mayCheck returns an error unless the caller may ask in all zones of a question. A peek needs the scope that it needs
// over HTTP.
func mayCheck(caller admission.Caller, q *question) error {
	if err := caller.MayCheck(service.Check{Buckets: q.buckets()}); err != nil {
		return err
	}
	if len(caller.Needs) == 0 || len(q.places(true)) == 0 {
		return nil
	}
	caller.Needs = []access.Scope{access.ScopePeek}
	return caller.May()
}

// decide answers the parts of a question. The peeks come first: if a bucket of theirs is full, nothing is charged, and
// the others are looked at, too.
func (l *limits) decide(ctx context.Context, c *call, q *question) (service.Decision, error) {
	charged := q.places(false)
	isFull, err := l.peek(ctx, q, q.places(true))
	if isFull {
		_, err = l.peek(ctx, q, charged)
		decision := service.Decision{Blocked: true}
		for _, p := range q.parts {
			decision.Verdicts = append(decision.Verdicts, p.verdict)
		}
		return decision, err
	}
	if err != nil || len(charged) == 0 {
		return service.Decision{}, err
	}
	check := service.Check{AttemptID: q.attempt}
	for _, i := range charged {
		check.Buckets = append(check.Buckets, q.parts[i].bucket)
	}
	decision, err := l.ask(ctx, c, check)
	for i, verdict := range decision.Verdicts {
		q.parts[charged[i]].verdict = verdict
	}
	return decision, err
}

// peek looks at the buckets of some parts, and reports whether an attempt in one of them would be blocked.
func (l *limits) peek(ctx context.Context, q *question, places []int) (isFull bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, peekTimeout)
	defer cancel()
	for _, i := range places {
		p := &q.parts[i]
		if p.verdict, err = l.look(ctx, p.bucket); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				err = fmt.Errorf("%w: peek at a bucket of zone %d: %w", service.ErrBusy, p.bucket.ZoneID, err)
			}
			return false, err
		}
		isFull = isFull || p.verdict.Blocked
	}
	return isFull, nil
}

// look returns the verdict that an attempt in a bucket would get.
func (l *limits) look(ctx context.Context, bucket service.Bucket) (service.Verdict, error) {
	zone, err := l.options.Buckets.Zone(ctx, bucket.ZoneID)
	if err != nil {
		return service.Verdict{}, fmt.Errorf("zone %d: %w", bucket.ZoneID, err)
	}
	if bucket, err = zone.Keys.Bucket(bucket); err != nil {
		return service.Verdict{}, err
	}
	seen, err := l.options.Buckets.Peek(ctx, bucket)
	return seen.Verdict(), err
}
