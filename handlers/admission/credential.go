package admission

import (
	"crypto/tls"
	"encoding/base64"
	"strings"

	"velocityd/service/access"
)

// CredentialOf returns the digest of a call's credential: that of its token (TokenOf), or without one, of the client
// certificate that TLS has verified. connection may be nil. given is false if it has none that could be one of ours.
func CredentialOf(authorization, keys []string, connection *tls.ConnectionState) (digest access.Digest, given bool) {
	token, ok := TokenOf(authorization, keys)
	if ok || len(keys) > 0 || connection == nil || len(connection.VerifiedChains) == 0 {
		return token.Digest(), ok
	}
	return access.SubjectDigest(access.CertificateSubject(connection.VerifiedChains[0][0])), true
}

// TokenOf returns the token in the lines of Authorization and X-API-Key. ok is false if there is no token that could be
// one of ours.
//
// X-API-Key comes first: a proxy that asks on behalf of an end user can set it, and may send the end user's own
// Authorization along. For the same reason an Authorization without a token is as good as none.
func TokenOf(authorization, keys []string) (token access.Token, ok bool) {
	switch {
	case len(keys) > 0:
		token, ok = access.ParseToken(keys[0])
		ok = ok && len(keys) == 1
	case len(authorization) == 1:
		token, ok = tokenIn(authorization[0])
	}
	if !ok {
		return access.Token{}, false
	}
	return token, true
}

// longestBasic bounds the credentials of the scheme Basic that are decoded, in characters.
const longestBasic = 512

// tokenIn returns the token in the credentials of a scheme: all of Bearer's, or the password of Basic's, with any user.
// Protocols other than HTTP write them in the same way. ok is false if there is no token that could be one of ours.
func tokenIn(credentials string) (token access.Token, ok bool) {
	scheme, text, _ := strings.Cut(credentials, " ")
	text = strings.TrimLeft(text, " ")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		return access.ParseToken(text)
	case strings.EqualFold(scheme, "Basic") && len(text) <= longestBasic:
		decoded, err := base64.StdEncoding.DecodeString(text)
		_, password, _ := strings.Cut(string(decoded), ":")
		token, ok = access.ParseToken(password)
		return token, ok && err == nil
	}
	return access.Token{}, false
}
