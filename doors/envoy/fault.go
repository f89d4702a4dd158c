package envoy

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"velocityd/api"
	"velocityd/handlers/admission"
	"velocityd/service"
	"velocityd/service/access"
)

// codeOf returns the code of gRPC for a kind of error, by its status of HTTP (google/rpc/code.proto).
func codeOf(kind api.Kind) codes.Code {
	if errors.Is(kind.Err, service.ErrForbidden) { // of the service's account at the database
		return codes.Internal
	}
	switch kind.Status {
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusNotFound:
		return codes.NotFound
	case http.StatusConflict:
		return codes.FailedPrecondition
	case http.StatusServiceUnavailable:
		return codes.Unavailable
	case http.StatusGatewayTimeout:
		return codes.DeadlineExceeded
	}
	if kind.Status < http.StatusInternalServerError {
		return codes.InvalidArgument
	}
	return codes.Internal
}

// statusOf returns the status of gRPC of an error; nil stays nil. It has the text that HTTP callers get.
func statusOf(err error) error {
	if err == nil {
		return nil
	}
	kind, _ := api.KindOf(err)
	text := cmp.Or(kind.Detail, strings.Replace(err.Error(), kind.Err.Error()+": ", "", 1))
	return status.Error(codeOf(kind), text)
}

// faultOf returns the fault that an error is for the log.
func faultOf(err error) admission.Fault {
	kind, _ := api.KindOf(err)
	f := admission.Fault{Kind: admission.Refused, Code: kind.Code, Text: err.Error()}
	switch codeOf(kind) {
	case codes.Unavailable:
		f.Kind = admission.Busy
	case codes.Internal, codes.DeadlineExceeded:
		f.Kind = admission.Failed
	}
	return f
}

// credentialIn returns the digest of a call's credential, as admission.CredentialOf does: a token in the metadata
// authorization, or a client certificate.
func credentialIn(ctx context.Context) (digest access.Digest, given bool) {
	var secure credentials.TLSInfo
	if caller, ok := peer.FromContext(ctx); ok {
		secure, _ = caller.AuthInfo.(credentials.TLSInfo)
	}
	return admission.CredentialOf(metadata.ValueFromIncomingContext(ctx, "authorization"), nil, &secure.State)
}
