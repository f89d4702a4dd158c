package servicetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"velocityd/service"
)

func secretClaims() map[string]claim {
	return map[string]claim{
		"ASecretIsChargedOnceAndGuessesAreCharged": chargedOnce,
		"ARepeatedSecretBeginsNoLockout":           repeatLocksNobody,
		"ARepeatedSecretPassesNoFullBucket":        repeatPassesNoFullBucket,
		"ASecretIsForgottenWithItsWindow":          secretEndsWithWindow,
		"ASecretThatSucceededIsChargedAgain":       successIsNoRepeat,
		"ASecretIsFreeOnlyWhereItsZoneSaysSo":      freeWhereZoneSays,
		"ASecretIsChargedOnceUnderContention":      chargedOnceUnderContention,
		"AWrongSecretHashIsRefusedAndNotRepeated":  wrongHashIsRefused,
	}
}

// free creates zone 1, where a secret is charged once.
func (b subject) free(tb testing.TB, rate int) service.Zone {
	tb.Helper()
	return b.set(tb, service.Zone{ID: 1, Rate: rate, Window: time.Hour, RepeatSecret: service.RepeatFree})
}

// try checks one bucket with a secret.
func (b subject) try(tb testing.TB, secret string, buckets ...service.Bucket) service.Decision {
	tb.Helper()
	d := b.all(tb, service.Check{Buckets: buckets, SecretHash: secret})[0]
	if d.Err != nil {
		tb.Fatalf("check refused: %v", d.Err)
	}
	return d
}

// wantVelocity wants an attempt that passed, and that so many attempts count after it.
func wantVelocity(tb testing.TB, d service.Decision, want int) {
	tb.Helper()
	if v := d.Verdicts[0]; d.Blocked || v.WouldBlock || v.Reason != "" || v.Velocity != want || v.Remaining() != v.Rate-want {
		tb.Errorf("got %+v, want it to pass and %d to count", d, want)
	}
}

func chargedOnce(t *testing.T, b subject) {
	b.free(t, 3)
	alice := at(1, "alice")
	first := b.try(t, "last-months", alice)
	wantVelocity(t, first, 1)
	for range 5 { // alone
		wantVelocity(t, b.try(t, "last-months", alice), 1)
	}
	b.wantReport(t, first.TxnID(), failure, nil)
	wantVelocity(t, b.try(t, "last-months", alice), 1)
	var batch []service.Check
	for _, secret := range []string{"last-months", "guess-one", "guess-one", "guess-two", "last-months"} {
		batch = append(batch, service.Check{Buckets: []service.Bucket{alice}, SecretHash: secret})
	}
	decisions := b.all(t, batch...)
	for i, want := range []int{1, 2, 2, 3} {
		wantVelocity(t, decisions[i], want)
	}
	if v := decisions[4].Verdicts[0]; !v.Blocked || v.Reason != service.ReasonFull {
		t.Errorf("of a full bucket: %+v", v)
	}
	if recorded, counted := b.counted(t, alice); recorded != 12 || counted != 3 {
		t.Errorf("%d txns, and %d count, want all 12, and 3", recorded, counted)
	}
	wantVelocity(t, b.try(t, "last-months", at(1, "bob")), 1) // nobody else's repeat
	wantVelocity(t, b.check(t, at(1, "bob")), 2)
}

func repeatLocksNobody(t *testing.T, b subject) {
	zone := b.free(t, 2)
	zone.Lockout = 2 * time.Hour
	b.set(t, zone)
	alice := at(1, "alice")
	b.try(t, "last-months", alice)
	b.try(t, "guess-one", alice)
	b.wantReasons(t, b.try(t, "last-months", alice), service.ReasonFull)
	b.wantReasons(t, b.try(t, "guess-one", alice), service.ReasonFull)
	b.wantReasons(t, b.try(t, "guess-two", alice), service.ReasonLockout)
	b.wantReasons(t, b.try(t, "last-months", alice), service.ReasonLocked)
}

