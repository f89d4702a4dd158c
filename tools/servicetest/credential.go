package servicetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"velocityd/service"
	"velocityd/service/access"
)

// Credentials is a store of credentials in memory. It applies no rule to them.
type Credentials struct {
	mu    sync.Mutex
	all   []access.Credential // id n at index n-1
	err   error
	reads int
	uses  int
}

var (
	_ access.Store    = (*Credentials)(nil)
	_ access.Registry = (*Credentials)(nil)
)

// Add keeps a credential and returns its id.
func (s *Credentials) Add(c access.Credential) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.ID, c.CreatedAt.Time = uint64(len(s.all)+1), time.Now()
	s.all = append(s.all, c)
	return c.ID
}

// AddToken keeps a new token of caller, and returns it.
func (s *Credentials) AddToken(caller access.Caller) access.Token {
	token := access.NewToken()
	s.Add(access.NewTokenCredential(token, caller))
	return token
}

// Revoke ends a credential.
func (s *Credentials) Revoke(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[id-1].RevokedAt.Time = time.Now()
}

// Fail makes the store fail from now on with err, or answer again if err is nil.
func (s *Credentials) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// Calls returns how often credentials were read, and uses recorded.
func (s *Credentials) Calls() (reads, uses int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads, s.uses
}

// LiveCredentials implements access.Store.
func (s *Credentials) LiveCredentials(context.Context) (live []access.Credential, at time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	now := time.Now()
	for _, c := range s.all {
		if c.IsLive(now) {
			live = append(live, c)
		}
	}
	return live, now, s.err
}

// UseCredential implements access.Store.
func (s *Credentials) UseCredential(_ context.Context, id uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return fmt.Errorf("record use of credential %d: %w", id, s.err)
	}
	if used := &s.all[id-1].LastUsedAt.Time; time.Since(*used) >= time.Minute {
		*used = time.Now()
		s.uses++
	}
	return nil
}

// ListCredentials implements access.Registry.
func (s *Credentials) ListCredentials(
	_ context.Context, l access.Listing,
) (page []access.Credential, at time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, c := range s.all {
		if c.ID > l.After && len(page) < l.Limit && (c.IsLive(now) || !l.OnlyLive) {
			page = append(page, c)
		}
	}
	return page, now, s.err
}

// RevokeCredential implements access.Registry.
func (s *Credentials) RevokeCredential(_ context.Context, id uint64, principal string) (access.Credential, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id > uint64(len(s.all)) {
		return access.Credential{}, fmt.Errorf("revoke credential %d: %w", id, service.ErrNotFound)
	}
	c := &s.all[id-1]
	if !c.RevokedAt.IsZero() {
		return access.Credential{}, fmt.Errorf("revoke credential %d: %w", id, service.ErrConflict)
	}
	c.RevokedAt.Time, c.RevokedBy = time.Now(), principal
	return *c, nil
}
