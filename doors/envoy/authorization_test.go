package envoy_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"velocityd/doors/envoy"
	"velocityd/handlers/admission"
	"velocityd/handlers/gate"
	"velocityd/service"
	"velocityd/service/access"
)

// noting is a Checker that allows the checks of a channel's room, and puts them there.
type noting chan service.Check

func (n noting) CheckAll(_ context.Context, checks []service.Check) ([]service.Decision, error) {
	n <- checks[0]
	return []service.Decision{{Verdicts: make([]service.Verdict, len(checks[0].Buckets))}}, nil
}

// gates returns the gates of a file.
func gates(tb testing.TB, text string) gate.File {
	tb.Helper()
	file, err := gate.Parse([]byte("gates: {" + text + "}"))
	if err != nil {
		tb.Fatal(err)
	}
	return file
}

// asked returns a login at a gate, from 192.0.2.7. headers are as Envoy sends them with encode_raw_headers.
func asked(name, path, body string, headers ...string) *auth.CheckRequest {
	sent := &auth.AttributeContext_HttpRequest{
		Method: "POST", Path: path, RawBody: []byte(body),
		HeaderMap: &core.HeaderMap{},
	}
	for pair := range slices.Chunk(headers, 2) {
		sent.HeaderMap.Headers = append(sent.HeaderMap.Headers, &core.HeaderValue{Key: pair[0], RawValue: []byte(pair[1])})
	}
	return &auth.CheckRequest{Attributes: &auth.AttributeContext{
		Source: from("192.0.2.7"), Request: &auth.AttributeContext_Request{Http: sent},
		ContextExtensions: map[string]string{"gate": name},
	}}
}

func from(address string) *auth.AttributeContext_Peer {
	socket := &core.SocketAddress{Address: address, PortSpecifier: &core.SocketAddress_PortValue{PortValue: 4711}}
	return &auth.AttributeContext_Peer{Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: socket}}}
}

// joined returns a request as Envoy sends it without encode_raw_headers: fields of one name are one text.
func joined(r *auth.CheckRequest) *auth.CheckRequest {
	r = proto.CloneOf(r)
	sent := r.GetAttributes().GetRequest().GetHttp()
	sent.Headers = map[string]string{}
	for _, f := range sent.GetHeaderMap().GetHeaders() {
		if prior, ok := sent.GetHeaders()[f.GetKey()]; ok {
			f.RawValue = append([]byte(prior+","), f.GetRawValue()...)
		}
		sent.Headers[f.GetKey()] = string(f.GetRawValue())
	}
	sent.HeaderMap = nil
	return r
}

const (
	ofForm = "application/x-www-form-urlencoded"
	form   = "form: {buckets: [{zone: 1, key: {form: user}}, {zone: 2, key: {client: address}}], attempt: {header: " +
		"x-request-id}}"
	others = "json: {buckets: [{zone: 1, key: {json: /user}}]}, basic: {buckets: [{zone: 1, key: {basic: user}}]}, " +
		"header: {buckets: [{zone: 1, key: {header: x-user}}]}, query: {buckets: [{zone: 1, key: {query: user}}]}"
)

func TestGateReadsTheRequestEnvoyDescribes(t *testing.T) {
	t.Parallel()
	noted := make(noting, 1)
	conn, _ := dial(t, envoy.Options{
		Limiter: noted, Gates: gates(t, form+", "+others), Proxies: admission.Proxies{netip.MustParsePrefix("10.0.0.0/8")},
	})
	behind := asked("form", "/login", "user=alice", "x-forwarded-for", "203.0.113.9, 198.51.100.4", "content-type", ofForm)
	behind.GetAttributes().Source = from("10.1.2.3")
	for name, c := range map[string]struct {
		request *auth.CheckRequest
		want    string
	}{
		"a form": {
			asked("form", "/login?next=%2F", "user=al%69ce&password=x", "content-type", ofForm, "x-request-id", "one",
				"x-forwarded-for", "203.0.113.9"),
			"[{1 alice} {2 192.0.2.7}] one",
		},
		"behind a proxy": {behind, "[{1 alice} {2 198.51.100.4}] "},
		"JSON":           {asked("json", "/", `{"user":"alice"}`), "[{1 alice}] "},
		"Basic":          {asked("basic", "/", "", "authorization", "Basic YWxpY2U6c2VjcmV0"), "[{1 alice}] "},
		"a header":       {asked("header", "/", "", "x-user", "alice"), "[{1 alice}] "},
		"the query":      {asked("query", "/?user=alice", ""), "[{1 alice}] "},
	} {
		for how, r := range map[string]*auth.CheckRequest{"raw": c.request, "joined": joined(c.request)} {
			got, err := auth.NewAuthorizationClient(conn).Check(t.Context(), r)
			if err != nil || got.GetStatus().GetCode() != 0 {
				t.Errorf("%s, %s: %v %v", name, how, got, err)
				continue
			}
			if check := <-noted; fmt.Sprint(check.Buckets, " ", check.AttemptID) != c.want {
				t.Errorf("%s, %s: asked %v %s, want %s", name, how, check.Buckets, check.AttemptID, c.want)
			}
		}
	}
}

