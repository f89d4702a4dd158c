package envoy

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"velocityd/front"
	"velocityd/service"
	"velocityd/service/access"
)

const (
	// zonePrefix begins the key of an entry that names a zone.
	zonePrefix = "zone_"
	// attemptEntry is the key of the entry with the attempt id.
	attemptEntry = "attempt_id"
)

// limits is the Rate Limit Service.
type limits struct {
	ratelimit.UnimplementedRateLimitServiceServer
	options Options
	faults  *front.FaultLog
}

// ShouldRateLimit answers one request by one check, which is all or nothing over the descriptors. It never answers UNKNOWN. Its
// errors are statuses of gRPC.
func (l *limits) ShouldRateLimit(ctx context.Context, request *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	asked := front.Asked{}
	response, err := l.answer(ctx, request, &asked)
	for _, fault := range asked.Faults(err, faultOf) {
		if fault.Kind == front.None {
			continue
		}
		fault.Method, fault.Route = "gRPC", ratelimit.RateLimitService_ShouldRateLimit_FullMethodName
		l.faults.Report(ctx, fault, asked.ZoneIDs(), func() []slog.Attr {
			return asked.AppendAttrs([]slog.Attr{slog.String("route", fault.Route)})
		})
	}
	return response, statusOf(err)
}

func (l *limits) answer(
	ctx context.Context, request *ratelimit.RateLimitRequest, asked *front.Asked,
) (*ratelimit.RateLimitResponse, error) {
	caller, err := l.caller(ctx)
	if err != nil {
		return nil, err
	}
	q, err := questionOf(request)
	if err != nil {
		return nil, err
	}
	if len(q.check.Buckets) == 0 {
		return q.response(service.Decision{}), nil
	}
	if err := caller.MayAsk(q.check); err != nil {
		return nil, err
	}
	asked.Checks = []service.Check{q.check}
	asked.Decisions, err = l.options.Limiter.CheckAll(ctx, asked.Checks)
	if err == nil {
		err = asked.Decisions[0].Err
	}
	if err != nil {
		return nil, err
	}
	return q.response(asked.Decisions[0]), nil
}

// caller finds out who calls, and whether he may ask for checks.
func (l *limits) caller(ctx context.Context) (front.Asker, error) {
	asker := front.Asker{}
	if l.options.Admission.IsOpen() {
		return asker, nil
	}
	asker.Needs = []access.Scope{access.ScopeCheck}
	digest, given := credentialIn(ctx)
	var err error
	if asker.Caller, err = l.options.Admission.Identify(ctx, digest, given); err != nil {
		return asker, err
	}
	return asker, asker.May()
}

// question is a request as a check.
type question struct {
	check  service.Check
	places []int // for each descriptor its bucket in the check, or -1 for one that names no zone
}

// questionOf returns the question of a request. The errors wrap service.ErrInvalid and repeat no value of an entry.
func questionOf(request *ratelimit.RateLimitRequest) (question, error) {
	q := question{}
	switch {
	case request.GetDomain() == "":
		return q, invalid("the domain must not be empty")
	case len(request.GetDescriptors()) == 0:
		return q, invalid("there must be a descriptor")
	case request.GetHitsAddend() > 1:
		return q, invalid("hits_addend must be 1 or left out, because a check is one attempt: ask once for each")
	}
	for i, descriptor := range request.GetDescriptors() {
		if err := q.add(descriptor); err != nil {
			return q, fmt.Errorf("descriptor %d: %w", i+1, err)
		}
	}
	return q, nil
}

