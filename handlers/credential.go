package handlers

import (
	"net/http"

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

// credentialOf returns the digest of the request's credential. given is false if it has
// none that could be one of ours.
//
// X-API-Key comes first: a proxy that asks on behalf of an end user can set it, and may send
// the end user's own Authorization along. For the same reason an Authorization without a
// token is as good as none. Last comes the client certificate that TLS has verified.
func credentialOf(r *http.Request) (digest access.Digest, given bool) {
	if lines := r.Header[fieldAuthorization]; len(lines) == 1 && len(r.Header[fieldAPIKey]) == 0 {
		if token, ok := front.TokenIn(lines[0]); ok {
			return token.Digest(), true
		}
	}
	return gatewayCredentialOf(r)
}

// gatewayCredentialOf is credentialOf for a gateway, whose Authorization is the end user's in any case.
func gatewayCredentialOf(r *http.Request) (digest access.Digest, given bool) {
	if keys := r.Header[fieldAPIKey]; len(keys) > 0 {
		token, ok := access.ParseToken(keys[0])
		return token.Digest(), ok && len(keys) == 1
	}
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return access.Digest{}, false
	}
	return access.SubjectDigest(access.CertificateSubject(r.TLS.VerifiedChains[0][0])), true
}
