package main

import (
	"net/netip"
	"testing"
	"time"

	"velocityd/client/fake"
	"velocityd/service"
)

func TestALoginAsksForUserAndAddress(t *testing.T) {
	t.Parallel()
	velocity := fake.New(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute},
		service.Zone{ID: 2, Rate: 9, Window: time.Minute})
	address := netip.MustParseAddr("203.0.113.9")
	for attempt, wanted := range []bool{true, false} {
		if allowed, txn := mayTry(velocity, "alice", address); allowed != wanted || txn == 0 {
			t.Errorf("attempt %d: %t, txn %d, want %t", attempt, allowed, txn, wanted)
		}
	}
	velocity.Advance(time.Minute)
	if allowed, _ := mayTry(velocity, "alice", address); !allowed {
		t.Error("blocked after the window")
	}
	if allowed, txn := mayTry(velocity, "a\x00b", address); allowed || txn != 0 {
		t.Errorf("a name that no account can have: %t, txn %d", allowed, txn)
	}
	velocity.Fail(service.ErrBusy)
	if allowed, txn := mayTry(velocity, "bob", address); allowed != failOpen || txn != 0 {
		t.Errorf("without a service: %t, txn %d", allowed, txn)
	}
}
