package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"velocityd/handlers"
	"velocityd/service/access"
)

// errNoCredential says that an instance would answer no caller.
var errNoCredential = errors.New("callers at this address must prove their identity, and no token or client " +
	"certificate is registered: make one with 'velocityd token create NAME --scope check,report'; to answer every " +
	"caller that reaches the address, say --insecure-no-auth")

// requireCredential returns errNoCredential if callers at an address must prove their identity,
// and no credential is live. Its other errors are those of the database.
func (s *Instance) requireCredential(ctx context.Context, address net.Addr) error {
	if s.options.StartsEmpty || !s.options.RequiresAuth(address) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	live, _, err := s.store.Records.LiveCredentials(ctx)
	if err == nil && len(live) == 0 {
		err = fmt.Errorf("listen at %s: %w", address, errNoCredential)
	}
	return err
}

// newCredentials returns the cache of callers' credentials. While the database is away, it knows those of file.
func (s *Instance) newCredentials(file *stateFile) *access.Cache {
	memory := &credentialMemory{Store: s.store.Records, file: file}
	cache := access.NewCache(memory, access.Options{
		OnFault: logUnrecordedUse(s.logger),
		IsAway:  func() bool { return s.checks.Circuit.IsOpen() || s.readiness.hasFailed() },
	})
	cache.Recall(memory.recall())
	return cache
}

// auth returns the rule by which callers are answered. If they must prove their identity, the instance is
// from then on not ready without the table of credentials.
func (s *Instance) auth(l *Listeners) handlers.Auth {
	auth := s.options.HTTP.Auth
	if s.options.RequiresAuth(l.ExposedAddr()) {
		auth.Callers, auth.Txns = s.credentials, s.store.History
		s.requiresAuth.Store(true)
	} else {
		for _, address := range l.reachable() {
			s.logger.LogAttrs(context.Background(), slog.LevelWarn, "every caller that reaches this address is answered "+
				"without credentials, because of --insecure-no-auth", slog.String("address", address.String()))
		}
	}
	return auth
}

// logUnrecordedUse logs that the last use of a credential could not be recorded. The use
// itself went on.
func logUnrecordedUse(logger *slog.Logger) func(error) {
	return func(err error) {
		logger.LogAttrs(context.Background(), slog.LevelWarn, "last use of a credential not recorded",
			slog.String("error", err.Error()))
	}
}
