package main

import (
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"velocityd/client"
	"velocityd/handlers"
	"velocityd/service"
	"velocityd/service/memory"
)

func TestTheSecondAttemptIsBlocked(t *testing.T) {
	t.Parallel()
	memory := memory.New()
	memory.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute})
	server := httptest.NewServer(handlers.New(handlers.Options{
		Limiter: service.NewLimiter(memory, service.LimiterOptions{Zones: memory, Timeout: time.Second}), Reader: memory, Writer: memory,
	}))
	defer server.Close()
	velocity, err := client.New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for attempt, blocked := range []bool{false, true} {
		decision, err := velocity.Check(t.Context(), service.Check{Buckets: []service.Bucket{{ZoneID: 1, Key: "alice"}}})
		if err != nil || decision.Blocked != blocked {
			t.Errorf("attempt %d: got %+v (%v), want blocked %t", attempt, decision, err, blocked)
		}
	}
}

func TestALoginAsksForUserAndAddress(t *testing.T) {
	t.Parallel()
	memory := memory.New()
	memory.SetZone(t, service.Zone{ID: 1, Rate: 1, Window: time.Minute})
	memory.SetZone(t, service.Zone{ID: 2, Rate: 9, Window: time.Minute})
	server := httptest.NewServer(handlers.New(handlers.Options{
		Limiter: service.NewLimiter(memory, service.LimiterOptions{Zones: memory, Timeout: time.Second}), Reader: memory, Writer: memory,
	}))
	defer server.Close()
	velocity, err := client.New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	address := netip.MustParseAddr("203.0.113.9")
	for attempt, wanted := range []bool{true, false} {
		if allowed, txn := mayTry(velocity, "alice", address); allowed != wanted || txn == 0 {
			t.Errorf("attempt %d: %t, txn %d, want %t", attempt, allowed, txn, wanted)
		}
	}
	if allowed, txn := mayTry(velocity, "a\x00b", address); allowed || txn != 0 {
		t.Errorf("a name that no account can have: %t, txn %d", allowed, txn)
	}
	server.Close()
	if allowed, txn := mayTry(velocity, "bob", address); allowed != failOpen || txn != 0 {
		t.Errorf("without a service: %t, txn %d", allowed, txn)
	}
}
