// Package access owns the rights of callers: tokens, client certificates, scopes, and the cache of credentials that
// hold. It must not know any protocol, SQL, or how a check is decided.
package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"hash/crc32"
	"strings"
)

// The form of a token: tokenStart, secretLength random characters of base 62, and
// their CRC-32 in base 62. The checksum lets programs that look for leaked secrets, and
// this one, know a token from other text without asking a database.
const (
	tokenStart     = "vel_"
	secretLength   = 30
	checksumLength = 6
	tokenLength    = len(tokenStart) + secretLength + checksumLength
	// shownLength characters at the beginning of a token are kept, to tell tokens apart. They leave 26
	// random characters unknown, which are 154 bits.
	shownLength = len(tokenStart) + 4

	base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Token is the secret that a caller proves its identity with. When it is printed or
// logged, it is withheld: Reveal alone returns its text.
type Token struct{ text [tokenLength]byte }

// NewToken returns a new token. It is made of 178 random bits.
func NewToken() Token {
	var t Token
	text := append(t.text[:0], tokenStart...)
	for len(text) < tokenLength-checksumLength {
		var random [1]byte
		_, _ = rand.Read(random[:]) // it never fails
		// 248 is four times 62. A larger byte would make some characters more likely.
		if random[0] < 248 {
			text = append(text, base62[random[0]%62])
		}
	}
	t.seal()
	return t
}

// seal writes the checksum of the secret behind it.
func (t *Token) seal() {
	rest := crc32.ChecksumIEEE(t.text[len(tokenStart) : tokenLength-checksumLength])
	for i := tokenLength - 1; i >= tokenLength-checksumLength; i-- {
		t.text[i] = base62[rest%62]
		rest /= 62
	}
}

// ParseToken reads a token. ok is false if the text is not a token that NewToken can have
// made.
func ParseToken(text string) (token Token, ok bool) {
	if len(text) != tokenLength || !strings.HasPrefix(text, tokenStart) {
		return Token{}, false
	}
	strange := func(r rune) bool { return !isLetter(r) && !isDigit(r) }
	if strings.ContainsFunc(text[len(tokenStart):], strange) {
		return Token{}, false
	}
	copy(token.text[:], text)
	given := token
	token.seal()
	return token, token == given
}

// Reveal returns the token's text, for its user.
func (t Token) Reveal() string { return string(t.text[:]) }

// Shown returns the token's first characters, which may be stored and printed.
func (t Token) Shown() string { return string(t.text[:shownLength]) }

// Format implements fmt.Formatter: no verb prints the secret.
func (t Token) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(tokenStart + "***")) }

// MarshalText implements encoding.TextMarshaler. It withholds the secret, as Format does.
func (t Token) MarshalText() ([]byte, error) { return []byte(tokenStart + "***"), nil }

// Digest is the form in which a credential is stored and looked up. A token cannot be guessed from its
// digest, because tokens are random.
type Digest [sha256.Size]byte

// Digest returns the SHA-256 of the token's text.
func (t Token) Digest() Digest { return sha256.Sum256(t.text[:]) }

// CertificateSubject returns the subject of a certificate as it is registered: by RFC 2253, with all
// of its parts in their order. Two certificates have the same only if their subjects are the same.
// OpenSSL prints another text for subjects with other than plain parts.
func CertificateSubject(cert *x509.Certificate) string {
	var parts pkix.RDNSequence
	if rest, err := asn1.Unmarshal(cert.RawSubject, &parts); err != nil || len(rest) > 0 {
		return "" // that of no credential
	}
	return parts.String()
}

// SubjectDigest returns the digest of a client certificate's subject, which is as
// pkix.Name.String writes it. It differs from every token's.
func SubjectDigest(subject string) Digest { return sha256.Sum256([]byte("certificate " + subject)) }
