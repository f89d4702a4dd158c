package handlers

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"net/http"
	"strings"

	"velocityd/service/access"
)

// Names of header fields with credentials, in the canonical form of net/http.
const (
	fieldAPIKey        = "X-Api-Key"
	fieldAuthorization = "Authorization"
	fieldAuthenticate  = "Www-Authenticate"
)

// challenge says by what a caller may prove who he is. Basic is accepted and not named: a
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
	if keys := r.Header[fieldAPIKey]; len(keys) > 0 {
		token, ok := access.ParseToken(keys[0])
		return token.Digest(), ok && len(keys) == 1
	}
	if lines := r.Header[fieldAuthorization]; len(lines) == 1 {
		if token, ok := access.ParseToken(tokenText(lines[0])); ok {
			return token.Digest(), true
		}
	}
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return access.Digest{}, false
	}
	return access.SubjectDigest(CertificateSubject(r.TLS.VerifiedChains[0][0])), true
}

// CertificateSubject returns the subject of a certificate as it is registered: by RFC 2253, with all
// of its parts in their order. Two certificates have the same only if their subjects are the same.
// It is not what OpenSSL prints for subjects with other than plain parts.
func CertificateSubject(cert *x509.Certificate) string {
	var parts pkix.RDNSequence
	if rest, err := asn1.Unmarshal(cert.RawSubject, &parts); err != nil || len(rest) > 0 {
		return "" // that of no credential
	}
	return parts.String()
}

// longestBasic bounds the credentials of the scheme Basic that are decoded, in characters.
const longestBasic = 512

// tokenText returns what stands for the token in a header field Authorization: all of
// Bearer's credentials, or the password of Basic's, whatever the user. It is "" for other
// schemes.
func tokenText(authorization string) string {
	scheme, rest, _ := strings.Cut(authorization, " ")
	rest = strings.TrimLeft(rest, " ")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		return rest
	case strings.EqualFold(scheme, "Basic") && len(rest) <= longestBasic:
		decoded, err := base64.StdEncoding.DecodeString(rest)
		if err != nil {
			return ""
		}
		_, password, _ := strings.Cut(string(decoded), ":")
		return password
	}
	return ""
}
