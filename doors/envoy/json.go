package envoy

import (
	"context"
	"fmt"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"velocityd/handlers/admission"
)

// JSON answers the Rate Limit Service in JSON, for callers over HTTP. It is made by NewJSON.
type JSON struct{ limits *limits }

// NewJSON returns the answers of the Rate Limit Service with the Limiter, Buckets and Gates of o.
func NewJSON(o Options) JSON { return JSON{&limits{backend: &backend{options: o}}} }

// AnswerJSON returns the answer to a RateLimitRequest in the JSON of protobuf, in the same form, and whether the
// request is over its limit. The caller must have the scope check. AnswerJSON writes the check into logged. The errors
// are those of the Limiter, and one that wraps service.ErrInvalid; they repeat no value of the request.
func (j JSON) AnswerJSON(ctx context.Context, text []byte, caller admission.Caller, logged *admission.Request) (
	answer []byte, isOver bool, err error,
) {
	request := &ratelimit.RateLimitRequest{}
	if protojson.Unmarshal(text, request) != nil { // its error may repeat a part of the text
		return nil, false, invalid(
			"the body must be a RateLimitRequest of envoy.service.ratelimit.v3 in JSON, and have no other members")
	}
	c := &call{caller: caller}
	response, err := j.limits.answer(ctx, c, request)
	*logged = c.logged
	if err != nil {
		return nil, false, err
	}
	if answer, err = protojson.Marshal(response); err != nil {
		return nil, false, fmt.Errorf("encode a RateLimitResponse: %w", err)
	}
	return answer, response.GetOverallCode() == ratelimit.RateLimitResponse_OVER_LIMIT, nil
}
