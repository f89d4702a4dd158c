package client

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"velocityd/service"
)

// MinSigningKey is the least length of a key of SignClient, in bytes.
const MinSigningKey = 32

const (
	knownPrefix = "v1." // a later form begins otherwise
	knownID     = 16    // random bytes
	knownTime   = 8     // seconds since 1970
	// knownAhead is how far the clock of the machine that signed may be ahead of the one that verifies.
	knownAhead = time.Minute
)

// SignClient returns the value of a cookie that tells a client in which user has logged in from a stranger's: see
// VerifyClient. Set it after each success, with the attributes HttpOnly, Secure, SameSite=Lax and an age of the
// life that VerifyClient gets. It is a new random id and the instant at, signed together with user by
// HMAC-SHA-256. user is the account, in one spelling, and NOT the text that was typed. The value does NOT
// hold it, and proves no login: it only chooses the bucket. The error wraps service.ErrInvalid if key is
// shorter than MinSigningKey or user is empty.
func SignClient(key []byte, user string, at time.Time) (cookie string, err error) {
	if len(key) < MinSigningKey || user == "" {
		return "", fmt.Errorf("%w: signing a client needs a key of %d bytes and a user", service.ErrInvalid, MinSigningKey)
	}
	signed := make([]byte, knownID, knownID+knownTime+sha256.Size)
	_, _ = rand.Read(signed) // never fails: see crypto/rand
	signed = binary.BigEndian.AppendUint64(signed, uint64(max(at.Unix(), 0)))
	signed = append(signed, signature(key, signed, user)...)
	return knownPrefix + base64.RawURLEncoding.EncodeToString(signed), nil
}

// VerifyClient returns the id of the client that has a cookie, if SignClient made it for user by one of keys, no
// longer than life before now. The id is the key of the client's bucket: it is asked for in place of the user's,
// so that strangers that know the user's name cannot fill it. Otherwise the client is a stranger, and the bucket
// of the user is asked for. To change the key, sign by the new one and give both until life is over. The
// comparison takes the same time for all wrong signatures.
func VerifyClient(cookie, user string, now time.Time, life time.Duration, keys ...[]byte) (id string, isKnown bool) {
	text, hasForm := strings.CutPrefix(cookie, knownPrefix)
	if !hasForm || base64.RawURLEncoding.DecodedLen(len(text)) != knownID+knownTime+sha256.Size || user == "" {
		return "", false
	}
	whole, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return "", false
	}
	signed, given := whole[:knownID+knownTime], whole[knownID+knownTime:]
	for _, key := range keys {
		isKnown = isKnown || len(key) >= MinSigningKey && hmac.Equal(given, signature(key, signed, user))
	}
	at := time.Unix(int64(binary.BigEndian.Uint64(signed[knownID:])), 0)
	if !isKnown || at.After(now.Add(knownAhead)) || !now.Before(at.Add(life)) {
		return "", false
	}
	return base64.RawURLEncoding.EncodeToString(signed[:knownID]), true
}

// signature signs the part of a fixed length, and then the user.
func signature(key, signed []byte, user string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("velocityd known client " + knownPrefix))
	mac.Write(signed)
	mac.Write([]byte(user))
	return mac.Sum(nil)
}
