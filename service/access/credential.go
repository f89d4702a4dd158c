package access

import (
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"velocityd/service"
)

// Kind is the kind of proof by which a caller is known.
type Kind string

// The kinds of credential.
const (
	KindToken       Kind = "token"       // a secret text
	KindCertificate Kind = "certificate" // a client certificate that TLS has verified
)

// Limits of credentials.
const (
	// MaxSubjectLength is the longest subject of a client certificate, in characters.
	MaxSubjectLength = 512
	// MaxLiveOfName bounds the live credentials of one name: the one in use, and its successor.
	MaxLiveOfName = 2
	// MaxLiveCredentials bounds the live credentials. Every instance keeps all of them in memory.
	MaxLiveCredentials = 1000
)

// Credential is the stored form of a token, or of a client certificate's subject. It holds no secret.
type Credential struct {
	ID     uint64 `json:"id"` // set by the store
	Kind   Kind   `json:"kind"`
	Digest Digest `json:"-"`
	Name   string `json:"name"`
	// Shown is the beginning of a token, and empty for a certificate.
	Shown string `json:"shown,omitzero"`
	// Subject is the subject of a certificate, as pkix.Name.String writes it, and otherwise empty.
	Subject string  `json:"subject,omitzero"`
	Scopes  []Scope `json:"scopes"`
	Zones   []int64 `json:"zones,omitzero"` // as those of Caller
	// Live says that the credential holds. Only an answer to a list has it set; see IsLive.
	Live bool `json:"live"`
	// ExpiresAt is the first instant, by the engine's clock, at which the credential does
	// not hold any more. The zero time means never. The other times are set by the store.
	ExpiresAt  service.Instant `json:"expires_at,omitzero"`
	CreatedAt  service.Instant `json:"created_at"`
	CreatedBy  string          `json:"created_by"`
	LastUsedAt service.Instant `json:"last_used_at,omitzero"` // to about a minute; zero if never
	RevokedAt  service.Instant `json:"revoked_at,omitzero"`   // zero if not revoked
	RevokedBy  string          `json:"revoked_by,omitzero"`
}

// Caller returns the caller that the credential stands for.
func (c Credential) Caller() Caller { return Caller{Name: c.Name, Scopes: c.Scopes, Zones: c.Zones} }

// NewTokenCredential returns the credential of a caller's token.
func NewTokenCredential(token Token, caller Caller) Credential {
	return Credential{
		Kind: KindToken, Digest: token.Digest(), Shown: token.Shown(), Name: caller.Name, Scopes: caller.Scopes,
		Zones: caller.Zones,
	}
}

// NewCertificateCredential returns the credential of a caller's client certificates, by their subject.
func NewCertificateCredential(subject string, caller Caller) Credential {
	return Credential{
		Kind: KindCertificate, Digest: SubjectDigest(subject), Subject: subject, Name: caller.Name, Scopes: caller.Scopes,
		Zones: caller.Zones,
	}
}

// Validate returns an ErrInvalid that names the field, or nil.
func (c Credential) Validate() error {
	if err := c.Caller().Validate(); err != nil {
		return err
	}
	if c.Kind == KindCertificate {
		switch {
		case strings.TrimSpace(c.Subject) == "":
			return service.NewFieldError("subject", "must not be empty")
		case !utf8.ValidString(c.Subject) || strings.ContainsFunc(c.Subject, unicode.IsControl):
			return service.NewFieldError("subject", "must be valid UTF-8 without control characters")
		case utf8.RuneCountInString(c.Subject) > MaxSubjectLength:
			return service.NewFieldError("subject", "must be at most %d characters", MaxSubjectLength)
		case !subjectForm().MatchString(c.Subject): // it would match no certificate
			return service.NewFieldError("subject", "must be written as by RFC 2253, such as CN=auth-1,O=Example: the "+
				"certificate's last part first, without blanks around commas and equals signs, and with names in capital "+
				"letters (C, CN, L, O, OU, POSTALCODE, SERIALNUMBER, ST, STREET)")
		}
	}
	if c.ExpiresAt.IsZero() {
		return nil
	}
	return service.ValidateExpiry(c.ExpiresAt.Time)
}

// subjectForm matches the subjects that pkix.Name.String writes, which are compared byte by byte. Another
// text is the subject of no certificate. Parts of other kinds are written as their number and the
// hexadecimal form of their value.
func subjectForm() *regexp.Regexp {
	const (
		escaped = `\\[,+"\\<>;# ]`
		edge    = `(?:[^,+"\\<>;# ]|` + escaped + `)` // the first or last character of a value
		value   = edge + `(?:(?:[^,+"\\<>;]|` + escaped + `)*(?:` + edge + `|#))?`
		part    = `(?:(?:C|CN|L|O|OU|POSTALCODE|SERIALNUMBER|ST|STREET)=` + value + `|[0-9]+(?:\.[0-9]+)+=#(?:[0-9a-f]{2})+)`
	)
	return regexp.MustCompile(`^` + part + `(?:[,+]` + part + `)*$`)
}

// IsLive reports whether the credential holds at an instant, by the engine's clock.
func (c Credential) IsLive(now time.Time) bool {
	return c.RevokedAt.IsZero() && !service.HasExpired(c.ExpiresAt.Time, now)
}