func repeatPassesNoFullBucket(t *testing.T, b subject) {
	b.free(t, 1)
	b.zone(t, 2, 1, time.Hour)
	alice, address := at(1, "alice"), at(2, "x")
	b.try(t, "last-months", alice)
	b.wantReasons(t, b.try(t, "last-months", alice), service.ReasonFull)
	b.set(t, service.Zone{ID: 1, Rate: 2, Window: time.Hour, RepeatSecret: service.RepeatFree})
	b.check(t, address)
	d := b.try(t, "last-months", alice, address)
	b.wantReasons(t, d, service.ReasonElsewhere, service.ReasonFull)
	b.SetOverride(t, deny(1, "alice"))
	b.wantReasons(t, b.try(t, "last-months", alice), service.ReasonDenied)
	b.SetOverride(t, allow(1, "alice"))
	if d := b.try(t, "last-months", alice); d.Blocked || !d.Verdicts[0].Unmetered {
		t.Errorf("allowed: %+v", d)
	}
}

func secretEndsWithWindow(t *testing.T, b subject) {
	b.free(t, 9)
	alice := at(1, "alice")
	b.try(t, "last-months", alice)
	b.Age(t, alice, 40*time.Minute)
	wantVelocity(t, b.try(t, "last-months", alice), 1) // takes no place, and so prolongs nothing
	b.Age(t, alice, 20*time.Minute)
	wantVelocity(t, b.try(t, "last-months", alice), 1)
	if _, counted := b.counted(t, alice); counted != 2 {
		t.Errorf("%d attempts were charged, want the first of either window", counted)
	}
	b.release(t, alice)
	wantVelocity(t, b.try(t, "last-months", alice), 1)
	if _, counted := b.counted(t, alice); counted != 2 { // the oldest left its window before the release
		t.Errorf("%d attempts count after the release, want the oldest and the newest", counted)
	}
}

func successIsNoRepeat(t *testing.T, b subject) {
	for _, counts := range []service.Counts{service.CountsAttempts, service.CountsFailures} {
		zone := b.free(t, 9)
		zone.Counts = counts
		b.set(t, zone)
		alice := at(1, "alice "+string(counts))
		first := b.try(t, "the-right-one", alice)
		wantVelocity(t, b.try(t, "the-right-one", alice), 1)
		b.wantReport(t, first.TxnID(), success, nil)
		again := b.try(t, "the-right-one", alice)
		if v := again.Verdicts[0]; v.Velocity != 1 && counts == service.CountsFailures || v.Velocity != 2 && counts == service.CountsAttempts {
			t.Errorf("counts %s, after the success: %+v, want it charged", counts, again)
		}
	}
}

func freeWhereZoneSays(t *testing.T, b subject) {
	zone := b.free(t, 9)
	b.zone(t, 2, 9, time.Hour)
	alice, other := at(1, "alice"), at(2, "alice")
	for i := range 3 {
		d := b.try(t, "last-months", alice, other)
		if d.Verdicts[0].Velocity != 1 || d.Verdicts[1].Velocity != i+1 {
			t.Errorf("try %d: %+v", i, d)
		}
	}
	zone.RepeatSecret = service.RepeatCount
	b.set(t, zone)
	wantVelocity(t, b.try(t, "last-months", alice), 2)
	zone.RepeatSecret = service.RepeatFree
	b.set(t, zone)
	wantVelocity(t, b.try(t, "last-months", alice), 2)
	b.attempt(t, "one", alice) // without a secret
	wantVelocity(t, b.try(t, "last-months", alice), 3)

	zone.ID, zone.Mode, zone.Rate = 3, service.ModeShadow, 2
	b.set(t, zone)
	shadow := at(3, "alice")
	for _, secret := range []string{"last-months", "last-months", "guess-one"} {
		b.try(t, secret, shadow)
	}
	if d := b.try(t, "guess-two", shadow); d.Blocked || !d.WouldBlock || d.Verdicts[0].Velocity != 2 {
		t.Errorf("in a shadow: %+v", d)
	}
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
	for _, wrong := range []string{"short-7", "password with a blank", "pässword", string(make([]byte, 9)), "longer-than-sixty-four-characters-" + "longer-than-sixty-four-characters"} {
		_, err := b.ask(context.Background(), service.Check{Buckets: []service.Bucket{at(1, "alice")}, SecretHash: wrong})
		if !errors.Is(err, service.ErrInvalid) {
			t.Errorf("a secret of %d characters: got %v", len(wrong), err)
		}
	}
	if txns := b.Txns(t, at(1, "alice")); len(txns) > 0 {
		t.Errorf("recorded %+v", txns)
	}
}
