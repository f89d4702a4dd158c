package service

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

const (
	// ErasedKeyID is named by pseudonyms that stand in the place of erased ones. No secret key has this id.
	ErasedKeyID = "erased"
	// erasedPrefix begins the keys that stand in the place of erased ones.
	erasedPrefix = ErasedKeyID + ":"
)

// NewErasedKey returns a key for a bucket whose key is erased: 16 or more random bytes, which do not lead to the
// former key. Where keys are kept as pseudonyms it has the form of one, under a secret key that does not exist.
func NewErasedKey(form KeyForm) string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // it never fails
	if form == KeyHMAC {
		return pseudonymPrefix + erasedPrefix + base64.RawURLEncoding.EncodeToString(random[:])
	}
	return erasedPrefix + hex.EncodeToString(random[:16])
}

// isErased says that a key in a zone of clear keys stands in the place of an erased one.
func isErased(key string) bool { return strings.HasPrefix(key, erasedPrefix) }
