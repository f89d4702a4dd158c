package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"velocityd/service"
)

// credentialMemory is a store of credentials that writes what it reads to the state folder.
type credentialMemory struct {
	service.CredentialStore
	folder *stateFolder
	logger *slog.Logger

	mu      sync.Mutex
	written []heldCredential // what the folder holds; nil: nothing of use
	failing bool             // the last writing has failed
}

const credentialsFile = "credentials.json"

// credentialState is what the file holds.
type credentialState struct {
	Version     int              `json:"version"`
	Credentials []heldCredential `json:"credentials"`
}

// heldCredential is what the file holds of a credential. Digest is in hexadecimal; a token cannot
// be found from it.
type heldCredential struct {
	ID        uint64          `json:"id"`
	Digest    string          `json:"digest"`
	Name      string          `json:"name"`
	Scopes    []service.Scope `json:"scopes"`
	Zones     []int64         `json:"zones,omitempty"`
	ExpiresAt time.Time       `json:"expires_at,omitzero"`
}

// LiveCredentials implements service.CredentialStore.
func (m *credentialMemory) LiveCredentials(ctx context.Context) (live []service.Credential, at time.Time, err error) {
	live, at, err = m.CredentialStore.LiveCredentials(ctx)
	if err == nil {
		m.remember(live)
	}
	return live, at, err
}

// remember writes the credentials if they have changed.
func (m *credentialMemory) remember(live []service.Credential) {
	held := make([]heldCredential, len(live))
	for i, c := range live {
		held[i] = heldCredential{
			ID: c.ID, Digest: hex.EncodeToString(c.Digest[:]), Name: c.Name, Scopes: c.Scopes, Zones: c.Zones, ExpiresAt: c.ExpiresAt,
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.written != nil && reflect.DeepEqual(held, m.written) {
		return
	}
	err := m.folder.write(credentialsFile, credentialState{stateVersion, held})
	switch {
	case err == nil:
		m.written, m.failing = held, false
	case !m.failing:
		m.failing = true
		m.logger.LogAttrs(context.Background(), slog.LevelWarn, "callers are not remembered across a restart", slog.String("error", err.Error()))
	}
}

// recall returns the credentials of the folder. If it holds nothing of use, recall logs why.
func (m *credentialMemory) recall() []service.Credential {
	live, err := m.folder.readCredentials()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.logger.LogAttrs(context.Background(), slog.LevelWarn,
			"ignoring the remembered callers: nobody is known before the database has been seen", slog.String("error", err.Error()))
	}
	return live
}

// readCredentials returns the credentials that were written last. Its errors are those of read.
func (f *stateFolder) readCredentials() ([]service.Credential, error) {
	var held credentialState
	if err := f.read(credentialsFile, &held); err != nil {
		return nil, err
	}
	live := make([]service.Credential, len(held.Credentials))
	for i, h := range held.Credentials {
		c := service.Credential{
			ID: h.ID, Kind: service.KindToken, Caller: service.Caller{Name: h.Name, Scopes: h.Scopes, Zones: h.Zones}, ExpiresAt: h.ExpiresAt,
		}
		digest, err := hex.DecodeString(h.Digest)
		if err == nil && len(digest) != len(c.Digest) {
			err = errors.New("its digest has another length")
		}
		if err = errors.Join(err, c.Caller.Validate()); err != nil {
			return nil, fmt.Errorf("%s is damaged: credential %d: %w", credentialsFile, h.ID, err)
		}
		copy(c.Digest[:], digest)
		live[i] = c
	}
	return live, nil
}
