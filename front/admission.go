package front

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"velocityd/service/access"
)

// txnsTimeout is the deadline of looking up the zones of txns.
const txnsTimeout = 2 * time.Second

// Admission says whose calls are answered. The zero value answers everybody.
type Admission struct {
	// Callers knows callers by their credentials. If it is nil, nobody is asked for one,
	// and credentials are not looked at.
	Callers *access.Cache
	// Txns tells the zones of txns. It is needed if Callers is set.
	Txns TxnZones
}

// TxnZones tells, for each of these txns that exists, the zones of all txns of its check.
type TxnZones interface {
	TxnZones(ctx context.Context, ids []uint64) (map[uint64][]int64, error)
}

// IsOpen reports whether nobody is asked who he is.
func (a Admission) IsOpen() bool { return a.Callers == nil }

// Identify finds out whose credential has a digest; given is false if there is none. The error wraps
// access.ErrUnauthenticated, or service.ErrBusy if it cannot be found out now. The admission must not be open.
func (a Admission) Identify(ctx context.Context, digest access.Digest, given bool) (access.Caller, error) {
	if !given {
		return access.Caller{}, access.ErrUnauthenticated
	}
	caller, known, err := a.Callers.Caller(ctx, digest)
	if err == nil && !known {
		err = access.ErrUnauthenticated
	}
	return caller, err
}

// Reachable returns which of these txns a caller may read and report about. To a caller who is
// bound to zones, a txn of a check with other zones does not exist.
func (a Admission) Reachable(ctx context.Context, caller access.Caller, ids ...uint64) ([]bool, error) {
	if !caller.IsBound() {
		return slices.Repeat([]bool{true}, len(ids)), nil
	}
	ctx, cancel := context.WithTimeout(ctx, txnsTimeout)
	defer cancel()
	zones, err := a.Txns.TxnZones(ctx, ids)
	reached := make([]bool, len(ids))
	for i, id := range ids {
		outside := func(zone int64) bool { return !caller.Reaches(zone) }
		reached[i] = len(zones[id]) > 0 && !slices.ContainsFunc(zones[id], outside)
	}
	return reached, err
}

// longestBasic bounds the credentials of the scheme Basic that are decoded, in characters.
const longestBasic = 512

// TokenIn returns the token in the credentials of a scheme: all of Bearer's, or the password of Basic's,
// whatever the user. Protocols other than HTTP write them in the same way. ok is false if there is no
// token that could be one of ours.
func TokenIn(credentials string) (token access.Token, ok bool) {
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
