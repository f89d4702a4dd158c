package envoy_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"velocityd/doors/envoy"
	"velocityd/handlers/admission"
	"velocityd/handlers/gate"
	"velocityd/service"
	"velocityd/service/access"
	"velocityd/service/memory"
	"velocityd/tools/servicetest"
)

// failing is a Checker that ends in an error.
type failing struct{ err error }

func (f failing) CheckAll(context.Context, []service.Check) ([]service.Decision, error) {
	return nil, f.err
}

// options returns those of a server with the rules in memory: zone 1 has two attempts an hour, zone 2 five in 90 s, and
// zone 3 in the mode shadow none, all of them for users.
func options(t *testing.T) envoy.Options {
	t.Helper()
	store, names := memory.New(), service.KeyRule{Kind: service.KeyUsername}
	for _, z := range []service.Zone{
		{ID: 1, Rate: 2, Window: time.Hour, Keys: names},
		{ID: 2, Rate: 5, Window: 90 * time.Second},
		{ID: 3, Rate: 0, Window: time.Hour, Mode: service.ModeShadow},
	} {
		store.SetZone(t, z)
	}
	limiter := service.NewLimiter(store, service.LimiterOptions{Zones: store, Timeout: 10 * time.Second})
	return envoy.Options{Limiter: limiter, Buckets: store}
}

// closed returns an admission of callers with a token alone, and the store to add tokens to.
func closed(t *testing.T) (*servicetest.Credentials, admission.Admission) {
	t.Helper()
	known := &servicetest.Credentials{}
	cache := access.NewCache(known, access.Options{})
	t.Cleanup(cache.Close)
	return known, admission.Admission{Callers: cache}
}

// dial starts a server on the loopback, and returns a connection to it.
func dial(t *testing.T, o envoy.Options) (*grpc.ClientConn, *envoy.Server) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return dialOn(t, o, listener, listener.Addr().String())
}

// dialInside is dial without a socket, for a bubble.
func dialInside(t *testing.T, o envoy.Options) (*grpc.ClientConn, *envoy.Server) {
	t.Helper()
	listener := bufconn.Listen(64 << 10)
	dialer := grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) })
	return dialOn(t, o, listener, "passthrough:inside", dialer)
}

func dialOn(
	t *testing.T, o envoy.Options, listener net.Listener, target string, options ...grpc.DialOption,
) (*grpc.ClientConn, *envoy.Server) {
	t.Helper()
	if o.Ready == nil {
		o.Ready = func(context.Context) error { return nil }
	}
	if o.Running == nil {
		o.Running = t.Context()
	}
	server := envoy.New(o)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient(target, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		_ = server.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return conn, server
}

// of returns a descriptor of pairs of keys and values.
func of(pairs ...string) *common.RateLimitDescriptor {
	d := &common.RateLimitDescriptor{}
	for pair := range slices.Chunk(pairs, 2) {
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: pair[0], Value: pair[1]})
	}
	return d
}

func request(descriptors ...*common.RateLimitDescriptor) *ratelimit.RateLimitRequest {
	return &ratelimit.RateLimitRequest{Domain: "login", Descriptors: descriptors}
}

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

// peek returns a descriptor whose bucket is looked at.
func peek(pairs ...string) *common.RateLimitDescriptor {
	d := of(pairs...)
	d.HitsAddend = wrapperspb.UInt64(0)
	return d
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
	file,
		err := gate.Parse(
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

func TestHealthIsReadinessAndWatchersLeaveAtStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var isAway atomic.Bool
		running, stop := context.WithCancel(t.Context())
		o := options(t)
		o.Running, o.Ready = running, func(context.Context) error {
			if isAway.Load() {
				return service.ErrAway
			}
			return nil
		}
		conn, server := dialInside(t, o)
		ask := grpc_health_v1.NewHealthClient(conn)
		is := func(want grpc_health_v1.HealthCheckResponse_ServingStatus) {
			t.Helper()
			for _, name := range []string{
				"", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService",
				"envoy.service.auth.v3.Authorization",
			} {
				if got, err := ask.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name}); err != nil ||
					got.GetStatus() != want {
					t.Errorf("%q: %v %v", name, got, err)
				}
			}
		}
		is(grpc_health_v1.HealthCheckResponse_SERVING)
		watch, err := ask.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := watch.Recv(); err != nil || got.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Fatalf("%v %v", got, err)
		}
		isAway.Store(true)
		is(grpc_health_v1.HealthCheckResponse_NOT_SERVING)
		if got, err := watch.Recv(); err != nil || got.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
			t.Fatalf("%v %v", got, err)
		}
		stop()
		if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("the watcher is told %v", err)
		}
		if _, err := ask.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "x"}); status.Code(
			err) != codes.NotFound {
			t.Errorf("another service: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Errorf("the server does not stop: %v", err)
		}
	})
}

func TestCallsWithoutMessageEndAndFreeTheirPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var isAway atomic.Bool
		o := options(t)
		o.Work, o.Ready = 5*time.Second, func(context.Context) error {
			if isAway.Load() {
				return service.ErrAway
			}
			return nil
		}
		conn, _ := dialInside(t, o)
		watch, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := watch.Recv(); err != nil || got.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Fatalf("%v %v", got, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var silent []grpc.ClientStream
		methods := []string{
			ratelimit.RateLimitService_ShouldRateLimit_FullMethodName, auth.Authorization_Check_FullMethodName,
			grpc_health_v1.Health_Check_FullMethodName, grpc_reflection_v1.ServerReflection_ServerReflectionInfo_FullMethodName,
		}
		for i := range envoy.Streams - 1 {
			stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
				methods[i%len(methods)])
			if err != nil {
				t.Fatal(err)
			}
			silent = append(silent, stream)
		}
		began := time.Now()
		got, err := ratelimit.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, request(of("zone_1", "alice")))
		if err != nil || got.GetOverallCode() != ratelimit.RateLimitResponse_OK || time.Since(began) > 20*time.Second {
			t.Fatalf("a call that waits for a place gets %v, %v after %s", got, err, time.Since(began))
		}
		for i, stream := range silent {
			if err := stream.RecvMsg(new(ratelimit.RateLimitResponse)); status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("%s without a message ends with %v", methods[i%len(methods)], err)
			}
		}
		isAway.Store(true)
		if got, err := watch.Recv(); err != nil || got.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
			t.Errorf("the watcher gets %v, %v", got, err)
		}
	})
}

// FuzzJSON holds that every text is answered in JSON or refused, and that no error repeats it.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"domain":"login","descriptors":[{"entries":[{"key":"zone_1","value":"alice"}]}]}`, "", "[]", `{"domain":1}`,
		`{"domain":"x","descriptors":[{"entries":[{"key":"attempt_id","value":"a"}],"hitsAddend":"0"}],"hitsAddend":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		noted, asked := make(noting, 1), admission.Asked{}
		door := envoy.NewJSON(envoy.Options{Limiter: noted, Buckets: memory.New()})
		answer, _, err := door.AnswerJSON(t.Context(), text, admission.Asker{}, &asked)
		if (err == nil) != json.Valid(answer) || err != nil && !errors.Is(err, service.ErrInvalid) &&
			!errors.Is(err, service.ErrNotFound) {
			t.Fatalf("%q: %q %v", text, answer, err)
		}
		if err != nil && len(text) > 50 && strings.Contains(err.Error(), string(text)) {
			t.Fatalf("the error repeats the text: %v", err)
		}
	})
}
