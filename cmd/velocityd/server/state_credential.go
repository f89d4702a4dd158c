package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"velocityd/service"
	"velocityd/service/access"
)

// credentialMemory is a store of credentials that remembers in a file which ones it has read.
type credentialMemory struct {
	access.Store
	file *stateFile
}

const credentialsFile = "credentials.json"

// heldCredential is the part of a credential that the file holds. Digest is in hexadecimal; a token cannot
// be found from it.
type heldCredential struct {
	ID        uint64         `json:"id"`
	Kind      access.Kind    `json:"kind"`
	Digest    string         `json:"digest"`
	Name      string         `json:"name"`
	Scopes    []access.Scope `json:"scopes"`
	Zones     []int64        `json:"zones,omitempty"`
	ExpiresAt time.Time      `json:"expires_at,omitzero"`
}

// LiveCredentials implements access.Store.
func (m *credentialMemory) LiveCredentials(ctx context.Context) (live []access.Credential, at time.Time, err error) {
	live, at, err = m.Store.LiveCredentials(ctx)
	if err == nil {
		m.file.remember(holdCredentials(live))
	}
	return live, at, err
}

// recall returns the credentials that the file holds.
func (m *credentialMemory) recall() (live []access.Credential) {
	var held []heldCredential
	m.file.recall(&held, func() (err error) {
		live, err = listCredentials(held)
		return err
	})
	return live
}

func holdCredentials(live []access.Credential) []heldCredential {
	held := make([]heldCredential, len(live))
	for i, c := range live {
		held[i] = heldCredential{
			ID: c.ID, Kind: c.Kind, Digest: hex.EncodeToString(c.Digest[:]), Name: c.Name, Scopes: c.Scopes, Zones: c.Zones,
			ExpiresAt: c.ExpiresAt.Time,
		}
	}
	return held
}

// listCredentials returns the credentials that the file holds, or an error that names the first wrong one.
func listCredentials(held []heldCredential) ([]access.Credential, error) {
	live := make([]access.Credential, len(held))
	for i, h := range held {
		c := access.Credential{
			ID: h.ID, Kind: h.Kind, Name: h.Name, Scopes: h.Scopes, Zones: h.Zones, ExpiresAt: service.At(h.ExpiresAt),
		}
		digest, err := hex.DecodeString(h.Digest)
		if err == nil && len(digest) != len(c.Digest) {
			err = errors.New("its digest has another length")
		}
		if err = errors.Join(err, c.Caller().Validate()); err != nil {
			return nil, fmt.Errorf("credential %d: %w", h.ID, err)
		}
		copy(c.Digest[:], digest)
		live[i] = c
	}
	return live, nil
}