func codeOf(r *auth.CheckResponse) codes.Code { return codes.Code(r.GetStatus().GetCode()) }

// fieldsOf returns the fields of an answer's header, each of which replaces others.
func fieldsOf(t *testing.T, list []*core.HeaderValueOption) map[string]string {
	t.Helper()
	fields := map[string]string{}
	for _, f := range list {
		if f.GetAppendAction() != core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD {
			t.Errorf("%s is added to the client's", f.GetHeader().GetKey())
		}
		fields[f.GetHeader().GetKey()] = f.GetHeader().GetValue()
	}
	return fields
}

func TestGatePassesRateAndDeniesRestPerFile(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Gates = gates(t, strings.TrimSuffix(form, "}")+", deny: 429}")
	conn, _ := dial(t, o)
	for i := range 2 {
		id := fmt.Sprint("id", i)
		got, err := auth.NewAuthorizationClient(conn).Check(t.Context(), asked("form", "/", "user=alice", "x-request-id", id))
		fields := fieldsOf(t, got.GetOkResponse().GetHeaders())
		if err != nil || got.GetStatus().GetCode() != 0 || len(fields) != 2 || fields["x-velocity-txn-id"] == "" ||
			fields["x-velocity-attempt-id"] != id || len(got.GetOkResponse().GetHeadersToRemove()) > 0 {
			t.Errorf("login %d: %v %v", i+1, got, err)
		}
	}
	got, err := auth.NewAuthorizationClient(conn).Check(t.Context(), asked("form", "/?deny=401", "user=alice"))
	denied := got.GetDeniedResponse()
	fields := fieldsOf(t, denied.GetHeaders())
	if err != nil || codeOf(got) != codes.ResourceExhausted || denied.GetStatus().GetCode() != 429 ||
		denied.GetBody() != "Too many attempts. Try again in "+fields["retry-after"]+" seconds.\n" ||
		fields["ratelimit-policy"] != "" || fields["ratelimit"] != "" ||
		fields["cache-control"] != "no-store" || !strings.HasPrefix(fields["content-type"], "text/plain") {
		t.Errorf("beyond the rate: %v %v", got, err)
	}
}

func TestWrongQuestionIsDeniedWithoutError(t *testing.T) {
	t.Parallel()
	known, admission := closed(t)
	o := options(t)
	o.Admission = admission
	o.Gates = gates(t, form+", "+others+", nowhere: {buckets: [{zone: 7, key: {client: address}}], busy: allow}")
	conn, _ := dial(t, o)
	token := func(scope access.Scope) string {
		return known.AddToken(access.Caller{Name: "envoy", Scopes: []access.Scope{scope}, Zones: []int64{1, 2, 7}}).Reveal()
	}
	right, long := token(access.ScopeCheck), strings.Repeat("x", 50<<10)
	changed := func(change func(*auth.AttributeContext)) *auth.CheckRequest {
		r := asked("form", "/", "user=alice")
		change(r.GetAttributes())
		return r
	}
	for name, c := range map[string]struct {
		request *auth.CheckRequest
		token   string
		want    codes.Code
	}{
		"nothing":      {&auth.CheckRequest{}, right, codes.NotFound},
		"no gate":      {changed(func(a *auth.AttributeContext) { a.ContextExtensions = nil }), right, codes.NotFound},
		"another gate": {asked("other", "/", ""), right, codes.NotFound},
		"no such zone": {asked("nowhere", "/", ""), right, codes.NotFound},
		"no key":       {asked("form", "/", "password=x"), right, codes.InvalidArgument},
		"two keys":     {asked("form", "/", "user=alice&user=bob"), right, codes.InvalidArgument},
		"two headers":  {asked("header", "/", "", "x-user", "alice", "x-user", "bob"), right, codes.InvalidArgument},
		"two joined": {
			joined(asked("header", "/", "", "x-user", "alice", "x-user", "bob")), right,
			codes.InvalidArgument,
		},
		"a key in the query": {asked("form", "/?user=bob", "user=alice"), right, codes.InvalidArgument},
		"a part of the body": {
			asked("form", "/", "user=alice", "x-envoy-auth-partial-body", "true"), right,
			codes.InvalidArgument,
		},
		"a long body": {
			asked("form", "/", "user=alice&x="+strings.Repeat("x", gate.MaxBody)), right,
			codes.InvalidArgument,
		},
		"long headers": {
			asked("form", "/", "user=alice", "x", long, "x-request-id", long), right,
			codes.InvalidArgument,
		},
		"no source": {changed(func(a *auth.AttributeContext) { a.Source = nil }), right, codes.InvalidArgument},
		"a source of no IP": {
			changed(func(a *auth.AttributeContext) { a.Source = from("@internal") }), right,
			codes.InvalidArgument,
		},
		"no token":            {asked("form", "/", "user=alice"), "", codes.Unauthenticated},
		"a token that is old": {asked("form", "/", "user=alice"), access.NewToken().Reveal(), codes.Unauthenticated},
		"another scope":       {asked("form", "/", "user=alice"), token(access.ScopeReport), codes.PermissionDenied},
	} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+c.token)
		got, err := auth.NewAuthorizationClient(conn).Check(ctx, c.request)
		if err != nil || codeOf(got) != c.want || got.GetDeniedResponse().GetStatus().GetCode() != 400 ||
			got.GetStatus().GetMessage() == "" || strings.Contains(got.GetStatus().GetMessage(), "alice") {
			t.Errorf("%s: %v %v, want %s", name, got, err, c.want)
		}
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+right)
	text := changed(func(a *auth.AttributeContext) { a.Request.Http.Body, a.Request.Http.RawBody = "user=alice", nil })
	got, err := auth.NewAuthorizationClient(conn).Check(ctx, text)
	if err != nil || got.GetOkResponse() != nil || !strings.Contains(got.GetStatus().GetMessage(), "pack_as_bytes: true") {
		t.Errorf("the body as text: %v %v", got, err)
	}
	if got, err := auth.NewAuthorizationClient(conn).Check(ctx, asked("form", "/", "user=alice")); err != nil ||
		got.GetOkResponse() == nil {
		t.Errorf("the right question: %v %v", got, err)
	}
}

