package envoy

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"velocityd/handlers/admission"
	"velocityd/handlers/gate"
	"velocityd/service"
)

// gateExtension is the context extension of a route that names its gate.
const gateExtension = "gate"

// authorization is the service of Envoy's filter ext_authz. It answers by the gates of the file, as the paths below
// /gate do.
type authorization struct {
	auth.UnimplementedAuthorizationServer
	*backend
}

// Check answers whether a request may pass. The answer to a wrong question is a denial, and no error: Envoy lets
// requests pass at errors where failure_mode_allow is true. The errors are statuses of gRPC: the check could not be
// decided.
func (a *authorization) Check(ctx context.Context, request *auth.CheckRequest) (*auth.CheckResponse, error) {
	c := &call{route: auth.Authorization_Check_FullMethodName, began: time.Now()}
	response, err := a.answer(ctx, c, request.GetAttributes())
	a.report(ctx, c, err)
	if response == nil {
		return nil, statusOf(err)
	}
	return response, nil
}

// answer returns err for the log, too, where there is an answer in spite of it.
func (a *authorization) answer(ctx context.Context, c *call, of *auth.AttributeContext) (*auth.CheckResponse, error) {
	question, err := a.question(ctx, c, of)
	if err != nil { // a wrong question is denied, also where the gate allows attempts while the service is busy
		return unanswered(gate.DefaultAnswer(), err), err
	}
	d, err := a.ask(ctx, c, question.Check)
	if err != nil {
		return unanswered(question.Answer, err), err
	}
	if !d.Blocked {
		return allowed(d, question.Check.AttemptID), nil
	}
	seconds := service.WholeSeconds(d.RetryAfter())
	// Envoy hands all fields of a denial to the end user, so it has none of the limits.
	return denied(codes.ResourceExhausted, "the attempt is blocked", question.Deny, admission.Denial(seconds),
		"retry-after", strconv.FormatInt(seconds, 10)), nil
}

// question returns the question of the gate that the route names. The errors hold no value of the end user.
func (a *authorization) question(ctx context.Context, c *call, of *auth.AttributeContext) (gate.Question, error) {
	if err := a.identify(ctx, c); err != nil {
		return gate.Question{}, err
	}
	var named gate.Gate
	var ok bool
	if a.options.Gates != nil {
		named, ok = a.options.Gates.Gate(of.GetContextExtensions()[gateExtension])
	}
	if !ok {
		return gate.Question{}, fmt.Errorf(
			"%w: the context extension %s of the route must name a gate in the file of --gates",
			service.ErrNotFound, gateExtension)
	}
	question, err := named.Question(a.request(of), true)
	if err != nil {
		return gate.Question{}, err
	}
	return question, c.caller.MayCheck(question.Check)
}

// request returns the end user's request as package gate reads it.
func (a *authorization) request(of *auth.AttributeContext) *gate.Request {
	sent := of.GetRequest().GetHttp()
	header := headerOf(sent)
	_, query, _ := strings.Cut(sent.GetPath(), "?")
	return &gate.Request{
		HTTP: &http.Request{Method: sent.GetMethod(), URL: &url.URL{RawQuery: query}, Header: header},
		Client: func() (netip.Addr, error) {
			// The zero value is not valid.
			peer, _ := netip.ParseAddr(of.GetSource().GetAddress().GetSocketAddress().GetAddress())
			client, ok := a.options.Proxies.Client(peer, header["X-Forwarded-For"], header["Forwarded"])
			if !ok {
				return client, invalid(
					"the source of the request has no address of IP, or X-Forwarded-For and Forwarded lead to different ones")
			}
			return client, nil
		},
		Body: func() ([]byte, error) { return bodyOf(sent) },
	}
}