// add adds a descriptor to the question.
func (q *question) add(descriptor *common.RateLimitDescriptor) error {
	switch hits := descriptor.GetHitsAddend(); {
	case descriptor.GetIsNegativeHits() || hits != nil && hits.GetValue() != 1:
		return invalid("hits_addend must be 1 or left out, because a check is one attempt: ask once for each")
	case descriptor.GetLimit() != nil:
		return invalid("it has a limit, and the limit is that of the zone: use an override of the zone")
	}
	var entries []*common.RateLimitDescriptor_Entry
	for _, entry := range descriptor.GetEntries() {
		switch {
		case entry.GetKey() != attemptEntry:
			entries = append(entries, entry)
		case entry.GetValue() == "" || q.check.AttemptID != "" && q.check.AttemptID != entry.GetValue():
			return invalid("%s is empty, or another one than in a descriptor before", attemptEntry)
		default:
			q.check.AttemptID = entry.GetValue()
		}
	}
	place := -1
	for _, entry := range entries {
		digits, ok := strings.CutPrefix(entry.GetKey(), zonePrefix)
		if !ok {
			continue
		}
		id, err := strconv.ParseInt(digits, 10, 32)
		if err != nil || id < 1 || len(entries) > 1 {
			return invalid("an entry %sN names a zone by its number, and is the only entry besides %s", zonePrefix, attemptEntry)
		}
		place = len(q.check.Buckets)
		q.check.Buckets = append(q.check.Buckets, service.Bucket{ZoneID: id, Key: entry.GetValue()})
	}
	q.places = append(q.places, place)
	return nil
}

func invalid(text string, args ...any) error {
	return fmt.Errorf("%w: "+text, append([]any{service.ErrInvalid}, args...)...)
}

// response returns the answer to the question. A descriptor that names no zone is not limited, as by Envoy's own service.
func (q question) response(d service.Decision) *ratelimit.RateLimitResponse {
	response := &ratelimit.RateLimitResponse{OverallCode: ratelimit.RateLimitResponse_OK}
	for _, place := range q.places {
		state := &ratelimit.RateLimitResponse_DescriptorStatus{Code: ratelimit.RateLimitResponse_OK}
		if place >= 0 {
			state = statusOfBucket(d.Verdicts[place], d.Degraded)
		}
		response.Statuses = append(response.Statuses, state)
	}
	switch {
	case d.Blocked:
		seconds := service.WholeSeconds(d.RetryAfter())
		response.OverallCode = ratelimit.RateLimitResponse_OVER_LIMIT
		response.ResponseHeadersToAdd = []*core.HeaderValue{{Key: "retry-after", Value: strconv.FormatInt(seconds, 10)}}
		response.RawBody = front.Denial(seconds)
	case d.TxnID() != 0:
		response.RequestHeadersToAdd = []*core.HeaderValue{{Key: "x-velocity-txn-id", Value: strconv.FormatUint(d.TxnID(), 10)}}
	}
	return response
}

// statusOfBucket returns the status of one descriptor. Without a limit that decided there is no current limit. If the window slides
// and the bucket has room, the time until the limit is whole again is at most the window.
func statusOfBucket(v service.Verdict, isDegraded bool) *ratelimit.RateLimitResponse_DescriptorStatus {
	state := &ratelimit.RateLimitResponse_DescriptorStatus{Code: ratelimit.RateLimitResponse_OK}
	if v.Blocked {
		state.Code = ratelimit.RateLimitResponse_OVER_LIMIT
		state.DurationUntilReset = durationpb.New(v.RetryAfter)
	}
	if v.Unmetered || isDegraded {
		return state
	}
	state.CurrentLimit = limitOf(v)
	state.LimitRemaining = uint32(max(v.Remaining(), 0))
	switch {
	case v.Blocked:
	case v.ResetAfter > 0:
		state.DurationUntilReset = durationpb.New(v.ResetAfter)
	default:
		state.DurationUntilReset = durationpb.New(v.Window)
	}
	return state
}

// limitOf returns the limit of a verdict in Envoy's units, and otherwise as a multiple of seconds.
func limitOf(v service.Verdict) *ratelimit.RateLimitResponse_RateLimit {
	limit := &ratelimit.RateLimitResponse_RateLimit{RequestsPerUnit: uint32(max(v.Rate, 0))}
	switch v.Window {
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
		limit.UnitMultiplier = wrapperspb.UInt32(uint32(service.WholeSeconds(v.Window)))
	}
	return limit
}