func TestUndecidedGateAnswersAsItsFileSays(t *testing.T) {
	t.Parallel()
	bucket := "{buckets: [{zone: 1, key: {client: address}}], deny: 401"
	file := gates(t, "fails: "+bucket+"}, lets: "+bucket+", busy: allow}, denies: "+bucket+", busy: deny}")
	for _, cause := range []struct {
		err  error
		want codes.Code
	}{
		{service.NewBusyError(3e9, "queue"), codes.Unavailable},
		{service.ErrUndecided, codes.DeadlineExceeded},
		{service.ErrForbidden, codes.Internal},
	} {
		conn, _ := dial(t, envoy.Options{Limiter: failing{cause.err}, Gates: file})
		ask := func(name string) (*auth.CheckResponse, error) {
			return auth.NewAuthorizationClient(conn).Check(t.Context(), asked(name, "/", ""))
		}
		if got, err := ask("fails"); status.Code(err) != cause.want {
			t.Errorf("%v: %v %v", cause.err, got, err)
		}
		got, err := ask("lets")
		removed := got.GetOkResponse().GetHeadersToRemove()
		if err != nil || got.GetOkResponse() == nil ||
			!slices.Equal(removed, []string{"x-velocity-txn-id", "x-velocity-attempt-id"}) {
			t.Errorf("%v, busy: allow: %v %v", cause.err, got, err)
		}
		got, err = ask("denies")
		fields := fieldsOf(t, got.GetDeniedResponse().GetHeaders())
		if err != nil || codeOf(got) != cause.want || got.GetDeniedResponse().GetStatus().GetCode() != 401 ||
			fields["retry-after"] != map[bool]string{true: "3", false: "1"}[cause.want == codes.Unavailable] {
			t.Errorf("%v, busy: deny: %v %v", cause.err, got, err)
		}
	}
	_, admission := closed(t)
	conn, _ := dial(t, envoy.Options{Limiter: make(noting, 1), Gates: file, Admission: admission})
	if got, err := auth.NewAuthorizationClient(conn).Check(t.Context(), asked("lets", "/", "")); err != nil ||
		got.GetDeniedResponse() == nil {
		t.Errorf("busy: allow, for an unknown caller: %v %v", got, err)
	}
}

// FuzzCheck holds that every request that Envoy can tell of is answered, and that one that passes has a key in each
// bucket.
func FuzzCheck(f *testing.F) {
	for _, r := range []*auth.CheckRequest{
		asked("form", "/?a=b", "user=alice", "x-request-id", "1"),
		joined(asked("basic", "/", "", "authorization", "Basic YTpi")),
		{},
		asked("json", "", "{}"),
	} {
		text, err := proto.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	noted := make(noting, 1)
	file := gates(f, form+", "+others)
	f.Fuzz(func(t *testing.T, text []byte) {
		r := &auth.CheckRequest{}
		if proto.Unmarshal(text, r) != nil {
			return
		}
		got, err := envoy.Check(t.Context(), envoy.Options{Limiter: noted, Gates: file}, r)
		if err != nil || (got.GetOkResponse() == nil) == (got.GetDeniedResponse() == nil) {
			t.Fatalf("%v: %v %v", r, got, err)
		}
		if got.GetOkResponse() == nil {
			return
		}
		check := <-noted
		named, _ := file.Gate(r.GetAttributes().GetContextExtensions()["gate"])
		hasNoKey := func(b service.Bucket) bool { return b.Key == "" }
		if len(check.Buckets) != len(named.Buckets) || slices.ContainsFunc(check.Buckets, hasNoKey) {
			t.Fatalf("%v passes with %v", r, check)
		}
	})
}
