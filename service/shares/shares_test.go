package shares_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"velocityd/service/shares"
)

func TestOneCallerHasHalfAndIsToldSo(t *testing.T) {
	t.Parallel()
	s := shares.NewHalves[string](5, "exports")
	const ownShare, all = "its share, 2", "all 5 exports"
	for i, c := range []struct{ by, refusal string }{
		{"a", ""}, {"a", ""}, {"a", ownShare}, {"b", ""}, {"b", ""}, {"b", ownShare}, {"c", ""}, {"c", all}, {"d", all},
	} {
		err := s.Take(c.by, 1)
		if (err == nil) != (c.refusal == "") || err != nil && !strings.Contains(err.Error(), c.refusal) {
			t.Fatalf("%d, by %s: %v, want %q", i, c.by, err, c.refusal)
		}
	}
	s.GiveBack("a", 2)
	if err := s.Take("d", 2); err != nil || s.Taken() != 5 {
		t.Errorf("after a has left: %v, %d are taken", err, s.Taken())
	}
	alone := shares.NewHalves[string](1, "exports")
	if err := errors.Join(alone.Take("a", 1), new(shares.Pool[string]).Take("a", 1<<30)); err != nil {
		t.Errorf("the only one, and any number: %v", err)
	}
}

func TestOthersOvertakeCallerWaitingWithItsShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, done := shares.NewHalves[string](4, "slots"), make(chan string, 4)
		ctx, leave := context.WithCancel(t.Context())
		wait := func(ctx context.Context, by, name string) {
			go func() {
				if err := s.Wait(ctx, by); err != nil {
					name += " refused"
				}
				done <- name
			}()
			synctest.Wait()
		}
		took := func(want string) {
			t.Helper()
			synctest.Wait()
			select {
			case got := <-done:
				if got != want {
					t.Errorf("%q, want %q", got, want)
				}
			default:
				t.Errorf("nothing, want %q", want)
			}
		}
		if err := errors.Join(s.Take("a", 2), s.Take("b", 1)); err != nil {
			t.Fatal(err)
		}
		wait(t.Context(), "a", "a's third")
		wait(ctx, "a", "a's fourth")
		wait(t.Context(), "c", "c") // there is a place, and those in the queue have their share
		took("c")
		wait(t.Context(), "d", "d")
		s.GiveBack("b", 1)
		took("d")
		leave()
		took("a's fourth refused")
		s.GiveBack("a", 1)
		took("a's third")
		if s.Taken() != 4 || len(done) != 0 {
			t.Errorf("%d are taken", s.Taken())
		}
	})
}
