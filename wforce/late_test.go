package wforce_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"velocityd/service"
	"velocityd/wforce"
)

// slowAttempts finds no attempt in time for the questions with these numbers.
type slowAttempts struct {
	wforce.Attempts
	slow  map[int64]bool
	asked atomic.Int64
}

func (s *slowAttempts) Attempt(ctx context.Context, id string) (service.Recall, error) {
	if s.slow[s.asked.Add(1)] {
		return service.Recall{}, fmt.Errorf("%w: the database is slow", service.ErrBusy)
	}
	return s.Attempts.Attempt(ctx, id)
}

func TestAGoodLoginKeepsNoPlaceWhenLookUpsFail(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]map[int64]bool{
		"before the password": {1: true}, "after it": {2: true}, "both": {1: true, 2: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, func(o *wforce.Options) { o.Attempts = &slowAttempts{Attempts: o.Attempts, slow: slow} })
			asked := login("bmCefdRgVJl", "alice", "0f24")
			for range 2 {
				if a := p.say(t, "allow", asked); a.verdict(t) != 0 {
					t.Fatalf("refused: %v", a.body)
				}
			}
			p.say(t, "report", asked.ended(true))
			if txns, counted := p.of("alice"); counted != 0 {
				t.Errorf("%d of %d txns count: %+v", counted, len(txns), txns)
			}
			for range userRate {
				p.say(t, "allow", asked)
				p.say(t, "report", asked.ended(false))
			}
			if _, counted := p.of("alice"); counted != userRate {
				t.Errorf("%d of %d later guesses count", counted, userRate)
			}
		})
	}
}

func TestGuessesCountWhenLookUpsFail(t *testing.T) {
	t.Parallel()
	slow := map[int64]bool{}
	for i := range int64(20) {
		slow[i] = true
	}
	p := open(t, func(o *wforce.Options) { o.Attempts = &slowAttempts{Attempts: o.Attempts, slow: slow} })
	asked := login("bmCefdRgVJl", "mallory", "041c")
	allowed := 0
	for range userRate + 2 {
		allowed += p.say(t, "allow", asked).verdict(t) + 1
		p.say(t, "report", asked.ended(false))
	}
	if _, counted := p.of("mallory"); allowed != userRate || counted != userRate {
		t.Errorf("%d guesses passed, %d count, want %d", allowed, counted, userRate)
	}
}
