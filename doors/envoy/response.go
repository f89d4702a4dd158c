package envoy

import (
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"velocityd/handlers/admission"
	"velocityd/service"
)

// response returns the answer to the question. A descriptor that names no zone is not limited, as by Envoy's own
// service.
func (q *question) response(d service.Decision) *ratelimit.RateLimitResponse {
	response := &ratelimit.RateLimitResponse{OverallCode: ratelimit.RateLimitResponse_OK}
	for _, p := range q.parts {
		state := &ratelimit.RateLimitResponse_DescriptorStatus{Code: ratelimit.RateLimitResponse_OK}
		if p.isLimited {
			state = statusOfBucket(p.verdict, d.Degraded && !p.isPeek)
		}
		response.Statuses = append(response.Statuses, state)
	}
	switch {
	case d.Blocked:
		seconds := service.WholeSeconds(d.RetryAfter())
		response.OverallCode = ratelimit.RateLimitResponse_OVER_LIMIT
		response.ResponseHeadersToAdd = []*core.HeaderValue{{Key: "retry-after", Value: strconv.FormatInt(seconds, 10)}}
		response.RawBody = admission.Denial(seconds)
	case d.TxnID() != 0:
		response.RequestHeadersToAdd = []*core.HeaderValue{
			{Key: "x-velocity-txn-id", Value: strconv.FormatUint(d.TxnID(), 10)},
		}
	}
	return response
}

// statusOfBucket returns the status of one descriptor. Without a limit that decided there is no current limit. If the
// window slides and the bucket has room, the time until the limit is whole again is at most the window.
func statusOfBucket(v service.Verdict, isDegraded bool) *ratelimit.RateLimitResponse_DescriptorStatus {
	state := &ratelimit.RateLimitResponse_DescriptorStatus{Code: ratelimit.RateLimitResponse_OK}
	if v.Blocked {
		state.Code = ratelimit.RateLimitResponse_OVER_LIMIT
		state.DurationUntilReset = durationpb.New(v.RetryAfter.Duration)
	}
	if v.Unmetered || isDegraded {
		return state
	}
	state.CurrentLimit = limitOf(v)
	state.LimitRemaining = uint32(max(v.Remaining(), 0))
	switch {
	case v.Blocked:
	case v.ResetAfter.Duration > 0:
		state.DurationUntilReset = durationpb.New(v.ResetAfter.Duration)
	default:
		state.DurationUntilReset = durationpb.New(v.Window.Duration)
	}
	return state
}

// limitOf returns the limit of a verdict in Envoy's units, and otherwise as a multiple of seconds.
func limitOf(v service.Verdict) *ratelimit.RateLimitResponse_RateLimit {
	limit := &ratelimit.RateLimitResponse_RateLimit{RequestsPerUnit: uint32(max(v.Rate, 0))}
	switch v.Window.Duration {
	case time.Second:
		limit.Unit = ratelimit.RateLimitResponse_RateLimit_SECOND
	case time.Minute:
		limit.Unit = ratelimit.RateLimitResponse_RateLimit_MINUTE
	case time.Hour:
		limit.Unit = ratelimit.RateLimitResponse_RateLimit_HOUR
	case 24 * time.Hour:
		limit.Unit = ratelimit.RateLimitResponse_RateLimit_DAY
	default:
		limit.Unit = ratelimit.RateLimitResponse_RateLimit_SECOND
		limit.UnitMultiplier = wrapperspb.UInt32(uint32(service.WholeSeconds(v.Window.Duration)))
	}
	return limit
}
