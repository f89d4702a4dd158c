package envoy_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"velocityd/doors/envoy"
	"velocityd/handlers/gate"
	"velocityd/service"
	"velocityd/service/access"
)

func TestOneRequestIsOneCheckOfAllDescriptors(t *testing.T) {
	t.Parallel()
	conn, _ := dial(t, options(t))
	ask := ratelimit.NewRateLimitServiceClient(conn)
	asked := request(of("zone_1", "alice"), of("generic_key", "x"), of("zone_2", "192.0.2.1"))
	for i, want := range []struct {
		code          ratelimit.RateLimitResponse_Code
		first, second uint32 // remaining
	}{
		{ratelimit.RateLimitResponse_OK, 1, 4},
		{ratelimit.RateLimitResponse_OK, 0, 3},
		{ratelimit.RateLimitResponse_OVER_LIMIT, 0, 3},
		{ratelimit.RateLimitResponse_OVER_LIMIT, 0, 3},
	} {
		got, err := ask.ShouldRateLimit(t.Context(), asked)
		if err != nil {
			t.Fatal(err)
		}
		s := got.GetStatuses()
		if len(s) != 3 || got.GetOverallCode() != want.code || s[0].GetCode() != want.code ||
			s[0].GetLimitRemaining() != want.first ||
			s[1].GetCode() != ratelimit.RateLimitResponse_OK || s[1].GetCurrentLimit() != nil ||
			s[2].GetCode() != ratelimit.RateLimitResponse_OK || s[2].GetLimitRemaining() != want.second {
			t.Fatalf("request %d: %v", i+1, got)
		}
		isBlocked := want.code == ratelimit.RateLimitResponse_OVER_LIMIT
		isTold := len(got.GetResponseHeadersToAdd()) == 1 && len(got.GetRawBody()) > 0
		if isBlocked != isTold || isBlocked == (len(got.GetRequestHeadersToAdd()) == 1) {
			t.Errorf("request %d: headers and body are %v", i+1, got)
		}
		hour, odd := s[0].GetCurrentLimit(), s[2].GetCurrentLimit()
		if hour.GetUnit() != ratelimit.RateLimitResponse_RateLimit_HOUR || hour.GetRequestsPerUnit() != 2 ||
			odd.GetUnit() != ratelimit.RateLimitResponse_RateLimit_SECOND || odd.GetUnitMultiplier().GetValue() != 90 {
			t.Errorf("request %d: the limits are %v and %v", i+1, hour, odd)
		}
		if reset := s[0].GetDurationUntilReset().AsDuration(); reset <= 0 || reset > time.Hour {
			t.Errorf("request %d: %s until reset", i+1, reset)
		}
	}
}

func TestPeekChargesNothingAndFullnessBlocksAllCharges(t *testing.T) {
	t.Parallel()
	conn, _ := dial(t, options(t))
	for i, c := range []struct {
		asked         *ratelimit.RateLimitRequest
		isOver, isTxn bool
		remaining     []uint32
	}{
		{request(peek("zone_1", "alice")), false, false, []uint32{2}},
		{request(peek("zone_1", "ALICE"), of("zone_2", "a")), false, true, []uint32{2, 4}},
		{request(of("zone_1", "alice"), peek("zone_2", "a")), false, true, []uint32{1, 4}},
		{request(of("zone_1", "alice")), false, true, []uint32{0}},
		{request(peek("zone_1", "Alice"), of("zone_2", "a")), true, false, []uint32{0, 4}},
		{request(of("zone_2", "a"), peek("zone_1", "alice"), peek("zone_2", "b")), true, false, []uint32{4, 0, 5}},
		{request(peek("zone_3", "alice"), of("zone_2", "a")), false, true, []uint32{0, 3}},
	} {
		got, err := ratelimit.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), c.asked)
		if err != nil {
			t.Fatal(err)
		}
		var remaining []uint32
		for _, s := range got.GetStatuses() {
			remaining = append(remaining, s.GetLimitRemaining())
		}
		isOver := got.GetOverallCode() == ratelimit.RateLimitResponse_OVER_LIMIT
		isTold := len(got.GetResponseHeadersToAdd()) == 1 && got.GetResponseHeadersToAdd()[0].GetValue() != "0"
		isTxn := len(got.GetRequestHeadersToAdd()) == 1
		if isOver != c.isOver || isTold != isOver || isTxn != c.isTxn || !slices.Equal(remaining, c.remaining) {
			t.Errorf("request %d: %v", i+1, got)
		}
	}
}

func TestGatesFileMapsDomainToBuckets(t *testing.T) {
	t.Parallel()
	o := options(t)
	file, err := gate.Parse(
		[]byte(
			"domains: {login: [{zone: 1, entries: [{key: user}]}, {zone: 2, entries: [{key: user}, {key: path, value: /a}]}]}"))
	if err != nil {
		t.Fatal(err)
	}
	o.Gates = file
	conn, _ := dial(t, o)
	for i, c := range []struct {
		domain  string
		entries []string
		want    uint32 // remaining; 0: it is not limited
	}{
		{"login", []string{"user", "alice"}, 1},
		{"login", []string{"user", "alice", "path", "/a"}, 4},
		{"login", []string{"user", "alice", "path", "/a", "attempt_id", "1"}, 3},
		{"login", []string{"user", "alice", "path", "/a", "attempt_id", "1"}, 3}, // charged once
		{"login", []string{"path", "/b"}, 0},
		{"login", []string{"zone_1", "bob"}, 0},
		{"other", []string{"zone_1", "bob"}, 1},
		{"other", []string{"user", "alice"}, 0},
	} {
		asked := request(of(c.entries...))
		asked.Domain = c.domain
		got, err := ratelimit.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), asked)
		if s := got.GetStatuses(); err != nil || got.GetOverallCode() != ratelimit.RateLimitResponse_OK ||
			s[0].GetLimitRemaining() != c.want ||
			(s[0].GetCurrentLimit() == nil) != (c.want == 0) {
			t.Errorf("request %d: %v %v", i+1, got, err)
		}
	}
	_, err = ratelimit.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), request(of("user", "")))
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("an empty value: %v", err)
	}
}

