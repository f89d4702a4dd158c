package wforce_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"velocityd/doors/wforce"
	"velocityd/service"
)

// slowly finds no attempt in time for the questions with numbers that isSlow names.
func slowly(isSlow func(n int64) bool) func(*wforce.Options) {
	return func(o *wforce.Options) {
		var asked atomic.Int64
		find := o.Attempts.Attempt
		o.Attempts = attempts(func(ctx context.Context, id string) (service.Recall, error) {
			if isSlow(asked.Add(1)) {
				return service.Recall{}, errors.New("the database is slow")
			}
			return find(ctx, id)
		})
	}
}

func TestGoodLoginFreesPlaceWhenLookUpsFail(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]map[int64]bool{
		"before the password": {1: true}, "after it": {2: true}, "both": {1: true, 2: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, slowly(func(n int64) bool { return slow[n] }))
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
	p := open(t, slowly(func(n int64) bool { return n < 20 }))
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