// headerOf returns the header of a request. Where Envoy has joined fields of one name, they are taken apart: a text
// with a comma may have been one field or two, and a gate refuses two.
func headerOf(sent *auth.AttributeContext_HttpRequest) http.Header {
	header := http.Header{}
	for name, joined := range sent.GetHeaders() {
		for field := range strings.SplitSeq(joined, ",") {
			header.Add(name, strings.TrimSpace(field))
		}
	}
	for _, field := range sent.GetHeaderMap().GetHeaders() {
		value := field.GetValue()
		if raw := field.GetRawValue(); len(raw) > 0 {
			value = string(raw)
		}
		header.Add(field.GetKey(), value)
	}
	return header
}

// bodyOf returns the body of a request. The errors wrap service.ErrInvalid.
func bodyOf(sent *auth.AttributeContext_HttpRequest) ([]byte, error) {
	switch {
	case sent.GetBody() != "":
		return nil, invalid(
			"the body is sent as text, which can not hold each byte that users send: set pack_as_bytes: true in " +
				"with_request_body")
	case len(sent.GetRawBody()) > gate.MaxBody:
		return nil, invalid("the body must be at most %d bytes", gate.MaxBody)
	}
	return sent.GetRawBody(), nil
}

// unanswered returns the answer to a question that is wrong, or whose check could not be decided: then as the gate
// wants it. Nil means that there is none, so that Envoy does as its failure_mode_allow and status_on_error say.
func unanswered(answer gate.Answer, err error) *auth.CheckResponse {
	told := status.Convert(statusOf(err))
	switch {
	case faultOf(err).Kind == admission.Refused:
		return denied(told.Code(), told.Message(), http.StatusBadRequest, nil)
	case answer.Busy == gate.BusyAllows:
		return allowed(service.Decision{}, "")
	case answer.Busy == gate.BusyDenies:
		seconds := service.WholeSeconds(service.RetryAfter(err))
		return denied(told.Code(), told.Message(), answer.Deny, admission.Denial(seconds), "retry-after",
			strconv.FormatInt(seconds, 10))
	}
	return nil
}

// allowed returns the answer that lets a request pass, with the ids of the attempt in place of those that the end user
// may have sent.
func allowed(d service.Decision, attempt string) *auth.CheckResponse {
	txn, passes := "", &auth.OkHttpResponse{}
	if id := d.TxnID(); id != 0 {
		txn = strconv.FormatUint(id, 10)
	}
	for _, pair := range [][2]string{{"x-velocity-txn-id", txn}, {"x-velocity-attempt-id", attempt}} {
		if name, value := pair[0], pair[1]; value == "" {
			passes.HeadersToRemove = append(passes.HeadersToRemove, name)
		} else {
			passes.Headers = append(passes.Headers, field(name, value))
		}
	}
	return &auth.CheckResponse{
		Status: status.New(codes.OK, "").Proto(), HttpResponse: &auth.CheckResponse_OkResponse{OkResponse: passes},
	}
}

// denied returns the answer that denies a request. fields are names and values of the header; those without a value are
// left out.
func denied(code codes.Code, text string, httpStatus int, body []byte, fields ...string) *auth.CheckResponse {
	answer := &auth.DeniedHttpResponse{
		Status: &envoytype.HttpStatus{Code: envoytype.StatusCode(httpStatus)},
		Body:   string(body),
	}
	fields = append(fields, "content-type", "text/plain; charset=utf-8", "cache-control", "no-store")
	for pair := range slices.Chunk(fields, 2) {
		if pair[1] != "" {
			answer.Headers = append(answer.Headers, field(pair[0], pair[1]))
		}
	}
	return &auth.CheckResponse{
		Status: status.New(code, text).Proto(), HttpResponse: &auth.CheckResponse_DeniedResponse{DeniedResponse: answer},
	}
}

// field returns a field of a header that replaces others of its name.
func field(name, value string) *core.HeaderValueOption {
	return &core.HeaderValueOption{
		Header: &core.HeaderValue{Key: name, Value: value}, AppendAction: core.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}