func TestAQuestionThatIsNoCheckIsRefused(t *testing.T) {
	t.Parallel()
	conn, _ := dial(t, options(t))
	good := func() *common.RateLimitDescriptor { return of("zone_1", "alice") }
	with := func(change func(*common.RateLimitDescriptor)) *ratelimit.RateLimitRequest {
		d := good()
		change(d)
		return request(d)
	}
	for name, c := range map[string]struct {
		request *ratelimit.RateLimitRequest
		want    codes.Code
	}{
		"no domain": {
			&ratelimit.RateLimitRequest{Descriptors: []*common.RateLimitDescriptor{good()}},
			codes.InvalidArgument,
		},
		"no descriptor": {request(), codes.InvalidArgument},
		"two hits": {&ratelimit.RateLimitRequest{
			Domain: "x", HitsAddend: 2,
			Descriptors: []*common.RateLimitDescriptor{good()},
		}, codes.InvalidArgument},
		"two in one": {
			with(func(d *common.RateLimitDescriptor) { d.HitsAddend = wrapperspb.UInt64(2) }),
			codes.InvalidArgument,
		},
		"nine buckets": {
			request(slices.Repeat([]*common.RateLimitDescriptor{good(), peek("zone_2", "x"), good()}, 3)...),
			codes.InvalidArgument,
		},
		"a peek nowhere": {request(peek("zone_7", "x"), good()), codes.NotFound},
		"a peek at none": {request(peek("zone_1", ""), good()), codes.InvalidArgument},
		"negative":       {with(func(d *common.RateLimitDescriptor) { d.IsNegativeHits = true }), codes.InvalidArgument},
		"a limit": {
			with(func(d *common.RateLimitDescriptor) { d.Limit = &common.RateLimitDescriptor_RateLimitOverride{} }),
			codes.InvalidArgument,
		},
		"zone 0":          {request(of("zone_0", "alice")), codes.InvalidArgument},
		"zone x":          {request(of("zone_x", "alice")), codes.InvalidArgument},
		"an entry beside": {request(of("zone_1", "alice", "path", "/")), codes.InvalidArgument},
		"two attempt ids": {
			request(of("zone_1", "a", "attempt_id", "1"), of("zone_2", "b", "attempt_id", "2")),
			codes.InvalidArgument,
		},
		"an empty key": {request(of("zone_1", "")), codes.InvalidArgument},
		"no such zone": {request(of("zone_7", "alice")), codes.NotFound},
	} {
		if _, err := ratelimit.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), c.request); status.Code(
			err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEachKindOfErrorHasItsCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want codes.Code
	}{
		{service.NewBusyError(0, "queue"), codes.Unavailable},
		{service.ErrUndecided, codes.DeadlineExceeded},
		{service.ErrForbidden, codes.Internal},
		{errors.New("anything"), codes.Internal},
		{service.ErrConflict, codes.FailedPrecondition},
	} {
		conn, _ := dial(t, envoy.Options{Limiter: failing{c.err}})
		if _, err := ratelimit.NewRateLimitServiceClient(conn).ShouldRateLimit(
			t.Context(), request(of("zone_1", "alice"))); status.Code(err) != c.want {
			t.Errorf("%v: %v", c.err, err)
		}
	}
}

func TestCallerNeedsTokenWithCheckScopeInZone(t *testing.T) {
	t.Parallel()
	known, admission := closed(t)
	o := options(t)
	o.Admission = admission
	conn, _ := dial(t, o)
	token := func(scopes []access.Scope, zones ...int64) string {
		return "Bearer " + known.AddToken(access.Caller{Name: "envoy", Scopes: scopes, Zones: zones}).Reveal()
	}
	check := []access.Scope{access.ScopeCheck}
	both := append(check, access.ScopePeek)
	charge, look := request(of("zone_1", "alice")), request(of("zone_1", "alice"), peek("zone_1", "bob"))
	for name, c := range map[string]struct {
		authorization string
		asked         *ratelimit.RateLimitRequest
		want          codes.Code
	}{
		"none":             {"", charge, codes.Unauthenticated},
		"unknown":          {"Bearer " + access.NewToken().Reveal(), charge, codes.Unauthenticated},
		"another scope":    {token([]access.Scope{access.ScopeReport}), charge, codes.PermissionDenied},
		"another zone":     {token(check, 2), charge, codes.PermissionDenied},
		"right":            {token(check, 1), charge, codes.OK},
		"a peek by checks": {token(check, 1), look, codes.PermissionDenied},
		"a peek":           {token(both, 1), look, codes.OK},
		"a peek elsewhere": {token(both, 2), request(peek("zone_1", "alice")), codes.PermissionDenied},
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", c.authorization)
		if _, err := ratelimit.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, c.asked); status.Code(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
