package wforce

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"sort"
	"time"

	"velocityd/client"
	"velocityd/handlers/admission"
	"velocityd/service"
)

const (
	// attemptLife is how long an attempt waits for its report. Dovecot reports at once; a database of passwords may be
	// slow.
	attemptLife = 30 * time.Second
	// recallTime bounds the search for an attempt before a decision, so that there is time left to decide without it.
	recallTime = 600 * time.Millisecond
	// reportTime bounds a report, which goes on when Dovecot has left: Dovecot ignores the answer.
	reportTime = client.DefaultTimeout
	// firstPause is how long a report waits before it searches again. Each further pause is twice as long.
	firstPause = 100 * time.Millisecond
)

// attempt names an attempt: the place of its tuple among all, and how many attempts of the same tuple came before.
//
// Dovecot names no attempt. It asks before and after it looks at the password, reports once, and says the same about
// the next guess of a connection if that has the same password, and with CRAM-MD5 always. So an attempt of a tuple
// lasts until it is blocked, reported, or old. All instances find the same one, because they recall attempts from the
// database.
type attempt struct {
	tuple [sha256.Size / 2]byte
	k     int
}

// id returns the attempt id of a check.
func (a attempt) id() string { return fmt.Sprintf("%s.%d", hex.EncodeToString(a.tuple[:]), a.k) }

// first returns the name of the first attempt of the call's tuple. The secret keeps others from using the id before.
func (c *call) first() attempt {
	mac := hmac.New(sha256.New, []byte(c.secret))
	for _, part := range []text{c.tuple.SessionID, c.tuple.Remote, c.tuple.Login, c.tuple.PwHash} {
		fmt.Fprintf(mac, "%d %s", len(part), part)
	}
	fmt.Fprintf(mac, "%d %d", c.user, c.address)
	return attempt{tuple: [sha256.Size / 2]byte(mac.Sum(nil))}
}

// secretOf returns the token of a request, which others do not know. It is empty in an open service, where all callers
// see the same.
func secretOf(r *http.Request) string {
	token, _ := admission.TokenOf(r.Header["Authorization"], r.Header["X-Api-Key"])
	return token.Reveal()
}

// state is that of an attempt in the database.
type state struct {
	hasEnded bool
	decision *service.Decision // nil if it has ended, or was never made
}

// search finds the attempt of the call's tuple that is still open, and the answer to it. If there is none, it returns
// the name of the next attempt, and no answer. isOver says of attempts that they have ended for this call, before the
// database is asked. The error wraps service.ErrBusy if the database cannot be asked.
func (c *call) search(
	ctx context.Context, isOver func(recentAttempt) bool,
) (a attempt, open *service.Decision, err error) {
	a, known := c.first(), map[int]state{}
	hasEnded := func(k int) bool {
		found, isKnown := known[k]
		if !isKnown && err == nil {
			if a.k = k; isOver(c.recent.look(a)) {
				found.hasEnded = true
			} else {
				found, err = c.recall(ctx, a)
			}
			known[k] = found
		}
		return found.hasEnded && err == nil
	}
	bound := 1
	for hasEnded(bound - 1) { // those that have ended come first, and may be thousands where a client has no session
		bound *= 2
	}
	a.k = sort.Search(bound, func(k int) bool { return !hasEnded(k) })
	return a, known[a.k].decision, err
}

// recall asks the database for an attempt.
func (c *call) recall(ctx context.Context, a attempt) (state, error) {
	found, err := c.Attempts.Attempt(ctx, a.id())
	switch d := found.Decision; {
	case errors.Is(err, service.ErrNotFound):
		return state{}, nil
	case err != nil:
		return state{}, fmt.Errorf("%w: recall an attempt: %w", service.ErrBusy, err)
	case d.Blocked || found.Outcome != "" || c.recent.look(a).uses == 0 && time.Since(d.CheckedAt.Time) > attemptLife:
		return state{hasEnded: true}, nil
	default:
		return state{decision: &d}, nil
	}
}

// check asks whether an attempt may go ahead. A key that is empty or that its zone refuses is left out: no account has
// such a name, and the other bucket counts. If none is left, the attempt is blocked.
func (c *call) check(ctx context.Context, id string) (service.Decision, error) {
	buckets := c.buckets(c.tuple.Remote)
	asked := [][]service.Bucket{buckets}
	if len(buckets) > 1 {
		asked = append(asked, buckets[:1], buckets[1:])
	}
	for _, some := range asked {
		d, err := c.api.Check(ctx, service.Check{Buckets: some, AttemptID: id})
		if !errors.Is(err, service.ErrInvalid) {
			return d, err
		}
	}
	return service.Decision{Blocked: true}, nil
}
