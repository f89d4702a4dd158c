package handlers

import (
	"velocityd/front"
	"velocityd/service/access"
)

// Names of header fields with credentials, in the canonical form of net/http.
const (
	fieldAPIKey        = "X-Api-Key"
	fieldAuthorization = "Authorization"
	fieldAuthenticate  = "Www-Authenticate"
)

// challenge names the scheme by which a caller may prove who he is. Basic is accepted and not named: a
// browser that is told of it asks for a password, and then sends it along with requests
// that other sites make it send.
const challenge = `Bearer realm="velocityd"`

// credentialOf returns the digest of the request's credential. given is false if it has none that could be one of ours.
// The Authorization that a gateway sends is the end user's in any case.
func credentialOf(x *exchange) (digest access.Digest, given bool) {
	r := x.Request()
	authorization := r.Header[fieldAuthorization]
	if isOfGateways(x.Path()) {
		authorization = nil
	}
	return front.CredentialOf(authorization, r.Header[fieldAPIKey], r.TLS)
}
