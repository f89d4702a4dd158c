package servicetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"velocityd/service"
)

func secretClaims() map[string]claim { //nolint:funlen // a table of scripts
	return map[string]claim{
		"ASecretIsChargedOnceAndGuessesAreCharged": script(`
			zone 1 rate=3 repeat_secret=free
			check 1/alice secret=last-months as=first -> pass v=1 left=2
			5x check 1/alice secret=last-months -> pass v=1 left=2
			report first failure
			check 1/alice secret=last-months -> pass v=1 left=2
			check 1/alice secret=last-months -> pass v=1 left=2
			and 1/alice secret=guess-one -> pass v=2 left=1
			and 1/alice secret=guess-one -> pass v=2 left=1
			and 1/alice secret=guess-two -> pass v=3 left=0
			and 1/alice secret=last-months -> block full
			count 1/alice -> 3 of 12
			check 1/bob secret=last-months -> pass v=1 // a repeat of alice alone
			check 1/bob -> pass v=2
		`),
		"ARepeatedSecretBeginsNoLockout": script(`
			zone 1 rate=2 lockout=2h repeat_secret=free
			check 1/alice secret=last-months -> pass
			check 1/alice secret=guess-one -> pass
			check 1/alice secret=last-months -> full
			check 1/alice secret=guess-one -> full
			check 1/alice secret=guess-two -> lockout
			check 1/alice secret=last-months -> locked
		`),
		"ARepeatedSecretPassesNoFullBucket": script(`
			zone 1 rate=1 repeat_secret=free
			zone 2 rate=1
			check 1/alice secret=last-months -> pass
			check 1/alice secret=last-months -> full
			edit 1 rate=2
			check 2/x -> pass
			check 1/alice 2/x secret=last-months -> elsewhere | full
			deny 1/alice
			check 1/alice secret=last-months -> denied
			allow 1/alice
			check 1/alice secret=last-months -> pass unmetered
		`),
		"ASecretIsForgottenWithItsWindow": script(`
			zone 1 rate=9 repeat_secret=free
			check 1/alice secret=last-months -> pass
			age 1/alice 40m
			check 1/alice secret=last-months -> pass v=1 left=8 // takes no place, and so prolongs nothing
			age 1/alice 20m
			check 1/alice secret=last-months -> pass v=1 left=8
			count 1/alice -> 2 of 3 // the first of either window
			release 1/alice
			check 1/alice secret=last-months -> pass v=1 left=8
			count 1/alice -> 2 of 4 // the oldest left its window before the release
		`),
		"ASecretThatSucceededIsChargedAgain": script(`
			zone 1 rate=9 repeat_secret=free
			zone 2 rate=9 repeat_secret=free counts=failures
			check 1/alice secret=the-right-one as=attempts -> pass
			check 1/alice secret=the-right-one -> pass v=1
			report attempts success
			check 1/alice secret=the-right-one -> v=2
			check 2/alice secret=the-right-one as=failures -> pass
			check 2/alice secret=the-right-one -> pass v=1
			report failures success
			check 2/alice secret=the-right-one -> v=1 counted
		`),
		"ASecretIsFreeOnlyWhereItsZoneSaysSo": script(`
			zone 1 rate=9 repeat_secret=free
			zone 2 rate=9
			check 1/alice 2/alice secret=last-months -> v=1 | v=1
			check 1/alice 2/alice secret=last-months -> v=1 | v=2
			check 1/alice 2/alice secret=last-months -> v=1 | v=3
			edit 1 repeat_secret=count
			check 1/alice secret=last-months -> pass v=2
			edit 1 repeat_secret=free
			check 1/alice secret=last-months -> pass v=2
			check 1/alice id=one -> pass // without a secret
			check 1/alice secret=last-months -> pass v=3
			zone 3 rate=2 repeat_secret=free mode=shadow
			2x check 3/alice secret=last-months -> pass v=1
			check 3/alice secret=guess-one -> pass
			check 3/alice secret=guess-two -> would v=2
		`),
		"ASecretIsChargedOnceUnderContention":     chargedOnceUnderContention,
		"AWrongSecretHashIsRefusedAndNotRepeated": wrongHashIsRefused,
	}
}

// free creates zone 1, where a secret is charged once.
func (b subject) free(tb testing.TB, rate int) {
	tb.Helper()
	b.set(tb, service.Zone{ID: 1, Rate: rate, Window: time.Hour, RepeatSecret: service.RepeatFree})
}

func chargedOnceUnderContention(t *testing.T, b subject) {
	b.free(t, 9)
	b.together(t, 40, func(i int) service.Check {
		return service.Check{Buckets: []service.Bucket{at(1, "alice")}, SecretHash: []string{"last-months", "guess-one"}[i%2]}
	})
	if recorded, counted := b.counted(t, at(1, "alice")); recorded != 40 || counted != 2 {
		t.Errorf("%d txns, and %d count, want 40, and one for each secret", recorded, counted)
	}
}

func wrongHashIsRefused(t *testing.T, b subject) {
	b.free(t, 9)
	for _, wrong := range []string{"short-7", "password with a blank", "pässword", string(make([]byte, 9)), "" +
		"longer-than-sixty-four-characters-longer-than-sixty-four-characters"} {
		_, err := b.ask(context.Background(), service.Check{Buckets: []service.Bucket{at(1, "alice")}, SecretHash: wrong})
		if !errors.Is(err, service.ErrInvalid) {
			t.Errorf("a secret of %d characters: got %v", len(wrong), err)
		}
	}
	if txns := b.Txns(t, at(1, "alice")); len(txns) > 0 {
		t.Errorf("recorded %+v", txns)
	}
}
